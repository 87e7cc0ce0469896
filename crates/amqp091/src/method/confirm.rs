//! Class 85: publisher confirms (RabbitMQ's extension).

use super::fields::method;

method! {
    /// Asks for confirms on this channel.
    Select = 85, 10, "confirm.select" {
        ; bits
        /// Don't answer.
        nowait = 1,
    }
}

method! {
    /// Confirms are on.
    SelectOk = 85, 11, "confirm.select-ok" {}
}
