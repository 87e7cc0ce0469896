//! Class 10: the connection.

use super::fields::method;
use crate::{ShortStr, Table};

method! {
    /// The server's greeting.
    Start['a] = 10, 10, "connection.start" {
        /// Always 0.
        version_major: u8,
        /// Always 9.
        version_minor: u8,
        /// Product, version, capabilities ...
        server_properties: Table<'a>,
        /// SASL mechanisms, separated by spaces.
        mechanisms: &'a [u8],
        /// Locales, separated by spaces.
        locales: &'a [u8],
    }
}

method! {
    /// The client's choice of mechanism, with its first response.
    StartOk['a] = 10, 11, "connection.start-ok" {
        /// Product, version, capabilities ...
        client_properties: Table<'a>,
        /// The SASL mechanism chosen.
        mechanism: ShortStr<'a>,
        /// The mechanism's initial response.
        response: &'a [u8],
        /// The locale chosen.
        locale: ShortStr<'a>,
    }
}

method! {
    /// A further SASL challenge.
    Secure['a] = 10, 20, "connection.secure" {
        /// The mechanism's data.
        challenge: &'a [u8],
    }
}

method! {
    /// The response to a challenge.
    SecureOk['a] = 10, 21, "connection.secure-ok" {
        /// The mechanism's data.
        response: &'a [u8],
    }
}

method! {
    /// The server's limits.
    Tune = 10, 30, "connection.tune" {
        /// Highest channel number, 0 for no limit.
        channel_max: u16,
        /// Largest frame in bytes, header and end marker included; 0 for no limit.
        frame_max: u32,
        /// Heartbeat interval in seconds, 0 for none.
        heartbeat: u16,
    }
}

method! {
    /// The limits that the client chose.
    TuneOk = 10, 31, "connection.tune-ok" {
        /// Highest channel number, 0 for no limit.
        channel_max: u16,
        /// Largest frame in bytes, header and end marker included; 0 for no limit.
        frame_max: u32,
        /// Heartbeat interval in seconds, 0 for none.
        heartbeat: u16,
    }
}

method! {
    /// Opens the connection to a virtual host.
    Open['a] = 10, 40, "connection.open" {
        /// Name of the virtual host.
        virtual_host: ShortStr<'a>,
        /// Obsolete.
        capabilities: ShortStr<'a>,
        ; bits
        /// Obsolete.
        insist = 1,
    }
}

method! {
    /// The connection is open.
    OpenOk['a] = 10, 41, "connection.open-ok" {
        /// Obsolete.
        known_hosts: ShortStr<'a>,
    }
}

method! {
    /// Closes the connection, from either side.
    Close['a] = 10, 50, "connection.close" {
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
    /// The connection is closed.
    CloseOk = 10, 51, "connection.close-ok" {}
}

method! {
    /// The server stops accepting publishes (RabbitMQ's extension).
    Blocked['a] = 10, 60, "connection.blocked" {
        /// The reason.
        reason: ShortStr<'a>,
    }
}

method! {
    /// The server accepts publishes again (RabbitMQ's extension).
    Unblocked = 10, 61, "connection.unblocked" {}
}

method! {
    /// Replaces the secret, such as an OAuth token, of an open connection (RabbitMQ's extension).
    UpdateSecret['a] = 10, 70, "connection.update-secret" {
        /// The secret.
        new_secret: &'a [u8],
        /// The reason, for logs.
        reason: ShortStr<'a>,
    }
}

method! {
    /// The secret is replaced.
    UpdateSecretOk = 10, 71, "connection.update-secret-ok" {}
}
