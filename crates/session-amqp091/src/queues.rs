//! `queue.*`: declare, bind, unbind, purge, delete.

use leveret_amqp091::method::queue;
use leveret_model::{Action, Bind, Command, DeclareQueue, DeleteQueue, DestinationName, Resource};
use leveret_queue::DeleteIf;

use super::arguments;
use super::changes::clamp;
use super::error::Result;
use super::held::Answer;
use super::questions::{AfterChange, Declared, Question};
use super::reply_consumer::is_reply_name;
use super::session::Session;
use leveret_broker::asked::NowOrLater;
use leveret_broker::queue_handle::{LedgerQueueRef, Removed, Size};
use leveret_broker::registry::ChangeRequest;
use leveret_broker::ticket::Ticket;
use leveret_broker::time::Now;

impl Session {
    /// `queue.declare`.
    pub(crate) fn queue_declare(&mut self, channel: u16, declare: &queue::Declare<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let given = &*arguments::declared_name("queue", declare.queue)?;
        if is_reply_name(given) {
            return self.declare_reply_queue(channel, given, declare.nowait);
        }
        if declare.passive {
            return self.queue_declare_passive(channel, declare, given, now);
        }
        let name = if given.is_empty() { self.client.new_name("amq.gen-") } else { given.into() };
        let options = arguments::arguments(declare.arguments)?;
        let dead_letter_exchange = options.get("x-dead-letter-exchange").and_then(|value| value.as_str());
        let permit = self.authorize(Action::DeclareQueue { queue: &name, dead_letter_exchange })?;
        self.client.name_is_used();
        // A classic queue that goes with its connection isn't durable, whatever was asked for. Other types refuse to be exclusive.
        let is_classic = options.get("x-queue-type").is_none_or(|given| given.as_str() == Some("classic"));
        let declared = DeclareQueue {
            vhost: self.client.vhost.clone(),
            name: name.clone(),
            server_named: given.is_empty(),
            durable: declare.durable && !(declare.exclusive && is_classic),
            auto_delete: declare.auto_delete,
            exclusive: declare.exclusive,
            connection: Some(self.client.id),
            arguments: options,
        };
        let request = ChangeRequest::new(permit, Command::DeclareQueue(declared));
        self.change(channel, request, AfterChange::Declare { queue: name, nowait: declare.nowait }, now)
    }

    fn queue_declare_passive(
        &mut self,
        channel: u16,
        declare: &queue::Declare<'_>,
        given: &str,
        now: Now,
    ) -> Result<()> {
        let name = if given.is_empty() { self.queue_name(channel, declare.queue)? } else { given.into() };
        let action = Action::DeclareQueue { queue: &name, dead_letter_exchange: None };
        let queue = self.usable_queue(&name, action)?;
        let size = queue.ask(Size { used: Some(now.monotonic) });
        self.channel(channel)?.declared(name.clone());
        let declared = Declared { queue: name, nowait: declare.nowait, ticket: Ticket::default() };
        self.declared_with(channel, declared, size);
        Ok(())
    }

    /// `queue.bind`.
    pub(crate) fn queue_bind(&mut self, channel: u16, bind: &queue::Bind<'_>, now: Now) -> Result<()> {
        let answer = if bind.nowait { Answer::Nothing } else { Answer::QueueBindOk { channel } };
        let name = self.declared_queue_name(channel, bind.queue)?;
        // A queue bound without a name and a key is bound by its name (specification 1.7.2.4).
        let key = if bind.queue.is_empty() && bind.routing_key.is_empty() {
            name.as_bytes().into()
        } else {
            bind.routing_key.as_bytes().into()
        };
        let command = Bind {
            vhost: self.client.vhost.clone(),
            source: (&*arguments::declared_name("exchange", bind.exchange)?).into(),
            destination: DestinationName::Queue(name),
            routing_key: key,
            arguments: arguments::arguments(bind.arguments)?,
            connection: Some(self.client.id),
        };
        self.change_binding(channel, command, true, answer, now)
    }

    /// `queue.unbind`.
    pub(crate) fn queue_unbind(&mut self, channel: u16, unbind: &queue::Unbind<'_>, now: Now) -> Result<()> {
        let command = Bind {
            vhost: self.client.vhost.clone(),
            source: (&*arguments::declared_name("exchange", unbind.exchange)?).into(),
            destination: DestinationName::Queue(self.declared_queue_name(channel, unbind.queue)?),
            routing_key: unbind.routing_key.as_bytes().into(),
            arguments: arguments::arguments(unbind.arguments)?,
            connection: Some(self.client.id),
        };
        self.change_binding(channel, command, false, Answer::QueueUnbindOk { channel }, now)
    }

    /// Binds or unbinds, after the checks that both, and both kinds of destination, have in common.
    pub(crate) fn change_binding(
        &mut self,
        channel: u16,
        bind: Bind,
        add: bool,
        answer: Answer,
        now: Now,
    ) -> Result<()> {
        if let DestinationName::Queue(name) = &bind.destination {
            self.refuse_reply_binding(name)?;
        }
        let destination = match &bind.destination {
            DestinationName::Queue(name) => Resource::Queue(name),
            DestinationName::Exchange(name) => Resource::Exchange(name),
        };
        let permit =
            self.authorize(Action::Bind { source: &bind.source, destination, routing_key: &bind.routing_key })?;
        let command = if add { Command::Bind(bind) } else { Command::Unbind(bind) };
        self.change(channel, ChangeRequest::new(permit, command), AfterChange::Answer(answer), now)
    }

    /// `queue.purge`.
    pub(crate) fn queue_purge(&mut self, channel: u16, purge: &queue::Purge<'_>, now: Now) -> Result<()> {
        let name = self.queue_name(channel, purge.queue)?;
        // Purging a failed queue is allowed: unreadable messages may be dropped.
        let queue = self.known_queue(&name, Action::Consume(&name))?;
        let queue = queue.check_purge()?;
        match queue.purge(now.monotonic) {
            NowOrLater::Now(purged) => return self.purged(channel, purge.nowait, &queue, purged),
            NowOrLater::Later(answer) => self.ask(channel, Question::Purge { nowait: purge.nowait, queue, answer }),
        }
        Ok(())
    }

    pub(super) fn purged(&mut self, channel: u16, nowait: bool, queue: &LedgerQueueRef, purged: Removed) -> Result<()> {
        let (count, ticket) = purged.ok_or_else(|| queue.not_removed())?;
        let answer = match nowait {
            true => Answer::Nothing,
            false => Answer::QueuePurgeOk { channel, messages: clamp(count) },
        };
        self.answer_when_durable(ticket, answer);
        Ok(())
    }

    /// `queue.delete`. One that doesn't exist counts as deleted.
    pub(crate) fn queue_delete(&mut self, channel: u16, delete: &queue::Delete<'_>, now: Now) -> Result<()> {
        let name = self.declared_queue_name(channel, delete.queue)?;
        let permit = self.authorize(Action::DeleteQueue(&name))?;
        let command =
            DeleteQueue { vhost: self.client.vhost.clone(), name, connection: Some(self.client.id), id: None };
        let condition = DeleteIf { unused: delete.if_unused, empty: delete.if_empty, expired: false };
        let request = ChangeRequest::delete_queue(permit, command, condition);
        self.change(channel, request, AfterChange::DeleteQueue { nowait: delete.nowait }, now)
    }
}
