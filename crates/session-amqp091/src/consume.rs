//! `basic.qos` and `basic.consume`.

use leveret_amqp091::method::basic;
use leveret_amqp091::{Method, ReplyCode, encode_method};
use leveret_model::{Action, Refused};
use leveret_queue::{ConsumerFlow, ConsumerMode, ConsumerOptions};

use super::consumer::Consumer;
use super::encode::short;
use super::error::{ProtocolError, Result, not_allowed, not_implemented, precondition};
use super::questions::{Consuming, Question, WantedConsumer};
use super::reply_consumer::is_reply_name;
use super::session::Session;
use super::unsettled::is_limited;
use super::{arguments, streams};
use leveret_broker::asked::NowOrLater;
use leveret_broker::consumer_timeout::ConsumerTimeout;
use leveret_broker::events::ConsumerEvent;
use leveret_broker::queue_handle::NoConsumer;
use leveret_broker::quota::Kind;
use leveret_broker::reply_to::REPLY_TO;
use leveret_broker::settings::GlobalPrefetch;
use leveret_broker::time::Now;
use leveret_session::client_connection::ConsumerUse;
use leveret_session::early_signals::EarlySignals;
use leveret_session::stream_start::too_many_names;

impl Session {
    /// `basic.qos`. A global prefetch is shared by the channel's consumers, if the node has that.
    pub(crate) fn qos(&mut self, channel: u16, qos: &basic::Qos, now: Now) -> Result<()> {
        let is_shared = qos.global && self.client.broker.settings.global_prefetch.is_shared();
        let entry = self.channel(channel)?;
        if qos.prefetch_size != 0 {
            return Err(not_implemented(format!("prefetch_size!=0 ({})", qos.prefetch_size)));
        }
        match is_shared {
            true => {
                entry.share_prefetch(qos.prefetch_count);
                self.settled_some(channel, now);
            }
            false => entry.set_prefetch(qos.prefetch_count),
        }
        encode_method(self.out(channel), channel, &Method::BasicQosOk(basic::QosOk {}));
        Ok(())
    }

    /// `basic.consume`.
    pub(crate) fn consume(&mut self, channel: u16, consume: &basic::Consume<'_>, now: Now) -> Result<()> {
        let name = self.queue_name(channel, consume.queue)?;
        if &*name == REPLY_TO {
            return self.consume_replies(channel, consume);
        }
        if is_reply_name(&name) {
            return Err(self.refuse_reply_queue(&name, "basic.consume"));
        }
        let options = arguments::arguments(consume.arguments)?;
        let tag = self.free_consumer_tag(channel, consume.consumer_tag)?;
        let (no_ack, exclusive, nowait) = (consume.no_ack, consume.exclusive, consume.nowait);
        self.consume_from(channel, WantedConsumer { name, tag, no_ack, exclusive, nowait, options }, now)
    }

    /// Asks a queue for a consumer.
    fn consume_from(&mut self, channel: u16, wanted: WantedConsumer, now: Now) -> Result<()> {
        let WantedConsumer { name, tag, no_ack, exclusive, options, .. } = &wanted;
        let queue = self.usable_queue(name, Action::Consume(name))?;
        leveret_model::check_consumer_arguments(&self.client.vhost, name, queue.info().queue_type(), options)?;
        let (default, global) =
            (self.client.broker.settings.default_prefetch, self.client.broker.settings.global_prefetch);
        let entry = self.channel(channel)?;
        let mut prefetch = if entry.prefetch() == 0 { default } else { entry.prefetch() };
        // Other queues than classic ones have no part in a shared prefetch.
        let shared = entry.unsettled().shared().filter(|_| !is_limited(&queue)).map(|shared| shared.limit());
        if let Some(shared) = shared.filter(|_| global != GlobalPrefetch::SharedStrictly) {
            prefetch = shared;
        }
        let stream = streams::options(queue.info(), options, (*no_ack, prefetch, tag), now.wall_ms)?;
        if shared.is_some() && global == GlobalPrefetch::SharedStrictly {
            let vhost = &self.client.vhost;
            return Err(not_implemented(format!("queue '{name}' in vhost '{vhost}' does not support global qos")));
        }
        self.take_consumer(channel)?;
        let id = self.client.broker.fresh_consumer_id();
        let key = id.0;
        let timeout_ms = leveret_model::consumer_timeout_ms(options);
        let timeout = ConsumerTimeout::of(queue.effective().options(queue.info()), timeout_ms);
        let options = ConsumerOptions {
            link: self.client.outbox.clone(),
            key,
            tag: String::from_utf8_lossy(tag).into(),
            channel: format!("{} ({channel})", self.client.name).into(),
            automatic_ack: *no_ack,
            flow: ConsumerFlow::Prefetch(u32::from(prefetch)),
            priority: leveret_model::consumer_priority(options),
            exclusive: *exclusive,
            mode: ConsumerMode::Move,
            filter: None,
            stream,
            timeout_ms,
            user: self.client.identity.name().clone(),
            arguments: options.clone(),
        };
        let asked = queue.consume(id, options, now.monotonic);
        let consuming = Consuming { wanted, queue, id, timeout, prefetch };
        match asked {
            NowOrLater::Now(added) => self.consumed(channel, consuming, added, now),
            NowOrLater::Later(answer) => {
                let (consuming, early) = (Box::new(consuming), EarlySignals::new(key));
                self.ask(channel, Question::Consume { consuming, answer, early });
                Ok(())
            }
        }
    }

    /// Handles the answer of the queue.
    pub(super) fn consumed(
        &mut self,
        channel: u16,
        consuming: Consuming,
        added: std::result::Result<(), NoConsumer>,
        now: Now,
    ) -> Result<()> {
        let Consuming { wanted, queue, id, timeout, prefetch } = consuming;
        if let Err(reason) = added {
            self.not_consumed();
            let name = &wanted.name;
            return Err(match reason {
                // It has another type now.
                NoConsumer::Converted => return self.consume_from(channel, wanted, now),
                NoConsumer::Gone => Refused::no_queue(&self.client.vhost, name).into(),
                NoConsumer::Failed(reason) => ProtocolError::new(ReplyCode::NotFound, queue.crashed(&reason)),
                // Groups have subscriptions of the stream protocol only; another node says it by mistake.
                NoConsumer::OtherPartition => precondition(format!("queue '{name}' is another partition")),
                NoConsumer::TooManyNames => precondition(too_many_names(queue.info())),
                NoConsumer::Exclusive => {
                    let text = format!("queue '{name}' in vhost '{}' in exclusive use", self.client.vhost);
                    ProtocolError::new(ReplyCode::AccessRefused, text)
                }
            });
        }
        let WantedConsumer { name, tag, no_ack, exclusive, nowait, options } = wanted;
        let entry = self.channel(channel)?;
        let source = entry.unsettled_mut().consumer_source(&queue, id, timeout);
        entry.add_consumer(tag.clone(), id.0);
        let consumer = Consumer::new(id, (channel, tag.clone()), queue, no_ack, (source, timeout));
        self.consumers.insert(id.0, Box::new(consumer));
        let way = ConsumerUse { exclusive, no_ack, prefetch };
        let event = ConsumerEvent { channel, tag: &tag, queue: &name };
        self.client.consumer_opened(&event, way, &options);
        if !nowait {
            let answer = Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&tag) });
            encode_method(self.out(channel), channel, &answer);
        }
        Ok(())
    }

    /// Counts one more consumer.
    fn take_consumer(&mut self, channel: u16) -> Result<()> {
        let limit = self.client.broker.settings.consumers_per_channel_max;
        let have = self.channel(channel)?.consumers();
        if have as u64 >= limit {
            let text = format!("reached maximum ({limit}) of consumers per channel; raise consumer_max_per_channel");
            return Err(not_allowed(text));
        }
        Ok(self.client.account.take(Kind::Consumers)?)
    }
}
