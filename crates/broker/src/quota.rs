//! Limits of resources that live with connections: for the node, each vhost and each user.
//!
//! Connections, channels and sessions, links, consumers and unsettled deliveries are counted in the connection's [`Account`]
//! when they begin and end. The rest is returned when the connection ends. Queues, exchanges and bindings outlive
//! connections, so the model counts those ([`leveret_model::Limits`]).
//!
//! Limits protect against exhaustion. A request that exceeds one is refused with its value and the key that changes it.
//! Unsettled deliveries are the exception, because there is no request to refuse: consumers wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leveret_model::{LimitOwner, MAX_CHANNELS, MAX_CONNECTIONS, Topology};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The counted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Open connections.
    Connections,
    /// Channels of AMQP 0-9-1 and sessions of AMQP 1.0.
    Channels,
    /// Links of AMQP 1.0.
    Links,
    /// Consumers, receiving links included.
    Consumers,
    /// Deliveries that the client hasn't settled, in steps of [`UNSETTLED_STEP`].
    Unsettled,
}

const KINDS: usize = 5;

/// Step in which unsettled deliveries of a channel or session are counted, so that shared counters aren't written for each
/// message. When their limit is reached, each may still have this many: a consumer that waits then has deliveries of its own
/// whose settlement lets it continue.
pub const UNSETTLED_STEP: u64 = 256;

impl OwnLimits {
    /// The limits of open connections.
    pub fn of_connections(topology: &Topology, vhost: &str, user: &str) -> Self {
        Self { vhost: topology.vhost_limit(vhost, MAX_CONNECTIONS), user: topology.user_limit(user, MAX_CONNECTIONS) }
    }

    /// The limits of open channels.
    pub fn of_channels(topology: &Topology, user: &str) -> Self {
        Self { vhost: None, user: topology.user_limit(user, MAX_CHANNELS) }
    }
}

/// Limits of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scoped {
    /// For the node.
    pub node: u64,
    /// For each vhost.
    pub vhost: u64,
    /// For each user.
    pub user: u64,
}

/// Limits of all kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimits {
    /// `connection_max_per_vhost`, `connection_max_per_user`. Connections of the node are counted before they are open
    /// ([`crate::Settings::max_connections`]).
    pub connections: Scoped,
    /// `channel_max_per_node`, `channel_max_per_vhost`, `channel_max_per_user`.
    pub channels: Scoped,
    /// `link_max_per_node`, `link_max_per_vhost`, `link_max_per_user`.
    pub links: Scoped,
    /// `consumer_max_per_node`, `consumer_max_per_vhost`, `consumer_max_per_user`.
    pub consumers: Scoped,
    /// `unsettled_max_per_node`, `unsettled_max_per_vhost`, `unsettled_max_per_user`.
    pub unsettled: Scoped,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        let of = |node: u64| Scoped { node, vhost: node / 2, user: node / 2 };
        Self {
            connections: of(200_000),
            channels: of(1_000_000),
            links: of(2_000_000),
            consumers: of(2_000_000),
            unsettled: of(20_000_000),
        }
    }
}

impl QuotaLimits {
    fn of(&self, kind: Kind) -> Scoped {
        match kind {
            Kind::Connections => self.connections,
            Kind::Channels => self.channels,
            Kind::Links => self.links,
            Kind::Consumers => self.consumers,
            Kind::Unsettled => self.unsettled,
        }
    }
}

/// The scope of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Node(Arc<str>),
    Vhost(Arc<str>),
    User(Arc<str>),
}

/// A limit is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    kind: Kind,
    scope: Scope,
    limit: u64,
    /// Set for this vhost or user alone rather than in the configuration.
    own: Option<Arc<str>>,
}

/// Limits that were set for a vhost and a user over HTTP, in addition to the configured ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnLimits {
    /// The limit of the vhost.
    pub vhost: Option<u64>,
    /// The limit of the user.
    pub user: Option<u64>,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        if let Some(user) = &self.own {
            return match (&self.scope, self.kind) {
                (Scope::Vhost(vhost), _) => write!(
                    f,
                    "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
                ),
                (_, Kind::Connections) => {
                    write!(f, "connection refused for user '{user}': user connection limit ({limit}) is reached")
                }
                _ => write!(
                    f,
                    "number of channels opened for user '{user}' has reached the maximum allowed user limit of ({limit})"
                ),
            };
        }
        let (scope, word) = match &self.scope {
            Scope::Node(name) => (format!("on node '{name}'"), "node"),
            Scope::Vhost(name) => (format!("in vhost '{name}'"), "vhost"),
            Scope::User(name) => (format!("for user '{name}'"), "user"),
        };
        let (counted, key) = match self.kind {
            Kind::Connections => {
                return match &self.scope {
                    Scope::Node(_) => write!(f, "connection refused: node connection limit ({limit}) is reached"),
                    _ => write!(
                        f,
                        "connection refused {scope}: {word} connection limit ({limit}) is reached; raise \
                         connection_max_per_{word}"
                    ),
                };
            }
            Kind::Channels => ("channels opened", "channel"),
            Kind::Links => ("links attached", "link"),
            Kind::Consumers => ("consumers", "consumer"),
            Kind::Unsettled => ("unsettled deliveries", "unsettled"),
        };
        write!(
            f,
            "number of {counted} {scope} has reached the maximum allowed limit of ({limit}); raise {key}_max_per_{word}"
        )
    }
}

#[derive(Debug, Default)]
struct Usage([AtomicU64; KINDS]);

impl Usage {
    /// Counts one more, unless `limit` is reached.
    fn take(&self, kind: Kind, limit: u64) -> bool {
        // A concurrent call that is refused may see a count that is one too high.
        let had = self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
        if had >= limit {
            self.give(kind, 1);
        }
        had < limit
    }

    fn give(&self, kind: Kind, count: u64) {
        let had = self.0[kind as usize].fetch_sub(count, Ordering::Relaxed);
        debug_assert!(had >= count, "more {kind:?} are given back than were taken");
    }

    fn add(&self, kind: Kind, count: u64) {
        self.0[kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self, kind: Kind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }
}

/// The counters and limits of a node.
pub struct Quota {
    limits: QuotaLimits,
    name: Arc<str>,
    node: Usage,
    shared: Mutex<Shared>,
    elsewhere: Mutex<CountsElsewhere>,
}

/// Connections and channels that vhosts and users have on other nodes of the cluster. Limits that were set for a vhost or a user count them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CountsElsewhere {
    vhosts: FxHashMap<Box<str>, u64>,
    users: FxHashMap<Box<str>, [u64; 2]>,
}

impl CountsElsewhere {
    /// Adds connections of a vhost.
    pub fn add_vhost(&mut self, name: &str, connections: u64) {
        let count = self.vhosts.entry(name.into()).or_default();
        *count = count.saturating_add(connections);
    }

    /// Adds connections and channels of a user.
    pub fn add_user(&mut self, name: &str, connections: u64, channels: u64) {
        let counts = self.users.entry(name.into()).or_default();
        *counts = [counts[0].saturating_add(connections), counts[1].saturating_add(channels)];
    }

    fn in_vhost(&self, name: &str, kind: Kind) -> u64 {
        if kind == Kind::Connections { self.vhosts.get(name).copied().unwrap_or(0) } else { 0 }
    }

    fn of_user(&self, name: &str, kind: Kind) -> u64 {
        let counts = self.users.get(name).copied().unwrap_or_default();
        match kind {
            Kind::Connections => counts[0],
            Kind::Channels => counts[1],
            Kind::Links | Kind::Consumers | Kind::Unsettled => 0,
        }
    }
}

/// The name of a vhost or user with its connections and channels.
pub type NamedCounts = (Arc<str>, u64, u64);

/// Vhosts and users with open connections.
#[derive(Default)]
struct Shared {
    vhosts: FxHashMap<Arc<str>, Arc<Usage>>,
    users: FxHashMap<Arc<str>, Arc<Usage>>,
}

impl Quota {
    /// The quota of the node with this name.
    pub fn new(limits: QuotaLimits, node: &str) -> Self {
        Self {
            limits,
            name: node.into(),
            node: Usage::default(),
            shared: Mutex::default(),
            elsewhere: Mutex::default(),
        }
    }

    /// Sets the numbers that other nodes of the cluster have.
    pub fn set_elsewhere(&self, counts: CountsElsewhere) {
        *self.elsewhere.lock() = counts;
    }

    /// Connections and channels on this node of the vhosts and of the users that have limits of their own, for the other nodes.
    pub fn counts(&self, topology: &Topology) -> (Vec<NamedCounts>, Vec<NamedCounts>) {
        let (mut vhosts, mut users) = (Vec::new(), Vec::new());
        let shared = self.shared.lock();
        let count = |usage: &Arc<Usage>| (usage.get(Kind::Connections), usage.get(Kind::Channels));
        for (owner, _) in topology.all_limits() {
            match owner {
                LimitOwner::Vhost(name) => {
                    vhosts.extend(shared.vhosts.get(&name).map(|usage| (name, count(usage).0, 0)));
                }
                LimitOwner::User(name) => {
                    users.extend(shared.users.get(&name).map(|usage| {
                        let (connections, channels) = count(usage);
                        (name, connections, channels)
                    }));
                }
            }
        }
        (vhosts, users)
    }

    /// The current number on the node.
    pub fn used(&self, kind: Kind) -> u64 {
        self.node.get(kind)
    }

    /// Counts a connection of a user that opens in a vhost.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn open(self: &Arc<Self>, vhost: &Arc<str>, user: &Arc<str>, own: OwnLimits) -> Result<Account, LimitReached> {
        let (in_vhost, of_user) = {
            let mut shared = self.shared.lock();
            let in_vhost = shared.vhosts.entry(vhost.clone()).or_default().clone();
            (in_vhost, shared.users.entry(user.clone()).or_default().clone())
        };
        let open = Open {
            quota: self.clone(),
            vhost: vhost.clone(),
            user: user.clone(),
            in_vhost,
            of_user,
            held: Default::default(),
        };
        let mut account = Account { open: Some(Box::new(open)) };
        account.take_within(Kind::Connections, own)?;
        Ok(account)
    }
}

/// Everything that one connection counts; empty before it is open. Dropping it returns everything.
#[derive(Default)]
pub struct Account {
    open: Option<Box<Open>>,
}

struct Open {
    quota: Arc<Quota>,
    vhost: Arc<str>,
    user: Arc<str>,
    in_vhost: Arc<Usage>,
    of_user: Arc<Usage>,
    held: [u64; KINDS],
}

impl Account {
    /// Counts one more of a kind.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take(&mut self, kind: Kind) -> Result<(), LimitReached> {
        self.take_within(kind, OwnLimits::default())
    }

    /// The same if vhost and user may have limits of their own.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take_within(&mut self, kind: Kind, own: OwnLimits) -> Result<(), LimitReached> {
        match &mut self.open {
            Some(open) => open.take(kind, own),
            None => Ok(()),
        }
    }

    /// Returns `count` of a kind.
    pub fn give(&mut self, kind: Kind, count: u64) {
        if let Some(open) = &mut self.open {
            open.give(kind, count);
        }
    }

    /// Counts `count` more, regardless of limits.
    pub(crate) fn add(&mut self, kind: Kind, count: u64) {
        if let Some(open) = &mut self.open {
            open.held[kind as usize] += count;
            [&open.quota.node, &*open.in_vhost, &*open.of_user].iter().for_each(|usage| usage.add(kind, count));
        }
    }

    /// Whether the limits allow more.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        let Some(open) = &self.open else { return true };
        let limits = open.quota.limits.of(kind);
        open.quota.node.get(kind) < limits.node
            && open.in_vhost.get(kind) < limits.vhost
            && open.of_user.get(kind) < limits.user
    }

    /// Number of unsettled deliveries, out of a maximum of `max`, that a channel or session may have at the moment.
    pub fn unsettled_allowed(&self, max: u32) -> u32 {
        if self.has_room(Kind::Unsettled) { max } else { max.min(UNSETTLED_STEP as u32) }
    }

    /// Updates the count of a channel or session that counted `reported` unsettled deliveries and has `open` now. Returns the
    /// new value of `reported`.
    pub fn report_unsettled(&mut self, reported: u64, open: u64) -> u64 {
        let rounded = open - open % UNSETTLED_STEP;
        // One step of slack, so that a client that settles one by one doesn't change the count each time.
        if open > 0 && reported.abs_diff(rounded) < UNSETTLED_STEP + u64::from(reported > rounded) {
            return reported;
        }
        match rounded > reported {
            true => self.add(Kind::Unsettled, rounded - reported),
            false => self.give(Kind::Unsettled, reported - rounded),
        }
        rounded
    }
}

impl Open {
    fn take(&mut self, kind: Kind, own: OwnLimits) -> Result<(), LimitReached> {
        let limits = self.quota.limits.of(kind);
        let node = &self.quota.node;
        let user = self.user.clone();
        let reached = |scope: Scope, limit: u64, own: Option<u64>| {
            let own = own.filter(|own| *own <= limit);
            Err(LimitReached { kind, scope, limit: own.unwrap_or(limit), own: own.map(|_| user) })
        };
        // Limits of vhosts and users hold for all nodes together, those of the configuration for each.
        let elsewhere = match own {
            OwnLimits { vhost: None, user: None } => [0, 0],
            _ => {
                let counts = self.quota.elsewhere.lock();
                [counts.in_vhost(&self.vhost, kind), counts.of_user(&self.user, kind)]
            }
        };
        let within = |limit: u64, own: Option<u64>, elsewhere: u64| {
            own.map_or(limit, |own| own.saturating_sub(elsewhere).min(limit))
        };
        if !node.take(kind, limits.node) {
            return reached(Scope::Node(self.quota.name.clone()), limits.node, None);
        }
        if !self.in_vhost.take(kind, within(limits.vhost, own.vhost, elsewhere[0])) {
            node.give(kind, 1);
            return reached(Scope::Vhost(self.vhost.clone()), limits.vhost, own.vhost);
        }
        if !self.of_user.take(kind, within(limits.user, own.user, elsewhere[1])) {
            node.give(kind, 1);
            self.in_vhost.give(kind, 1);
            return reached(Scope::User(self.user.clone()), limits.user, own.user);
        }
        self.held[kind as usize] += 1;
        Ok(())
    }

    fn give(&mut self, kind: Kind, count: u64) {
        let held = &mut self.held[kind as usize];
        debug_assert!(*held >= count, "more {kind:?} are given back than the connection has");
        let count = count.min(*held);
        *held -= count;
        [&self.quota.node, &*self.in_vhost, &*self.of_user].iter().for_each(|usage| usage.give(kind, count));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        for kind in [Kind::Connections, Kind::Channels, Kind::Links, Kind::Consumers, Kind::Unsettled] {
            self.give(kind, self.held[kind as usize]);
        }
        // The last connection of a vhost or user removes its counters. Clones are only made under this lock.
        let mut shared = self.quota.shared.lock();
        if Arc::strong_count(&self.in_vhost) == 2 {
            shared.vhosts.remove(&self.vhost);
        }
        if Arc::strong_count(&self.of_user) == 2 {
            shared.users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(channels: Scoped) -> Arc<Quota> {
        Arc::new(Quota::new(QuotaLimits { channels, ..QuotaLimits::default() }, "leveret@here"))
    }

    fn text(refused: Result<(), LimitReached>) -> String {
        refused.expect_err("a limit").to_string()
    }

    #[test]
    fn limits_of_a_vhost_and_a_user_count_other_nodes() {
        let quota = quota(QuotaLimits::default().channels);
        let mut counts = CountsElsewhere::default();
        counts.add_vhost("/", 1);
        counts.add_vhost("/", 1);
        counts.add_user("me", 1, 3);
        quota.set_elsewhere(counts);
        let open = |user: &str, own| quota.open(&"/".into(), &user.into(), own);
        let refused = |own| open("me", own).map(drop).expect_err("a limit").to_string();
        let of_vhost = |limit| OwnLimits { vhost: Some(limit), user: None };
        assert!(refused(of_vhost(2)).contains("connection limit (2) is reached"));
        let mut first = open("me", of_vhost(3)).expect("room");
        let of_user = |limit| OwnLimits { vhost: None, user: Some(limit) };
        assert!(refused(of_user(2)).contains("user connection limit (2) is reached"));
        assert!(open("you", of_user(1)).is_ok());
        let reached = first.take_within(Kind::Channels, of_user(3)).expect_err("a limit").to_string();
        assert!(reached.contains("maximum allowed user limit of (3)"), "{reached}");
        first.take_within(Kind::Channels, of_user(4)).expect("room");
    }

    #[test]
    fn each_scope_has_its_limit_and_names_it() {
        let quota = quota(Scoped { node: 4, vhost: 3, user: 2 });
        let mut first = quota.open(&"/".into(), &"me".into(), OwnLimits::default()).expect("room");
        let mut second = quota.open(&"/".into(), &"you".into(), OwnLimits::default()).expect("room");
        let mut third = quota.open(&"other".into(), &"them".into(), OwnLimits::default()).expect("room");
        first.take(Kind::Channels).expect("room");
        first.take(Kind::Channels).expect("room");
        assert_eq!(
            text(first.take(Kind::Channels)),
            "number of channels opened for user 'me' has reached the maximum allowed limit of (2); raise \
             channel_max_per_user"
        );
        second.take(Kind::Channels).expect("room");
        assert!(
            text(second.take(Kind::Channels)).contains("in vhost '/' has reached the maximum allowed limit of (3)")
        );
        third.take(Kind::Channels).expect("room");
        assert!(text(third.take(Kind::Channels)).contains("on node 'leveret@here' has reached"));
        // Refused resources aren't counted.
        first.give(Kind::Channels, 1);
        third.take(Kind::Channels).expect("room");
        assert_eq!(quota.used(Kind::Channels), 4);
    }

    #[test]
    fn limits_of_a_vhost_or_user_are_reported_in_rabbitmqs_words() {
        let quota = quota(Scoped { node: 9, vhost: 9, user: 9 });
        let open = |own: OwnLimits| quota.open(&"v".into(), &"me".into(), own);
        let mut first = open(OwnLimits { vhost: Some(1), user: Some(1) }).expect("room");
        let refused = |own: OwnLimits| open(own).err().expect("a limit").to_string();
        assert_eq!(
            refused(OwnLimits { vhost: Some(1), user: None }),
            "access to vhost 'v' refused for user 'me': connection limit (1) is reached"
        );
        let user = OwnLimits { vhost: None, user: Some(1) };
        assert_eq!(refused(user), "connection refused for user 'me': user connection limit (1) is reached");
        assert!(open(OwnLimits { vhost: Some(2), user: Some(2) }).is_ok());
        first.take_within(Kind::Channels, user).expect("room");
        assert_eq!(
            text(first.take_within(Kind::Channels, user)),
            "number of channels opened for user 'me' has reached the maximum allowed user limit of (1)"
        );
        // Refused resources aren't counted.
        assert_eq!((quota.used(Kind::Connections), quota.used(Kind::Channels)), (1, 1));
    }

    #[test]
    fn everything_is_returned_when_a_connection_ends() {
        let quota = quota(Scoped { node: 9, vhost: 9, user: 9 });
        let mut account = quota.open(&"/".into(), &"me".into(), OwnLimits::default()).expect("room");
        let other = quota.open(&"/".into(), &"me".into(), OwnLimits::default()).expect("room");
        account.take(Kind::Channels).expect("room");
        account.add(Kind::Unsettled, 512);
        drop(account);
        assert_eq!((quota.used(Kind::Connections), quota.used(Kind::Channels)), (1, 0));
        assert_eq!(quota.used(Kind::Unsettled), 0);
        assert_eq!(quota.shared.lock().vhosts.len(), 1);
        drop(other);
        assert_eq!(quota.used(Kind::Connections), 0);
        let shared = quota.shared.lock();
        assert!(shared.vhosts.is_empty() && shared.users.is_empty());
    }

    #[test]
    fn unsettled_deliveries_count_in_steps() {
        let quota = quota(Scoped { node: 9, vhost: 9, user: 9 });
        let mut account = quota.open(&"/".into(), &"me".into(), OwnLimits::default()).expect("room");
        let mut reported = 0;
        for (open, counted) in
            [(255, 0), (256, 256), (255, 256), (256, 256), (600, 512), (511, 512), (300, 512), (255, 0)]
        {
            reported = account.report_unsettled(reported, open);
            assert_eq!((reported, quota.used(Kind::Unsettled)), (counted, counted), "{open} open");
        }
        reported = account.report_unsettled(reported, 300);
        assert_eq!(account.report_unsettled(reported, 0), 0);
        assert_eq!(quota.used(Kind::Unsettled), 0);
    }

    #[test]
    fn a_channel_may_have_one_step_of_deliveries_at_the_limit() {
        let unsettled = Scoped { node: 256, vhost: 1000, user: 1000 };
        let quota = Arc::new(Quota::new(QuotaLimits { unsettled, ..QuotaLimits::default() }, "leveret@here"));
        let mut account = quota.open(&"/".into(), &"me".into(), OwnLimits::default()).expect("room");
        assert_eq!(account.unsettled_allowed(5000), 5000);
        let reported = account.report_unsettled(0, 300);
        assert_eq!((account.unsettled_allowed(5000), account.unsettled_allowed(10)), (256, 10));
        account.report_unsettled(reported, 0);
        assert_eq!(account.unsettled_allowed(5000), 5000);
    }
}
