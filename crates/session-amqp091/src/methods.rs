//! The dispatch of a client's methods to calls.

use leveret_amqp091::{
    Frame, FrameKind, Method, ReplyCode, encode_method,
    method::{access, channel, confirm},
};

use super::error::{ProtocolError, Result, not_allowed, not_implemented, precondition};
use super::held::Answer;
use super::session::{Phase, Session};
use leveret_broker::quota::{Kind, OwnLimits};
use leveret_broker::time::Now;
use leveret_broker::turn_budget::TOPOLOGY;

impl Session {
    pub(crate) fn connection_method(&mut self, number: u16, method: &Method<'_>, now: Now) -> Result<()> {
        if number != 0 {
            let text = format!("{} on channel {number} before the connection was opened", method.name());
            return Err(ProtocolError::new(ReplyCode::ChannelError, text));
        }
        match (self.phase, method) {
            (_, Method::ConnectionClose(_)) => {
                self.begin_end(Some(Answer::ConnectionCloseOk), now);
                Ok(())
            }
            (Phase::Start, Method::ConnectionStartOk(start_ok)) => self.start_ok(start_ok, now),
            (Phase::Tune, Method::ConnectionTuneOk(tune_ok)) => self.tune_ok(tune_ok, now),
            (Phase::Open, Method::ConnectionOpen(open)) => {
                self.open(open, now)?;
                self.client.silence.expect_by(None);
                Ok(())
            }
            (Phase::Running, Method::ConnectionUpdateSecret(update)) => {
                self.update_secret(update.new_secret, &update.reason.to_string(), now)
            }
            (Phase::Running, _) => {
                let text = format!("unexpected method in connection state running: {}", method.name());
                Err(ProtocolError::new(ReplyCode::ChannelError, text))
            }
            _ => {
                let text = format!("{} is not expected now (connection state {:?})", method.name(), self.phase);
                Err(ProtocolError::new(ReplyCode::CommandInvalid, text))
            }
        }
    }

    pub(crate) fn channel_method(&mut self, number: u16, method: &Method<'_>, now: Now) -> Result<()> {
        if let Method::ChannelOpen(_) = method {
            return self.channel_open(number);
        }
        self.channel(number)?;
        if changes_topology(method) {
            self.client.budget.spend(TOPOLOGY);
        }
        match method {
            Method::ChannelClose(_) => {
                self.begin_end_of_channel(number, Some(Answer::ChannelCloseOk { channel: number }), now);
                Ok(())
            }
            Method::ChannelCloseOk(_) => Ok(()),
            Method::ChannelFlow(flow) if flow.active => {
                let answer = Method::ChannelFlowOk(channel::FlowOk { active: true });
                encode_method(self.out(number), number, &answer);
                Ok(())
            }
            Method::ChannelFlow(_) => Err(not_implemented("active=false")),
            Method::AccessRequest(_) => {
                let answer = Method::AccessRequestOk(access::RequestOk { ticket: 1 });
                encode_method(self.out(number), number, &answer);
                Ok(())
            }
            Method::ConfirmSelect(select) => {
                let entry = self.channel(number)?;
                if entry.tx().is_some() {
                    return Err(precondition("cannot switch from tx to confirm mode"));
                }
                entry.select_confirms();
                if !select.nowait {
                    let answer = Method::ConfirmSelectOk(confirm::SelectOk {});
                    encode_method(self.out(number), number, &answer);
                }
                Ok(())
            }
            Method::QueueDeclare(declare) => self.queue_declare(number, declare, now),
            Method::QueueBind(bind) => self.queue_bind(number, bind, now),
            Method::QueueUnbind(unbind) => self.queue_unbind(number, unbind, now),
            Method::QueuePurge(purge) => self.queue_purge(number, purge, now),
            Method::QueueDelete(delete) => self.queue_delete(number, delete, now),
            Method::ExchangeDeclare(declare) => self.exchange_declare(number, declare, now),
            Method::ExchangeDelete(delete) => self.exchange_delete(number, delete, now),
            Method::ExchangeBind(bind) => self.exchange_bind(number, bind, now),
            Method::ExchangeUnbind(unbind) => self.exchange_unbind(number, unbind, now),
            Method::BasicQos(qos) => self.qos(number, qos, now),
            Method::BasicConsume(consume) => self.consume(number, consume, now),
            Method::BasicCancel(cancel) => self.cancel(number, cancel, now),
            Method::BasicCancelOk(_) => Ok(()),
            Method::BasicGet(get) => self.get(number, get, now),
            Method::BasicNack(nack) => self.nack(number, nack, now),
            Method::BasicReject(reject) => self.reject(number, reject, now),
            Method::BasicRecover(recover) => self.recover(number, recover.requeue, true, now),
            Method::BasicRecoverAsync(recover) => self.recover(number, recover.requeue, false, now),
            Method::TxSelect(_) => self.tx_select(number),
            Method::TxCommit(_) => self.tx_commit(number, now),
            Method::TxRollback(_) => self.tx_rollback(number),
            other => {
                // Only a broker sends these methods, or they belong to channel 0.
                let text = format!("unimplemented method: {} from a client on channel {number}", other.name());
                Err(ProtocolError::new(ReplyCode::CommandInvalid, text))
            }
        }
    }

    pub(crate) fn channel_open(&mut self, number: u16) -> Result<()> {
        if self.channels.contains_key(&number) {
            return Err(ProtocolError::new(ReplyCode::ChannelError, "second 'channel.open' seen"));
        }
        if self.client.channel_max() != 0 && number > self.client.channel_max() {
            let limit = self.client.channel_max();
            return Err(not_allowed(format!(
                "channel number {number} is above the negotiated channel_max ({limit}); raise channel_max"
            )));
        }
        let own = OwnLimits::of_channels(&self.client.broker.registry.snapshot().topology, self.client.identity.name());
        self.client.account.take_within(Kind::Channels, own).map_err(|reached| not_allowed(reached.to_string()))?;
        self.client.channel_opened(number);
        self.channels.insert(number, Box::default());
        encode_method(self.out(number), number, &Method::ChannelOpenOk(channel::OpenOk { channel_id: b"" }));
        Ok(())
    }

    pub(crate) fn closing_channel(&mut self, frame: &Frame<'_>, _now: Now) -> Result<()> {
        if frame.kind != FrameKind::Method {
            return Ok(());
        }
        match Method::decode(frame.payload)? {
            Method::ChannelCloseOk(_) => {
                self.channels.remove(&frame.channel);
            }
            Method::ChannelClose(_) => {
                self.contents.forget(frame.channel);
                let answer = Method::ChannelCloseOk(channel::CloseOk {});
                encode_method(self.out(frame.channel), frame.channel, &answer);
            }
            _ => {}
        }
        Ok(())
    }
}

fn changes_topology(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueueUnbind(_)
            | Method::QueueDelete(_)
            | Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
    )
}
