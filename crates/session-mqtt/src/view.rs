//! The connection's answers to inquiries.

use leveret_broker::inquiry::Inquiry;
use leveret_broker::time::Now;
use leveret_broker::views::ConnectionView;
use leveret_model::{Arguments, Value};

use super::session::Session;

impl Session {
    /// The connection as listings show it.
    pub(crate) fn describe(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        let properties = match inquiry.is_brief() {
            true => Arguments::default(),
            false => Arguments::from_iter([("client_id", Value::from(&**self.terms.client_id()))]),
        };
        ConnectionView {
            timeout_s: self.terms.keep_alive_s().into(),
            client_properties: properties,
            ..self.client.view(self.alarm, now)
        }
    }
}
