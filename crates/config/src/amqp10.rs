//! Settings of AMQP 1.0, and of authentication, which both protocols share.

use std::collections::BTreeMap;

/// Settings in [`crate::Config::amqp10`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amqp10Settings {
    /// `session_max_per_connection`.
    pub session_max: u16,
    /// `link_max_per_session`.
    pub link_max: u32,
    /// `unsettled_max_per_session`.
    pub unsettled_max: u32,
    /// `max_incoming_window`, in transfers.
    pub incoming_window_max: u32,
    /// `max_link_credit`: the initial credit of a sending client, in messages.
    pub link_credit: u32,
    /// `link_credit.adaptive`: whether the credit grows while confirms keep pace with the disk.
    pub adaptive: bool,
    /// `link_credit.max_unconfirmed_messages`: the limit of that growth in messages.
    pub unconfirmed_messages_max: u32,
    /// `link_credit.max_unconfirmed_bytes`: the limit of that growth in bytes.
    pub unconfirmed_bytes_max: u64,
    /// `max_queue_credit`: most messages that one link takes from its queue at a time.
    pub queue_credit: u32,
    /// `deprecated_features.permit.amqp_address_v1`.
    pub address_v1: bool,
    /// `auth_mechanisms.*` in order.
    pub mechanisms: Vec<String>,
    /// The mechanisms set so far, by number.
    pub(crate) given_mechanisms: BTreeMap<u8, String>,
    /// `anonymous_login_user`; `None` if anonymous logins are refused.
    pub anonymous_user: Option<String>,
    /// `anonymous_login_pass`.
    pub anonymous_password: String,
}

impl Default for Amqp10Settings {
    fn default() -> Self {
        Self {
            session_max: 64,
            link_max: 256,
            unsettled_max: 1 << 18,
            incoming_window_max: 400,
            link_credit: 170,
            adaptive: true,
            unconfirmed_messages_max: 5000,
            unconfirmed_bytes_max: 1 << 20,
            queue_credit: 256,
            address_v1: false,
            mechanisms: ["PLAIN", "AMQPLAIN", "ANONYMOUS"].map(str::to_owned).to_vec(),
            given_mechanisms: BTreeMap::new(),
            anonymous_user: Some("guest".to_owned()),
            anonymous_password: "guest".to_owned(),
        }
    }
}
