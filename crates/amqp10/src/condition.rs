//! Error conditions (2.8.15 to 2.8.18, 4.5.8) and others that RabbitMQ's clients know.

use crate::Symbol;

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        $($(#[$doc])* pub const $name: Symbol<'static> = Symbol::new($text);)*
    };
}

conditions! {
    /// An internal error of the broker.
    INTERNAL_ERROR = "amqp:internal-error",
    /// The addressed node doesn't exist.
    NOT_FOUND = "amqp:not-found",
    /// The user may not do this.
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access",
    /// Bytes couldn't be decoded.
    DECODE_ERROR = "amqp:decode-error",
    /// A resource limit was exceeded.
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded",
    /// Not allowed in this state.
    NOT_ALLOWED = "amqp:not-allowed",
    /// A field has an invalid value.
    INVALID_FIELD = "amqp:invalid-field",
    /// Not implemented.
    NOT_IMPLEMENTED = "amqp:not-implemented",
    /// Another connection has exclusive access to the resource.
    RESOURCE_LOCKED = "amqp:resource-locked",
    /// A precondition of the request failed.
    PRECONDITION_FAILED = "amqp:precondition-failed",
    /// The resource was deleted.
    RESOURCE_DELETED = "amqp:resource-deleted",
    /// A frame isn't allowed in this state.
    ILLEGAL_STATE = "amqp:illegal-state",
    /// A frame doesn't fit the negotiated size.
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small",
    /// An operator closed the connection.
    CONNECTION_FORCED = "amqp:connection:forced",
    /// A frame header is malformed.
    FRAMING_ERROR = "amqp:connection:framing-error",
    /// The container moved.
    CONNECTION_REDIRECT = "amqp:connection:redirect",
    /// More transfers than the session window allows.
    WINDOW_VIOLATION = "amqp:session:window-violation",
    /// An attach for a link that is attached.
    ERRANT_LINK = "amqp:session:errant-link",
    /// A handle that is in use.
    HANDLE_IN_USE = "amqp:session:handle-in-use",
    /// A handle that isn't attached.
    UNATTACHED_HANDLE = "amqp:session:unattached-handle",
    /// An operator detached the link.
    DETACH_FORCED = "amqp:link:detach-forced",
    /// More transfers than link credit allows.
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded",
    /// A message beyond max-message-size.
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded",
    /// The address moved.
    LINK_REDIRECT = "amqp:link:redirect",
    /// The link was attached elsewhere.
    STOLEN = "amqp:link:stolen",
    /// No transaction has this id.
    TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id",
    /// The transaction was rolled back.
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback",
    /// The transaction took too long.
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout",
}
