//! The connection's answers to inquiries.

use leveret_broker::inquiry::Inquiry;
use leveret_broker::queue_handle::ConsumerState;
use leveret_broker::time::Now;
use leveret_broker::views::{ConnectionView, PublisherView, SubscriptionView};
use leveret_model::{Arguments, Value};

use super::publishers::DeclaredPublisher;
use super::session::Session;
use super::subscriptions::Subscription;

impl Session {
    /// The connection as listings show it.
    pub(crate) fn describe(&self, inquiry: &Inquiry, now: Now) -> ConnectionView {
        let properties = self.properties.iter().map(|(name, value)| (&**name, Value::from(value.as_str())));
        ConnectionView {
            frame_max: self.tuned.frame_max(),
            timeout_s: self.tuned.heartbeat_s().into(),
            publishers: self.publishers.iter().map(|(id, publisher)| publisher_view(*id, publisher)).collect(),
            subscriptions: self.subscriptions.iter().filter_map(|(id, known)| subscription_view(*id, known)).collect(),
            client_properties: if inquiry.is_brief() { Arguments::default() } else { properties.collect() },
            ..self.client.view(self.alarm, now)
        }
    }
}

fn publisher_view(id: u8, publisher: &DeclaredPublisher) -> PublisherView {
    let counts = publisher.counts();
    PublisherView {
        id,
        stream: publisher.stream().clone(),
        reference: publisher.reference().cloned(),
        published: counts.published,
        confirmed: counts.confirmed,
        errored: counts.errored,
    }
}

/// A subscription, or `None` if its stream is gone.
fn subscription_view(id: u8, subscription: &Subscription) -> Option<SubscriptionView> {
    let status = subscription.queue().look(ConsumerState(subscription.id()))?;
    // One that waits for its turn begins where its client then asks for.
    let position = status.position.filter(|_| status.activity.is_active());
    Some(SubscriptionView {
        id,
        stream: subscription.stream().clone(),
        credits: subscription.credit(),
        consumed: subscription.consumed(),
        offset: position.map_or(0, |position| position.next.saturating_sub((subscription.consumed() > 0).into())),
        lag: position.map_or(0, |position| position.end.saturating_sub(position.next)),
        activity: status.activity,
        properties: status.arguments,
    })
}
