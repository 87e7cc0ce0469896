use super::Key;
use super::working::{in_bytes, key};
use crate::units::{boolean, integer};

/// The keys of AMQP 1.0 and of authentication.
pub(super) const KEYS: &[Key] = &[
    key("session_max_per_connection", "integer", "64", "AMQP 1.0 sessions of a connection", |config, _, value| {
        config.amqp10.session_max = integer(value, 1, 65_535)? as u16;
        Ok(())
    }),
    key("link_max_per_session", "integer", "256", "AMQP 1.0 links of a session", |config, _, value| {
        config.amqp10.link_max = integer(value, 1, 65_536)? as u32;
        Ok(())
    }),
    key(
        "unsettled_max_per_session",
        "integer",
        "262144",
        "deliveries that the client of an AMQP 1.0 session may leave unsettled; its consumers wait then",
        |config, _, value| {
            config.amqp10.unsettled_max = integer(value, 1, 1 << 24)? as u32;
            Ok(())
        },
    ),
    key("max_incoming_window", "integer", "400", "transfers that a session may send ahead", |config, _, value| {
        config.amqp10.incoming_window_max = integer(value, 1, 1 << 20)? as u32;
        Ok(())
    }),
    key("max_link_credit", "integer", "170", "messages that a new link may send", |config, _, value| {
        config.amqp10.link_credit = integer(value, 1, 65_535)? as u32;
        Ok(())
    }),
    key(
        "link_credit.adaptive",
        "boolean",
        "true",
        "whether link credit grows beyond max_link_credit while confirms keep pace with the disk",
        |config, _, value| {
            config.amqp10.adaptive = boolean(value)?;
            Ok(())
        },
    ),
    key(
        "link_credit.max_unconfirmed_messages",
        "integer",
        "5000",
        "messages of a link that may be unconfirmed with adaptive credit",
        |config, _, value| {
            config.amqp10.unconfirmed_messages_max = integer(value, 1, 1 << 20)? as u32;
            Ok(())
        },
    ),
    key("link_credit.max_unconfirmed_bytes", "bytes", "1048576", "the same in bytes", |config, _, value| {
        config.amqp10.unconfirmed_bytes_max = in_bytes(value, 4096, 1 << 30)?;
        Ok(())
    }),
    key(
        "max_queue_credit",
        "integer",
        "256",
        "messages that a link takes from its queue at once",
        |config, _, value| {
            config.amqp10.queue_credit = integer(value, 1, 256)? as u32;
            Ok(())
        },
    ),
    key(
        "auth_mechanisms.$number",
        "mechanism",
        "PLAIN, AMQPLAIN, ANONYMOUS",
        "a way to log in, in the order of the numbers; the first of them replaces the default",
        |config, number, value| {
            let number = integer(number, 1, 99)? as u8;
            if !["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"].contains(&value) {
                return Err(format!(
                    "expected PLAIN, AMQPLAIN, ANONYMOUS or EXTERNAL, got '{value}': no other mechanism is built yet"
                ));
            }
            config.amqp10.given_mechanisms.insert(number, value.to_owned());
            config.amqp10.mechanisms = config.amqp10.given_mechanisms.values().cloned().collect();
            Ok(())
        },
    ),
    key(
        "anonymous_login_user",
        "name",
        "guest",
        "user that ANONYMOUS logs in as; none disables it",
        |config, _, value| {
            config.amqp10.anonymous_user = (value != "none").then(|| value.to_owned());
            Ok(())
        },
    ),
    key("anonymous_login_pass", "text", "guest", "that user's password", |config, _, value| {
        config.amqp10.anonymous_password = value.to_owned();
        Ok(())
    }),
];
