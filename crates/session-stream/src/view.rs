//! The connection's answers to inquiries.

use leveret_broker::inquiry::Inquiry;
use leveret_broker::time::Now;
use leveret_broker::views::ConnectionView;
use leveret_model::{Arguments, Value};

use super::session::Session;

impl Session {
    /// The connection as listings show it.
    pub(crate) fn describe(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        let properties = self.properties.iter().map(|(name, value)| (&**name, Value::from(value.as_str())));
        ConnectionView {
            frame_max: self.frame_max,
            timeout_s: self.heartbeat_s.into(),
            client_properties: if inquiry.is_brief() { Arguments::default() } else { properties.collect() },
            ..self.client.view(self.alarm, now)
        }
    }
}
