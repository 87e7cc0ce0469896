//! Counts and reports what a client opens and closes, and its logins.

use leveret_broker::authenticate::LoginOutcome;
use leveret_broker::events::{self, ConsumerEvent};
use leveret_broker::notices::Notices;
use leveret_broker::views::Client;
use leveret_model::Arguments;

use super::ClientConnection;

/// How a consumer gets its messages.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerUse {
    /// Whether it is the only consumer of its queue.
    pub exclusive: bool,
    /// Whether its deliveries are settled when they are sent.
    pub no_ack: bool,
    /// Its prefetch; 0 if there is no limit.
    pub prefetch: u16,
}

impl ClientConnection {
    /// A channel or session was opened.
    pub fn channel_opened(&mut self, number: u16) {
        self.counters.channels_opened.add(1);
        self.report(|notices, client| events::channel_opened(notices, client, number));
    }

    /// A channel or session was closed, with this number of consumers.
    pub fn channel_closed(&mut self, number: u16, consumers: usize) {
        self.counters.channels_closed.add(1);
        self.report(|notices, client| events::channel_closed(notices, client, number, consumers));
    }

    /// A consumer of a queue was added.
    pub fn consumer_opened(&mut self, consumer: &ConsumerEvent<'_>, way: ConsumerUse, arguments: &Arguments) {
        self.counters.consumers_opened.increment();
        let way = (way.exclusive, way.no_ack, way.prefetch);
        self.report(|notices, client| events::consumer_added(notices, client, consumer, way, arguments));
    }

    /// A consumer of a queue ended.
    pub fn consumer_closed(&mut self, consumer: &ConsumerEvent<'_>) {
        self.counters.consumers_closed.increment();
        self.report(|notices, client| events::consumer_removed(notices, client, consumer));
    }

    /// A user logged in by this mechanism, or didn't for this reason.
    pub(super) fn login_checked(&mut self, result: &LoginOutcome, claimed: Option<&str>, mechanism: &str) {
        let (protocol, peer) = (self.protocol.name, self.peer.clone());
        let by = (&peer, mechanism);
        match result {
            Ok(who) => {
                self.counters.auth_succeeded.increment();
                self.report(|notices, client| events::logged_in(notices, who.name(), client, protocol, by));
            }
            Err(reason) => {
                self.counters.auth_failed.increment();
                self.told("").not_authenticated(claimed, reason);
                let failure = (claimed.unwrap_or_default(), reason.as_str());
                self.report(|notices, client| events::login_failed(notices, failure, client, protocol, by));
            }
        }
    }

    fn report(&self, event: impl FnOnce(&Notices, &Client)) {
        if self.broker.notices.wants_events() {
            event(&self.broker.notices, &self.shown());
        }
    }
}
