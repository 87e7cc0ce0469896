//! `exchange.*`: declare, delete, bind, unbind.

use leveret_amqp091::{Method, encode_method, method::exchange};
use leveret_model::{Action, Bind, Command, DeclareExchange, DeleteExchange, DestinationName};

use super::arguments;
use super::error::Result;
use super::held::Answer;
use super::questions::AfterChange;
use super::session::Session;
use leveret_broker::registry::ChangeRequest;
use leveret_broker::time::Now;

impl Session {
    /// `exchange.declare`.
    pub(crate) fn exchange_declare(&mut self, channel: u16, declare: &exchange::Declare<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let name = &*arguments::declared_name("exchange", declare.exchange)?;
        let options = arguments::arguments(declare.arguments)?;
        let alternate = options.get("alternate-exchange").and_then(|value| value.as_str());
        if declare.passive {
            self.authorize(Action::DeclareExchange { exchange: name, alternate: None })?;
            self.client.broker.registry.snapshot().topology.passive_exchange(&self.client.vhost, name)?;
            if !declare.nowait {
                let answer = Method::ExchangeDeclareOk(exchange::DeclareOk {});
                encode_method(self.out(channel), channel, &answer);
            }
            return Ok(());
        }
        let permit = self.authorize(Action::DeclareExchange { exchange: name, alternate })?;
        let command = Command::DeclareExchange(DeclareExchange {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            kind: arguments::name("exchange type", declare.kind)?.into(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: options.clone(),
        });
        let answer = if declare.nowait { Answer::Nothing } else { Answer::ExchangeDeclareOk { channel } };
        self.change(channel, ChangeRequest::new(permit, command), AfterChange::Answer(answer), now)
    }

    /// `exchange.delete`. One that doesn't exist counts as deleted.
    pub(crate) fn exchange_delete(&mut self, channel: u16, delete: &exchange::Delete<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let name = &*arguments::declared_name("exchange", delete.exchange)?;
        let permit = self.authorize(Action::DeleteExchange(name))?;
        let command = Command::DeleteExchange(DeleteExchange {
            vhost: self.client.vhost.clone(),
            name: name.into(),
            if_unused: delete.if_unused,
        });
        let answer = if delete.nowait { Answer::Nothing } else { Answer::ExchangeDeleteOk { channel } };
        self.change(channel, ChangeRequest::new(permit, command), AfterChange::Answer(answer), now)
    }

    /// `exchange.bind`.
    pub(crate) fn exchange_bind(&mut self, channel: u16, bind: &exchange::Bind<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let answer = if bind.nowait { Answer::Nothing } else { Answer::ExchangeBindOk { channel } };
        let command = self.exchange_binding(bind.source, bind.destination, bind.routing_key, bind.arguments)?;
        self.change_binding(channel, command, true, answer, now)
    }

    /// `exchange.unbind`.
    pub(crate) fn exchange_unbind(&mut self, channel: u16, unbind: &exchange::Unbind<'_>, now: Now) -> Result<()> {
        self.channel(channel)?;
        let answer = if unbind.nowait { Answer::Nothing } else { Answer::ExchangeUnbindOk { channel } };
        let command = self.exchange_binding(unbind.source, unbind.destination, unbind.routing_key, unbind.arguments)?;
        self.change_binding(channel, command, false, answer, now)
    }

    fn exchange_binding(
        &self,
        source: leveret_amqp091::ShortStr<'_>,
        destination: leveret_amqp091::ShortStr<'_>,
        routing_key: leveret_amqp091::ShortStr<'_>,
        table: leveret_amqp091::Table<'_>,
    ) -> Result<Bind> {
        Ok(Bind {
            vhost: self.client.vhost.clone(),
            source: (&*arguments::declared_name("exchange", source)?).into(),
            destination: DestinationName::Exchange((&*arguments::declared_name("exchange", destination)?).into()),
            routing_key: routing_key.as_bytes().into(),
            arguments: arguments::arguments(table)?,
            connection: Some(self.client.id),
        })
    }
}
