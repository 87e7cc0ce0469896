//! Gossip: what this node tells the other members of itself, and what they told it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leveret_broker::addresses::{ClientAddress, host_of};
use leveret_broker::{AlarmSource, Broker, CountsElsewhere};
use leveret_cluster::{ReplicaRole, ReplicaStatus};
use leveret_model::MemberNumber;
use leveret_peer::{Gossip, GossipAddress, GossipCount, GossipListener, GossipReplica, GossipSetting};
use parking_lot::Mutex;

use super::agreed_time::{ALIKE_MS, HeardClock};
use super::page_sessions::PageSessions;

/// Interval at which clocks and indexes are told.
pub(crate) const PULSE: Duration = Duration::from_secs(1);
/// Time for which clocks have to differ before it is said: words that wait while a process stands still look late.
const SKEW_PATIENCE: Duration = Duration::from_secs(3);

/// A function that gives the open listeners.
type Listeners = Box<dyn Fn() -> Vec<GossipListener> + Send>;

/// The address that clients are told of the listeners of a protocol.
#[derive(Clone, Debug)]
pub(crate) struct AdvertisedAddress {
    /// RabbitMQ's name of the protocol.
    pub protocol: &'static str,
    /// The host, instead of that in the node's name.
    pub host: Option<String>,
    /// The port, instead of the listener's.
    pub port: Option<u16>,
}

/// The words of a node about itself that other threads give.
#[derive(Default)]
pub(crate) struct OwnWords {
    /// The keys of its configuration that were set, but for those of the node alone.
    pub settings: Vec<GossipSetting>,
    /// Whether alarms of other nodes stop the publishers of this one.
    pub alarms_are_shared: bool,
    /// The addresses that clients are told of its listeners.
    advertised: Vec<AdvertisedAddress>,
    /// The sessions of the page that were ended.
    pub page_sessions: Arc<PageSessions>,
    cores: u32,
    listeners: Mutex<Option<Listeners>>,
}

impl std::fmt::Debug for OwnWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnWords").field("alarms_are_shared", &self.alarms_are_shared).finish_non_exhaustive()
    }
}

impl OwnWords {
    pub(crate) fn new(
        settings: Vec<GossipSetting>,
        alarms_are_shared: bool,
        advertised: Vec<AdvertisedAddress>,
    ) -> Self {
        // It reads files of the system.
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        OwnWords {
            settings,
            alarms_are_shared,
            advertised,
            page_sessions: Arc::default(),
            cores,
            listeners: Mutex::default(),
        }
    }

    /// The addresses for clients, given the open listeners.
    fn addresses(&self, listeners: &[GossipListener], node_name: &str) -> Vec<GossipAddress> {
        let of = |AdvertisedAddress { protocol, host, port }: &AdvertisedAddress| {
            let listener = listeners.iter().find(|listener| listener.protocol == *protocol)?;
            let host = host.as_deref().unwrap_or(host_of(node_name)).to_owned();
            Some(GossipAddress { protocol: (*protocol).to_owned(), host, port: port.unwrap_or(listener.port) })
        };
        self.advertised.iter().filter_map(of).collect()
    }

    /// Sets the function that gives the open listeners.
    pub(crate) fn set_listeners(&self, listeners: impl Fn() -> Vec<GossipListener> + Send + 'static) {
        *self.listeners.lock() = Some(Box::new(listeners));
    }

    /// The node's words that are told at once.
    pub(crate) fn now(&self, broker: &Broker) -> Gossip {
        let listeners = self.listeners.lock().as_ref().map(|listeners| listeners()).unwrap_or_default();
        let mut words = Gossip {
            addresses: Some(self.addresses(&listeners, &broker.settings.node_name)),
            alarms: Some(broker.alarms.raised().map(|source| source.name().to_owned()).collect()),
            is_in_maintenance: Some(broker.is_in_maintenance()),
            cores: Some(self.cores),
            version: Some(broker.settings.version.clone()),
            listeners: Some(listeners),
            settings: Some(self.settings.clone()),
            ..Gossip::default()
        };
        self.page_sessions.add(&mut words);
        words
    }

    /// Adds the words that are told each second, but for those of the metadata.
    pub(crate) fn add_pulse(words: &mut Gossip, broker: &Broker, system_ms: u64) {
        let topology = broker.registry.snapshot().topology.clone();
        let (vhosts, users) = broker.quota.counts(&topology);
        let count = |(name, connections, channels): (Arc<str>, u64, u64)| GossipCount {
            name: name.to_string(),
            connections,
            channels,
        };
        words.wall_ms = Some(system_ms);
        words.vhosts = Some(vhosts.into_iter().map(count).collect());
        words.users = Some(users.into_iter().map(count).collect());
    }
}

/// The node's words as the others have them, to tell only what has changed.
#[derive(Default)]
pub(crate) struct Telling {
    told: RefCell<Gossip>,
    /// Members that know nothing yet.
    fresh: RefCell<BTreeSet<u16>>,
    pulse: Cell<Option<Instant>>,
}

impl Telling {
    /// A link to a member stands anew.
    pub(crate) fn link_up(&self, member: u16) {
        self.fresh.borrow_mut().insert(member);
    }

    /// Whether a second has passed since this was true.
    pub(crate) fn is_pulse(&self, now: Instant) -> bool {
        let is_due = self.pulse.get().is_none_or(|last| now.duration_since(last) >= PULSE);
        if is_due {
            self.pulse.set(Some(now));
        }
        is_due
    }

    /// Tells each of `members` what it doesn't know. `tell` returns whether it could be sent.
    pub(crate) fn tell(
        &self,
        words: &Gossip,
        members: impl Iterator<Item = u16>,
        mut tell: impl FnMut(u16, Vec<u8>) -> bool,
    ) {
        let mut told = self.told.borrow_mut();
        let news = words.news(&told);
        told.take(news.clone());
        let (news, mut fresh) = (news.encode(), self.fresh.borrow_mut());
        for member in members {
            let bytes = match fresh.remove(&member) {
                true => told.encode(),
                false if news.is_empty() => continue,
                false => news.clone(),
            };
            if !tell(member, bytes) {
                fresh.insert(member);
            }
        }
    }
}

/// A member's words of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldByMember {
    /// The words.
    pub words: Gossip,
    /// Milliseconds by which its clock is ahead of this node's, if they have differed by more than a second for a while.
    pub skew_ms: Option<i64>,
    skewed_since: Option<Instant>,
    /// Its clock.
    pub(super) clock: Option<HeardClock>,
}

impl ToldByMember {
    /// Whether it has an alarm of this source.
    #[must_use]
    pub fn has_alarm(&self, source: AlarmSource) -> bool {
        self.words.alarms.iter().flatten().any(|name| name == source.name())
    }

    /// Notes its clock. Returns whether [`ToldByMember::skew_ms`] has come or gone.
    fn hear_clock(&mut self, theirs: u64, own: u64, now: Instant) -> bool {
        let ahead_ms = theirs.wrapping_sub(own).cast_signed();
        self.clock = Some(HeardClock { ahead_ms, at: now });
        let before = self.skew_ms.is_some();
        if ahead_ms.unsigned_abs() <= ALIKE_MS {
            (self.skew_ms, self.skewed_since) = (None, None);
        } else {
            let since = *self.skewed_since.get_or_insert(now);
            if now.duration_since(since) >= SKEW_PATIENCE {
                self.skew_ms = Some(ahead_ms);
            }
        }
        before != self.skew_ms.is_some()
    }
}

/// The changes that a member's words bring.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Alarms that were raised, and those that were cleared.
    pub raised: Vec<AlarmSource>,
    pub cleared: Vec<AlarmSource>,
    /// Whether its clock began or ceased to differ.
    pub has_skew_changed: bool,
    /// Whether numbers for limits, or addresses for clients, changed.
    pub has_counts: bool,
}

impl ToldByMember {
    /// The words of a member after it has said this.
    pub(crate) fn hear(&self, news: Gossip, own_system_ms: u64, now: Instant) -> (ToldByMember, Heard) {
        let has_counts = news.vhosts.is_some() || news.users.is_some() || news.addresses.is_some();
        let mut heard = Heard { has_counts, ..Heard::default() };
        let mut after = self.clone();
        if let Some(theirs) = news.wall_ms {
            heard.has_skew_changed = after.hear_clock(theirs, own_system_ms, now);
        }
        after.words.take(news);
        for source in AlarmSource::ALL {
            match (self.has_alarm(source), after.has_alarm(source)) {
                (false, true) => heard.raised.push(source),
                (true, false) => heard.cleared.push(source),
                _ => {}
            }
        }
        (after, heard)
    }
}

/// The words of all members that this node reaches.
pub(crate) type ToldByAll = BTreeMap<MemberNumber, Arc<ToldByMember>>;

/// Has the broker know the alarms of others, which hold back those who publish to their queues or all its publishers, the connections that others have, and their addresses.
pub(crate) fn take_effect(told: &ToldByAll, broker: &Broker, alarms_are_shared: bool) {
    let raised = |source| alarms_are_shared && told.values().any(|member| member.has_alarm(source));
    broker.set_alarms_elsewhere(raised);
    let has_alarm = |member: &ToldByMember| AlarmSource::ALL.into_iter().any(|source| member.has_alarm(source));
    broker.lanes.hold(told.iter().filter(|(_, told)| has_alarm(told)).map(|(member, _)| *member).collect());
    let mut counts = CountsElsewhere::default();
    for member in told.values() {
        for count in member.words.vhosts.iter().flatten() {
            counts.add_vhost(&count.name, count.connections);
        }
        for count in member.words.users.iter().flatten() {
            counts.add_user(&count.name, count.connections, count.channels);
        }
    }
    broker.quota.set_elsewhere(counts);
    let address = |GossipAddress { protocol, host, port }: &GossipAddress| ClientAddress {
        protocol: protocol.as_str().into(),
        host: host.as_str().into(),
        port: *port,
    };
    let of = |member: &ToldByMember| member.words.addresses.iter().flatten().map(address).collect();
    broker.addresses.set(told.iter().map(|(member, told)| (*member, of(told))).collect());
}

/// This node's replica of the metadata, for the others.
pub(crate) fn replica_in_words(
    status: &ReplicaStatus,
    voters: &[MemberNumber],
    member: Option<MemberNumber>,
) -> GossipReplica {
    GossipReplica {
        role: role_in_words(status.role).to_owned(),
        is_voter: member.is_some_and(|member| voters.contains(&member)),
        term: status.term,
        last: status.last,
        committed: status.committed,
        applied: status.applied,
        snapshot: status.snapshot,
    }
}

/// RabbitMQ's word for a role.
fn role_in_words(role: ReplicaRole) -> &'static str {
    match role {
        ReplicaRole::Learner | ReplicaRole::Follower => "follower",
        ReplicaRole::Candidate => "candidate",
        ReplicaRole::Leader => "leader",
        ReplicaRole::Stopped => "stopped",
    }
}

/// A difference of clocks in words.
pub(crate) fn skew_in_words(name: &str, skew_ms: i64) -> String {
    let seconds = skew_ms.unsigned_abs() as f64 / 1000.0;
    let way = if skew_ms > 0 { "ahead of" } else { "behind" };
    format!(
        "the clock of node {name} is {seconds:.1} s {way} this node's: times to live and delays depend on it; set the clocks right"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(alarms: &[&str], wall_ms: u64) -> Gossip {
        let alarms = alarms.iter().map(|alarm| (*alarm).to_owned()).collect();
        Gossip { alarms: Some(alarms), wall_ms: Some(wall_ms), cores: Some(2), ..Gossip::default() }
    }

    #[test]
    fn changes_are_told_to_each_and_everything_to_new_ones() {
        let telling = Telling::default();
        let tell = |words: Gossip| {
            let mut told = Vec::new();
            telling.tell(&words, [1, 2].into_iter(), |member, bytes| {
                told.push((member, Gossip::decode(&bytes).expect("is gossip")));
                true
            });
            told
        };
        let without_clock = |alarms: &[&str]| Gossip { wall_ms: None, ..words(alarms, 0) };
        telling.link_up(1);
        assert_eq!(tell(words(&[], 10)), [(1, words(&[], 10)), (2, words(&[], 10))]);
        assert_eq!(tell(without_clock(&[])), []);
        let news = Gossip { alarms: Some(vec!["disk".into()]), ..Gossip::default() };
        assert_eq!(tell(without_clock(&["disk"])), [(1, news.clone()), (2, news)]);
        telling.link_up(2);
        assert_eq!(tell(without_clock(&["disk"])), [(2, words(&["disk"], 10))]);
    }

    #[test]
    fn a_pulse_comes_each_second() {
        let (telling, start) = (Telling::default(), Instant::now());
        let pulses = (0..25).filter(|at| telling.is_pulse(start + Duration::from_millis(100 * at)));
        assert_eq!(pulses.collect::<Vec<_>>(), [0, 10, 20]);
    }

    #[test]
    fn words_that_could_not_be_sent_are_sent_whole_later() {
        let telling = Telling::default();
        telling.tell(&words(&[], 1), [1].into_iter(), |_, _| false);
        let mut sent = None;
        telling.tell(&words(&[], 1), [1].into_iter(), |_, bytes| {
            sent = Gossip::decode(&bytes);
            true
        });
        assert_eq!(sent, Some(words(&[], 1)));
    }

    #[test]
    fn clocks_that_differ_are_said_after_a_while_and_once() {
        let start = Instant::now();
        let hear = |told: &ToldByMember, at_s: u64, theirs: u64| {
            let news = Gossip { wall_ms: Some(theirs), ..Gossip::default() };
            told.hear(news, 100_000, start + Duration::from_secs(at_s))
        };
        let (told, heard) = hear(&ToldByMember::default(), 0, 98_000);
        assert!(!heard.has_skew_changed && told.skew_ms.is_none(), "it may have waited");
        let (told, heard) = hear(&told, 1, 99_500);
        assert!(!heard.has_skew_changed && told.skewed_since.is_none());
        let (told, _) = hear(&told, 2, 110_500);
        let (told, heard) = hear(&told, 5, 110_500);
        assert!(heard.has_skew_changed && told.skew_ms == Some(10_500));
        let (told, heard) = hear(&told, 6, 110_500);
        assert!(!heard.has_skew_changed);
        let (told, heard) = hear(&told, 7, 100_100);
        assert!(heard.has_skew_changed && told.skew_ms.is_none());
        let text = skew_in_words("rabbit@b", -3_600_000);
        assert!(text.starts_with("the clock of node rabbit@b is 3600.0 s behind this node's"), "{text}");
    }

    #[test]
    fn clocks_an_hour_apart_are_said_on_both_sides() {
        use crate::clock::Clock;
        const HOUR_MS: u64 = 3_600_000;
        let clock = |wall_ms| Clock::start().with_epoch(&leveret_broker::Epoch::new(wall_ms));
        let (right, wrong) = (clock(1_700_000_000_000), clock(1_700_000_000_000 + HOUR_MS));
        let start = Instant::now();
        let said = |own: &Clock, other: &Clock| {
            let mut told = ToldByMember::default();
            let mut said = Vec::new();
            for at_s in 0..6 {
                let news = Gossip { wall_ms: Some(other.now().wall_ms), ..Gossip::default() };
                let (after, heard) = told.hear(news, own.now().wall_ms, start + Duration::from_secs(at_s));
                said.extend(
                    after.skew_ms.filter(|_| heard.has_skew_changed).map(|skew| skew_in_words("rabbit@b", skew)),
                );
                told = after;
            }
            said
        };
        for (own, other, way) in [(&right, &wrong, "ahead of"), (&wrong, &right, "behind")] {
            let said = said(own, other);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(way) && said[0].contains("set the clocks right"), "{said:?}");
            // The two are read one after the other.
            assert!(said[0].contains(" 3600.") || said[0].contains(" 3599."), "{said:?}");
        }
    }

    #[test]
    fn alarms_of_others_are_noticed_when_they_come_and_go() {
        let told = ToldByMember::default();
        let (told, heard) = told.hear(words(&["memory", "unknown"], 0), 0, Instant::now());
        assert_eq!((heard.raised, heard.cleared), (vec![AlarmSource::Memory], vec![]));
        assert!(told.has_alarm(AlarmSource::Memory) && !told.has_alarm(AlarmSource::Disk));
        let (_, heard) = told.hear(words(&["disk"], 0), 0, Instant::now());
        assert_eq!((heard.raised, heard.cleared), (vec![AlarmSource::Disk], vec![AlarmSource::Memory]));
    }

    #[test]
    fn addresses_for_clients_are_those_of_open_listeners() {
        let address =
            |protocol, host: Option<&str>, port| AdvertisedAddress { protocol, host: host.map(str::to_owned), port };
        let advertised = vec![address("stream", None, None), address("stream/ssl", Some("outside"), Some(443))];
        let words = OwnWords::new(Vec::new(), false, advertised);
        let listener = |protocol: &str, port| GossipListener {
            interface: "[::]".into(),
            port,
            protocol: protocol.into(),
            purpose: protocol.into(),
        };
        let told = |listeners: &[GossipListener]| -> Vec<(String, u16)> {
            let addresses = words.addresses(listeners, "rabbit@inside.example");
            addresses.into_iter().map(|address| (address.host, address.port)).collect()
        };
        assert_eq!(told(&[listener("amqp", 5672)]), []);
        assert_eq!(told(&[listener("stream", 5552)]), [("inside.example".to_owned(), 5552)]);
        let both = [listener("stream", 1), listener("stream/ssl", 2)];
        assert_eq!(told(&both)[1], ("outside".to_owned(), 443));
    }
}
