//! Methods: one file per class, one struct per method (specification 1.4 and RabbitMQ's extensions).

pub mod access;
pub mod basic;
pub mod channel;
pub mod confirm;
pub mod connection;
pub mod exchange;
mod fields;
pub mod queue;
pub mod tx;

use crate::DecodeError;
use crate::wire::Reader;
use fields::MethodFields;

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $class:ident::$name:ident,)*) => {
        /// Any method. Borrows its strings and tables from the frame's payload.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Method<'a> {
            $($(#[$doc])* $variant($type),)*
        }

        impl<'a> Method<'a> {
            /// Decodes the payload of a method frame: ids, then arguments, and nothing after them.
            ///
            /// # Errors
            /// If the ids are unknown or the arguments malformed. Tables are checked to their last byte.
            #[inline]
            pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(payload);
                let key = (u32::from(reader.short()?) << 16) | u32::from(reader.short()?);
                if key == basic::Publish::KEY {
                    let publish = basic::Publish::read(&mut reader)?;
                    reader.finish()?;
                    return Ok(Self::BasicPublish(publish));
                }
                Self::decode_arguments(key, reader)
            }

            #[inline(never)]
            fn decode_arguments(key: u32, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
                let method = match key {
                    $($class::$name::KEY => Self::$variant($class::$name::read(&mut reader)?),)*
                    _ => {
                        return Err(DecodeError::UnknownMethod {
                            class_id: (key >> 16) as u16,
                            method_id: key as u16,
                        });
                    }
                };
                reader.finish()?;
                Ok(method)
            }

            /// Appends the payload of a method frame. [`encode_method`](crate::encode_method) writes the whole frame.
            ///
            /// # Panics
            /// If a long string or table has 4 GiB or more.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant(fields) => {
                        out.extend_from_slice(&$class::$name::KEY.to_be_bytes());
                        fields.write(out);
                    })*
                }
            }

            /// The specification's name, such as `basic.publish`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $class::$name::NAME,)*
                }
            }

            fn key(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $class::$name::KEY,)*
                }
            }
        }

        $(impl<'a> From<$type> for Method<'a> {
            fn from(fields: $type) -> Self {
                Self::$variant(fields)
            }
        })*

        /// Ids and name of every method, in the order of this crate's list.
        pub const METHODS: &[(u16, u16, &str)] = &[
            $((
                ($class::$name::KEY >> 16) as u16,
                $class::$name::KEY as u16,
                $class::$name::NAME,
            ),)*
        ];
    };
}

methods! {
    /// `connection.start`
    ConnectionStart(connection::Start<'a>) = connection::Start,
    /// `connection.start-ok`
    ConnectionStartOk(connection::StartOk<'a>) = connection::StartOk,
    /// `connection.secure`
    ConnectionSecure(connection::Secure<'a>) = connection::Secure,
    /// `connection.secure-ok`
    ConnectionSecureOk(connection::SecureOk<'a>) = connection::SecureOk,
    /// `connection.tune`
    ConnectionTune(connection::Tune) = connection::Tune,
    /// `connection.tune-ok`
    ConnectionTuneOk(connection::TuneOk) = connection::TuneOk,
    /// `connection.open`
    ConnectionOpen(connection::Open<'a>) = connection::Open,
    /// `connection.open-ok`
    ConnectionOpenOk(connection::OpenOk<'a>) = connection::OpenOk,
    /// `connection.close`
    ConnectionClose(connection::Close<'a>) = connection::Close,
    /// `connection.close-ok`
    ConnectionCloseOk(connection::CloseOk) = connection::CloseOk,
    /// `connection.blocked`
    ConnectionBlocked(connection::Blocked<'a>) = connection::Blocked,
    /// `connection.unblocked`
    ConnectionUnblocked(connection::Unblocked) = connection::Unblocked,
    /// `connection.update-secret`
    ConnectionUpdateSecret(connection::UpdateSecret<'a>) = connection::UpdateSecret,
    /// `connection.update-secret-ok`
    ConnectionUpdateSecretOk(connection::UpdateSecretOk) = connection::UpdateSecretOk,
    /// `channel.open`
    ChannelOpen(channel::Open<'a>) = channel::Open,
    /// `channel.open-ok`
    ChannelOpenOk(channel::OpenOk<'a>) = channel::OpenOk,
    /// `channel.flow`
    ChannelFlow(channel::Flow) = channel::Flow,
    /// `channel.flow-ok`
    ChannelFlowOk(channel::FlowOk) = channel::FlowOk,
    /// `channel.close`
    ChannelClose(channel::Close<'a>) = channel::Close,
    /// `channel.close-ok`
    ChannelCloseOk(channel::CloseOk) = channel::CloseOk,
    /// `access.request`
    AccessRequest(access::Request<'a>) = access::Request,
    /// `access.request-ok`
    AccessRequestOk(access::RequestOk) = access::RequestOk,
    /// `exchange.declare`
    ExchangeDeclare(exchange::Declare<'a>) = exchange::Declare,
    /// `exchange.declare-ok`
    ExchangeDeclareOk(exchange::DeclareOk) = exchange::DeclareOk,
    /// `exchange.delete`
    ExchangeDelete(exchange::Delete<'a>) = exchange::Delete,
    /// `exchange.delete-ok`
    ExchangeDeleteOk(exchange::DeleteOk) = exchange::DeleteOk,
    /// `exchange.bind`
    ExchangeBind(exchange::Bind<'a>) = exchange::Bind,
    /// `exchange.bind-ok`
    ExchangeBindOk(exchange::BindOk) = exchange::BindOk,
    /// `exchange.unbind`
    ExchangeUnbind(exchange::Unbind<'a>) = exchange::Unbind,
    /// `exchange.unbind-ok`
    ExchangeUnbindOk(exchange::UnbindOk) = exchange::UnbindOk,
    /// `queue.declare`
    QueueDeclare(queue::Declare<'a>) = queue::Declare,
    /// `queue.declare-ok`
    QueueDeclareOk(queue::DeclareOk<'a>) = queue::DeclareOk,
    /// `queue.bind`
    QueueBind(queue::Bind<'a>) = queue::Bind,
    /// `queue.bind-ok`
    QueueBindOk(queue::BindOk) = queue::BindOk,
    /// `queue.unbind`
    QueueUnbind(queue::Unbind<'a>) = queue::Unbind,
    /// `queue.unbind-ok`
    QueueUnbindOk(queue::UnbindOk) = queue::UnbindOk,
    /// `queue.purge`
    QueuePurge(queue::Purge<'a>) = queue::Purge,
    /// `queue.purge-ok`
    QueuePurgeOk(queue::PurgeOk) = queue::PurgeOk,
    /// `queue.delete`
    QueueDelete(queue::Delete<'a>) = queue::Delete,
    /// `queue.delete-ok`
    QueueDeleteOk(queue::DeleteOk) = queue::DeleteOk,
    /// `basic.qos`
    BasicQos(basic::Qos) = basic::Qos,
    /// `basic.qos-ok`
    BasicQosOk(basic::QosOk) = basic::QosOk,
    /// `basic.consume`
    BasicConsume(basic::Consume<'a>) = basic::Consume,
    /// `basic.consume-ok`
    BasicConsumeOk(basic::ConsumeOk<'a>) = basic::ConsumeOk,
    /// `basic.cancel`
    BasicCancel(basic::Cancel<'a>) = basic::Cancel,
    /// `basic.cancel-ok`
    BasicCancelOk(basic::CancelOk<'a>) = basic::CancelOk,
    /// `basic.publish`
    BasicPublish(basic::Publish<'a>) = basic::Publish,
    /// `basic.return`
    BasicReturn(basic::Return<'a>) = basic::Return,
    /// `basic.deliver`
    BasicDeliver(basic::Deliver<'a>) = basic::Deliver,
    /// `basic.get`
    BasicGet(basic::Get<'a>) = basic::Get,
    /// `basic.get-ok`
    BasicGetOk(basic::GetOk<'a>) = basic::GetOk,
    /// `basic.get-empty`
    BasicGetEmpty(basic::GetEmpty<'a>) = basic::GetEmpty,
    /// `basic.ack`
    BasicAck(basic::Ack) = basic::Ack,
    /// `basic.reject`
    BasicReject(basic::Reject) = basic::Reject,
    /// `basic.recover-async`
    BasicRecoverAsync(basic::RecoverAsync) = basic::RecoverAsync,
    /// `basic.recover`
    BasicRecover(basic::Recover) = basic::Recover,
    /// `basic.recover-ok`
    BasicRecoverOk(basic::RecoverOk) = basic::RecoverOk,
    /// `basic.nack`
    BasicNack(basic::Nack) = basic::Nack,
    /// `confirm.select`
    ConfirmSelect(confirm::Select) = confirm::Select,
    /// `confirm.select-ok`
    ConfirmSelectOk(confirm::SelectOk) = confirm::SelectOk,
    /// `tx.select`
    TxSelect(tx::Select) = tx::Select,
    /// `tx.select-ok`
    TxSelectOk(tx::SelectOk) = tx::SelectOk,
    /// `tx.commit`
    TxCommit(tx::Commit) = tx::Commit,
    /// `tx.commit-ok`
    TxCommitOk(tx::CommitOk) = tx::CommitOk,
    /// `tx.rollback`
    TxRollback(tx::Rollback) = tx::Rollback,
    /// `tx.rollback-ok`
    TxRollbackOk(tx::RollbackOk) = tx::RollbackOk,
}

impl Method<'_> {
    /// Class id and method id.
    #[must_use]
    pub fn id(&self) -> (u16, u16) {
        let key = self.key();
        ((key >> 16) as u16, key as u16)
    }

    /// Whether a content header follows the method: `basic.publish`, `basic.return`, `basic.deliver` and
    /// `basic.get-ok`.
    #[must_use]
    pub fn has_content(&self) -> bool {
        matches!(self, Self::BasicPublish(_) | Self::BasicReturn(_) | Self::BasicDeliver(_) | Self::BasicGetOk(_))
    }
}

/// The name of the method with these ids, such as `basic.publish`.
#[must_use]
pub fn name_of(class_id: u16, method_id: u16) -> Option<&'static str> {
    METHODS.iter().find(|(class, method, _)| (*class, *method) == (class_id, method_id)).map(|(_, _, name)| *name)
}
