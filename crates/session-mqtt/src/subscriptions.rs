//! The subscriptions of a session, and what they make of a message.

use std::sync::Arc;

use leveret_message::mqtt::{is_told_by_key, routing_key, topic_of};
use leveret_model::{Arguments, Binding, Value};
use leveret_mqtt::{QoS, SubscriptionOptions, Version, topic};

/// The argument of a binding with the options of its subscription, as in RabbitMQ.
const OPTIONS: &str = "x-mqtt-subscription-opts";
/// The argument with the key of the binding itself, as in RabbitMQ.
const BINDING_KEY: &str = "x-binding-key";
/// The argument with the topic filter, if the binding's key doesn't tell it.
const FILTER: &str = "x-mqtt-filter";

/// The queues of a session: one for subscriptions of QoS 0, one for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Messages may be lost.
    Zero,
    /// Messages are acknowledged.
    One,
}

impl Level {
    pub(crate) const BOTH: [Self; 2] = [Self::Zero, Self::One];

    /// The queue for subscriptions of this QoS.
    pub(crate) fn of(qos: QoS) -> Self {
        if qos == QoS::AtMostOnce { Self::Zero } else { Self::One }
    }

    /// The name of this queue of a client, as in RabbitMQ: users write permissions and policies for it.
    pub(crate) fn queue_name(self, client_id: &str) -> Arc<str> {
        format!("mqtt-subscription-{client_id}qos{}", self as u8).into()
    }
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub filter: Box<str>,
    pub options: SubscriptionOptions,
    /// The identifier that its client gave it.
    pub id: Option<u32>,
}

impl Subscription {
    /// The key of its binding.
    pub(crate) fn binding_key(&self) -> Arc<[u8]> {
        Arc::from(&*routing_key(&self.filter))
    }

    /// The arguments of its binding, as RabbitMQ has them. Where those wouldn't tell the subscription, there are more.
    pub(crate) fn arguments(&self, version: Version) -> Arguments {
        let mut arguments = Arguments::default();
        let options = &self.options;
        if version.has_properties() || options.qos == QoS::ExactlyOnce {
            let mut table = Arguments::from_iter([
                ("no-local", Value::from(options.no_local)),
                ("qos", Value::Int(options.qos.bits().into())),
                ("retain-as-published", Value::from(options.retain_as_published)),
                ("retain-handling", Value::Int(options.retain_handling as i64)),
            ]);
            if let Some(id) = self.id {
                table = table.with("id", Value::Int(id.into()));
            }
            arguments = arguments.with(OPTIONS, Value::Table(table));
            arguments = arguments.with(BINDING_KEY, Value::string(self.binding_key()));
        }
        if !is_told_by_key(&self.filter) {
            arguments = arguments.with(FILTER, Value::from(&*self.filter));
        }
        arguments
    }

    /// The subscription of a binding of this queue.
    pub(crate) fn of(binding: &Binding, level: Level) -> Option<Self> {
        let filter = match binding.arguments.get(FILTER).and_then(Value::as_str) {
            Some(filter) => filter.to_owned(),
            None => filter_of(&binding.routing_key)?,
        };
        if topic::check_filter(&filter).is_err() {
            // A binding made by hand, with a key that no filter has.
            return None;
        }
        let qos = if level == Level::Zero { QoS::AtMostOnce } else { QoS::AtLeastOnce };
        let mut this = Self {
            filter: filter.into(),
            options: SubscriptionOptions { qos, ..SubscriptionOptions::default() },
            id: None,
        };
        if let Some(Value::Table(table)) = binding.arguments.get(OPTIONS) {
            let number = |name: &str| table.get(name).and_then(Value::as_int).unwrap_or_default();
            let flag = |name: &str| matches!(table.get(name), Some(Value::Bool(true)));
            let bits = number("qos") & 3
                | i64::from(flag("no-local")) << 2
                | i64::from(flag("retain-as-published")) << 3
                | (number("retain-handling") & 3) << 4;
            this.options = SubscriptionOptions::of_bits(bits as u8).unwrap_or(this.options);
            this.id = u32::try_from(number("id")).ok().filter(|id| *id > 0);
        }
        Some(this)
    }

    fn matches(&self, topic: &str, came_over_mqtt: bool) -> bool {
        if topic::matches(&self.filter, topic) {
            return true;
        }
        // A dot in a filter is a letter between clients of MQTT, and a separator for others.
        !came_over_mqtt && self.filter.contains('.') && topic::matches(&self.filter.replace('.', "/"), topic)
    }
}

/// The filter of a binding's key without arguments.
fn filter_of(key: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    match key.split('.').any(|word| matches!(word, "*" | "#")) {
        // Not by `topic_of`, which has no wildcards.
        true => Some(key.replace('.', "/").replace('*', "+")),
        false => Some(topic_of(key.as_bytes()).into_owned()),
    }
}

/// A message as its receiver gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Matched {
    /// The lower QoS of the message and its subscriptions.
    pub qos: QoS,
    /// Whether a subscription leaves the retain flag as it is.
    pub retain_as_published: bool,
    /// The identifiers of its subscriptions.
    pub ids: Vec<u32>,
}

/// The message that subscriptions are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub topic: &'a str,
    pub qos: QoS,
    /// Whether it came over MQTT.
    pub came_over_mqtt: bool,
    /// Whether its publisher is the client itself.
    pub is_own: bool,
    /// Whether it was kept and is sent for a new subscription.
    pub was_kept: bool,
}

/// The subscriptions of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subscriptions(Vec<Subscription>);

impl Subscriptions {
    /// Number of subscriptions.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The subscription with this filter.
    pub(crate) fn get(&self, filter: &str) -> Option<&Subscription> {
        self.0.iter().find(|known| &*known.filter == filter)
    }

    /// Adds a subscription, in place of one with its filter.
    pub(crate) fn insert(&mut self, subscription: Subscription) {
        match self.0.iter_mut().find(|known| known.filter == subscription.filter) {
            Some(known) => *known = subscription,
            None => self.0.push(subscription),
        }
    }

    /// Removes a subscription.
    pub(crate) fn remove(&mut self, filter: &str) -> Option<Subscription> {
        let at = self.0.iter().position(|known| &*known.filter == filter)?;
        Some(self.0.swap_remove(at))
    }

    /// The delivery of a message of this queue by the subscriptions; `None` if none wants it, or if the client gets it from the other
    /// queue: of overlapping subscriptions it gets one copy.
    pub(crate) fn matching(&self, level: Level, candidate: &Candidate<'_>) -> Option<Matched> {
        let mut found: Option<Matched> = None;
        let mut highest = QoS::AtMostOnce;
        for known in &self.0 {
            if candidate.is_own && known.options.no_local || !known.matches(candidate.topic, candidate.came_over_mqtt) {
                continue;
            }
            let matched = found.get_or_insert_default();
            highest = highest.max(known.options.qos);
            matched.retain_as_published |= known.options.retain_as_published;
            matched.ids.extend(known.id);
        }
        let mut matched = found?;
        if Level::of(highest) != level && !candidate.was_kept {
            return None;
        }
        matched.qos = match level {
            Level::Zero => QoS::AtMostOnce,
            Level::One => highest.min(candidate.qos),
        };
        Some(matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(filter: &str, qos: QoS) -> Subscription {
        let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
        Subscription { filter: filter.into(), options, id: None }
    }

    fn candidate(topic: &str, qos: QoS) -> Candidate<'_> {
        Candidate { topic, qos, came_over_mqtt: true, is_own: false, was_kept: false }
    }

    #[test]
    fn overlapping_subscriptions_get_one_copy_of_the_highest_qos() {
        let mut all = Subscriptions::default();
        all.insert(Subscription { id: Some(1), ..subscription("a/#", QoS::AtMostOnce) });
        all.insert(Subscription { id: Some(2), ..subscription("a/+", QoS::ExactlyOnce) });
        let sent = candidate("a/b", QoS::AtLeastOnce);
        assert_eq!(all.matching(Level::Zero, &sent), None);
        let matched = all.matching(Level::One, &sent).expect("is wanted");
        assert_eq!((matched.qos, matched.ids), (QoS::AtLeastOnce, vec![1, 2]));
        let other = all.matching(Level::Zero, &candidate("a", QoS::AtLeastOnce)).expect("is wanted");
        assert_eq!((other.qos, other.ids), (QoS::AtMostOnce, vec![1]));
        assert_eq!(all.matching(Level::One, &candidate("b", QoS::AtLeastOnce)), None);
    }

    #[test]
    fn no_local_leaves_out_own_messages() {
        let mut all = Subscriptions::default();
        let mut own = subscription("a", QoS::AtLeastOnce);
        own.options.no_local = true;
        all.insert(own);
        let sent = candidate("a", QoS::AtLeastOnce);
        assert_eq!(all.matching(Level::One, &Candidate { is_own: true, ..sent }), None);
        assert!(all.matching(Level::One, &sent).is_some());
    }

    #[test]
    fn a_dot_is_a_letter_between_clients_of_mqtt_alone() {
        let mut all = Subscriptions::default();
        all.insert(subscription("a.b/+", QoS::AtLeastOnce));
        assert!(all.matching(Level::One, &candidate("a.b/c", QoS::AtLeastOnce)).is_some());
        let other = candidate("a/b/c", QoS::AtLeastOnce);
        assert_eq!(all.matching(Level::One, &other), None);
        assert!(all.matching(Level::One, &Candidate { came_over_mqtt: false, ..other }).is_some());
    }

    #[test]
    fn a_binding_tells_its_subscription() {
        for (version, filter, qos) in [
            (Version::V311, "a/+/#", QoS::AtLeastOnce),
            (Version::V311, "a.b/c", QoS::AtLeastOnce),
            (Version::V311, "a", QoS::ExactlyOnce),
            (Version::V50, "/", QoS::AtMostOnce),
        ] {
            let mut given = subscription(filter, qos);
            if version == Version::V50 {
                given.options.no_local = true;
                given.id = Some(70_000);
            }
            let read = filter_and_options(&given, version);
            assert_eq!(read, Some(given));
        }
        assert!(subscription("a/b", QoS::AtLeastOnce).arguments(Version::V311).is_empty(), "as in RabbitMQ");
    }

    fn filter_and_options(given: &Subscription, version: Version) -> Option<Subscription> {
        let binding = Binding {
            vhost: "/".into(),
            source: "amq.topic".into(),
            destination: leveret_model::Destination::Queue { name: "q".into(), id: leveret_model::QueueId(1) },
            routing_key: given.binding_key(),
            arguments: given.arguments(version),
            source_id: leveret_model::ExchangeId(1),
            logged: true,
        };
        Subscription::of(&binding, Level::of(given.options.qos))
    }
}
