//! A search for the retained messages of a new subscription.

use std::sync::Arc;

use leveret_mqtt::QoS;

use super::subscriptions::Subscription;

/// A search for the retained messages of a new subscription.
pub(crate) struct Search {
    pub filter: Box<str>,
    pub qos: QoS,
    pub id: Option<u32>,
    /// The last topic that was looked at.
    pub after: Option<Arc<str>>,
}

impl Search {
    pub(crate) fn new(subscription: &Subscription) -> Self {
        let (filter, qos) = (subscription.filter.clone(), subscription.options.qos);
        Self { filter, qos, id: subscription.id, after: None }
    }
}
