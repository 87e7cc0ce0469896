//! Class 20: channels.

use super::fields::method;
use crate::ShortStr;

method! {
    /// Opens a channel.
    Open['a] = 20, 10, "channel.open" {
        /// Obsolete.
        out_of_band: ShortStr<'a>,
    }
}

method! {
    /// The channel is open.
    OpenOk['a] = 20, 11, "channel.open-ok" {
        /// Obsolete.
        channel_id: &'a [u8],
    }
}

method! {
    /// Asks the peer to pause or resume content.
    Flow = 20, 20, "channel.flow" {
        ; bits
        /// True to resume.
        active = 1,
    }
}

method! {
    /// Answers `channel.flow`.
    FlowOk = 20, 21, "channel.flow-ok" {
        ; bits
        /// The new state.
        active = 1,
    }
}

method! {
    /// Closes a channel, from either side.
    Close['a] = 20, 40, "channel.close" {
        /// The code, see [`ReplyCode`](crate::ReplyCode).
        reply_code: u16,
        /// The reason as text.
        reply_text: ShortStr<'a>,
        /// Class of the method that failed, or 0.
        class_id: u16,
        /// Method that failed, or 0.
        method_id: u16,
    }
}

method! {
    /// The channel is closed.
    CloseOk = 20, 41, "channel.close-ok" {}
}
