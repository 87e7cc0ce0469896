//! A connection's cache of routes, valid while the snapshot stays the same. Shared by all protocols.

mod queues;

use std::hash::Hasher;
use std::sync::Arc;

use leveret_model::{Action, Identity, Refused, authorize_client};
use leveret_routing::{Headers, RoutedBy, Routes};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

pub use self::queues::RouteQueues;

use crate::exchange_counters::ExchangeCounters;
use crate::headers::MessageHeaders;
use crate::publisher_sequence::numbered;
use crate::registry::Snapshot;
use crate::reply_to::ReplyTarget;
use crate::shared_messages::SharedMessages;
use crate::time::Nanos;

/// Maximum number of routes that one connection remembers.
const ROUTES_MAX: usize = 1024;

/// The queues for one exchange and routing key. It is read for every message: names are inlined and the struct is padded to its
/// own cache lines, so that writes by other cores don't evict it (false sharing).
#[repr(align(128))]
pub struct Route {
    exchange: SmallVec<[u8; 24]>,
    key: SmallVec<[u8; 32]>,
    /// The queues.
    pub queues: RouteQueues,
    /// Requesters that wait for answers, instead of queues.
    pub replies: SmallVec<[Arc<ReplyTarget>; 1]>,
    /// The counters of the exchange.
    through: Option<Arc<ExchangeCounters>>,
    serves: Serves,
    /// Whether the firehose gets its messages.
    is_traced: bool,
    /// Whether any of its queues drops what publishers send again that number their messages.
    numbers_publishers: bool,
    /// The generation of the snapshot from which it was computed.
    generation: u64,
}

/// The messages with the same exchange and key that a route applies to while the snapshot stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    All,
    /// Headers matter, and the message for which the route was computed has none.
    WithoutHeaders,
    /// Only the message for which it was computed: its headers or properties mattered, or chance, or it has further keys.
    One,
}

impl Serves {
    fn new(routed_by: RoutedBy, has_headers: bool) -> Self {
        match (routed_by, has_headers) {
            (RoutedBy::Key, _) => Self::All,
            (RoutedBy::Headers, false) => Self::WithoutHeaders,
            (RoutedBy::Headers, true) | (RoutedBy::Message, _) => Self::One,
        }
    }
}

impl Route {
    /// Whether a message would reach neither queues nor requesters.
    pub fn is_unroutable(&self) -> bool {
        self.queues.is_empty() && !self.replies.iter().any(|reply| reply.is_open())
    }

    /// Whether a body of this length should have a file on this route. Requesters that wait for answers have no files.
    #[inline]
    pub fn wants_file(&self, shared: &SharedMessages, persistent: bool, length: usize) -> bool {
        shared.is_large(persistent, length) && shared.may_share(self.queues.logs()) && self.replies.is_empty()
    }

    /// Whether such a body is in its file only, and no queue has it in memory.
    pub fn streams(&self, shared: &SharedMessages, persistent: bool, length: usize) -> bool {
        // The firehose copies bodies from memory.
        self.wants_file(shared, persistent, length) && !self.queues.logs().bodies_in_memory && !self.is_traced
    }

    /// Whether the firehose gets the messages on this route.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// The counters of the exchange, which stand for it.
    /// The name of the exchange.
    pub fn exchange(&self) -> &[u8] {
        &self.exchange
    }

    pub(crate) fn exchange_counters(&self) -> Option<&Arc<ExchangeCounters>> {
        self.through.as_ref()
    }

    /// Number of queues and waiting requesters that a message goes to.
    pub(crate) fn targets(&self) -> usize {
        self.queues.len() + self.replies.iter().filter(|reply| reply.is_open()).count()
    }

    /// Counts messages on this route.
    pub fn count(&self, messages: u64, now: Nanos) {
        if let Some(through) = &self.through {
            through.count(messages, messages * self.queues.len() as u64, now);
        }
    }

    /// Counts a message that couldn't be routed.
    pub fn count_unroutable(&self, returned: bool, now: Nanos) {
        if let Some(through) = &self.through {
            through.count(1, 0, now);
            let counter = if returned { &through.unroutable_returned } else { &through.unroutable_dropped };
            counter.add(1);
        }
    }

    /// Checks the headers of a message by which its queues recognise that it is sent again.
    ///
    /// # Errors
    /// A queue compares them, and they are wrong.
    #[inline]
    pub fn check<'a>(&self, headers: impl FnOnce() -> MessageHeaders<'a>) -> Result<(), Refused> {
        match self.numbers_publishers {
            false => Ok(()),
            true => numbered(&headers().0).map(drop).map_err(|wrong| Refused::precondition(wrong.to_string())),
        }
    }

    /// Whether the next message with the same exchange and key has the same route while the snapshot stays the same, and nothing has to be
    /// checked.
    #[inline]
    pub fn leads_on(&self, has_headers: bool) -> bool {
        // Waiting requesters may disappear without a change of the snapshot.
        !self.queues.is_empty() && self.replies.is_empty() && self.serves(has_headers) && !self.numbers_publishers
    }

    /// Whether messages of both routes may be passed on together: through the same exchange to the same queues, whatever their
    /// keys.
    pub fn is_same_way(&self, other: &Self) -> bool {
        let counters = |route: &Self| route.through.as_ref().map(Arc::as_ptr);
        std::ptr::eq(self, other)
            || self.replies.is_empty()
                && other.replies.is_empty()
                && counters(self) == counters(other)
                // A run is traced as a whole, or not at all.
                && self.is_traced == other.is_traced
                && self.queues.are_same(&other.queues)
    }

    /// Whether it is the route of a message with the same exchange and key, with or without headers.
    fn serves(&self, has_headers: bool) -> bool {
        match self.serves {
            Serves::All => true,
            Serves::WithoutHeaders => !has_headers,
            Serves::One => false,
        }
    }

    fn is_for(&self, exchange: &[u8], key: &[u8]) -> bool {
        *self.key == *key && *self.exchange == *exchange
    }

    /// The route of a message with the same publisher, exchange and key if more of it matters; `None` if it leads to the same
    /// queues. Checks that don't depend on headers, such as permissions, aren't repeated.
    fn for_other_headers(
        &self,
        snapshot: &Snapshot,
        publisher: &Publisher<'_>,
        headers: &dyn Headers,
    ) -> Result<Option<Self>, Refused> {
        let name = String::from_utf8_lossy(&self.exchange);
        let (queues, routed_by) = queues_of(snapshot, publisher.vhost, &name, &[&self.key], headers)?;
        if self.queues.are_same(&queues) {
            return Ok(None);
        }
        Ok(Some(Self {
            exchange: self.exchange.clone(),
            key: self.key.clone(),
            replies: self.replies.clone(),
            through: self.through.clone(),
            serves: Serves::new(routed_by, !headers.is_empty()),
            is_traced: self.is_traced,
            numbers_publishers: queues.number_publishers(),
            queues,
            generation: snapshot.generation,
        }))
    }
}

/// The remembered routes of one connection.
#[derive(Default)]
pub struct RouteCache {
    generation: u64,
    last: Option<Arc<Route>>,
    routes: FxHashMap<u64, Arc<Route>>,
}

/// The publisher of a message.
pub struct Publisher<'a> {
    /// Its identity.
    pub who: &'a Identity,
    /// Its vhost.
    pub vhost: &'a str,
    /// Its client id, in a protocol that has one.
    pub client_id: Option<&'a str>,
}

impl RouteCache {
    /// Takes the last message's route out if this one has the same and the snapshot is still of `generation`. The caller
    /// returns it with [`keep`](Self::keep) when done: counting references would
    /// stall each message twice until its core's earlier writes are complete.
    pub fn again(&mut self, generation: u64, exchange: &[u8], key: &[u8], has_headers: bool) -> Option<Arc<Route>> {
        if self.generation != generation {
            return None;
        }
        self.last.take_if(|last| last.is_for(exchange, key) && last.serves(has_headers))
    }

    /// Keeps the route for the next message, unless the topology has changed or the route was for one message only.
    pub fn keep(&mut self, route: Arc<Route>) {
        if route.serves != Serves::One && route.generation == self.generation {
            self.last = Some(route);
        }
    }

    /// The route of a message with these headers.
    ///
    /// # Errors
    /// 404 if there is no such exchange, 403 if the user may not publish to it.
    pub fn find(
        &mut self,
        snapshot: &Snapshot,
        publisher: &Publisher<'_>,
        exchange: &[u8],
        key: &[u8],
        headers: &dyn Headers,
    ) -> Result<Arc<Route>, Refused> {
        if self.generation != snapshot.generation {
            self.generation = snapshot.generation;
            self.last = None;
            self.routes.clear();
        }
        let has_headers = !headers.is_empty();
        if let Some(last) = &self.last
            && last.is_for(exchange, key)
            && last.serves(has_headers)
        {
            return Ok(last.clone());
        }
        let hash = hash(exchange, key);
        let known = self.routes.get(&hash).filter(|route| route.is_for(exchange, key));
        let route = match known {
            Some(known) if known.serves(has_headers) => known.clone(),
            Some(known) => match known.for_other_headers(snapshot, publisher, headers)? {
                // Further messages whose headers lead to the same queues share this route.
                None => return Ok(known.clone()),
                Some(other) => self.remember(hash, other),
            },
            None => self.remember(hash, resolve(snapshot, publisher, exchange, &[key], headers)?),
        };
        if route.serves != Serves::One {
            self.last = Some(route.clone());
        }
        Ok(route)
    }

    fn remember(&mut self, hash: u64, route: Route) -> Arc<Route> {
        if self.routes.len() >= ROUTES_MAX && !self.routes.contains_key(&hash) {
            self.routes.clear();
        }
        let route = Arc::new(route);
        self.routes.insert(hash, route.clone());
        route
    }
}

fn hash(exchange: &[u8], key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(exchange);
    hasher.write_u8(0xff);
    hasher.write(key);
    hasher.finish()
}

fn resolve(
    snapshot: &Snapshot,
    publisher: &Publisher<'_>,
    exchange: &[u8],
    keys: &[&[u8]],
    headers: &dyn Headers,
) -> Result<Route, Refused> {
    let vhost = publisher.vhost;
    let name = String::from_utf8_lossy(exchange);
    for key in keys {
        let action = Action::PublishWith { exchange: &name, routing_key: key };
        authorize_client(&snapshot.topology, publisher.who, vhost, publisher.client_id, action)?;
    }
    let Some(found) = snapshot.topology.exchange(vhost, &name) else {
        return Err(Refused::no_exchange(vhost, &name));
    };
    found.check_publish()?;
    let (queues, routed_by) = queues_of(snapshot, vhost, &name, keys, headers)?;
    let through = snapshot.exchanges.get(&found.id).cloned();
    let replies = match name.is_empty() {
        true => keys.iter().filter_map(|key| snapshot.replies.find(key)).collect(),
        false => SmallVec::new(),
    };
    Ok(Route {
        exchange: exchange.into(),
        key: keys[0].into(),
        replies,
        through,
        serves: Serves::new(routed_by, !headers.is_empty()),
        is_traced: snapshot.traces(vhost),
        numbers_publishers: queues.number_publishers(),
        queues,
        generation: snapshot.generation,
    })
}

fn queues_of(
    snapshot: &Snapshot,
    vhost: &str,
    exchange: &str,
    keys: &[&[u8]],
    headers: &dyn Headers,
) -> Result<(RouteQueues, RoutedBy), Refused> {
    let mut routes = Routes::new();
    let routed = snapshot.router.route_by(vhost, exchange, keys, headers, &mut routes);
    let routed_by = routed.map_err(|_| Refused::no_exchange(vhost, exchange))?;
    Ok((RouteQueues::find(snapshot, &routes), routed_by))
}

/// The queues of a message of the broker itself, which may publish to internal exchanges; `None` if there is no such exchange.
pub fn own(snapshot: &Snapshot, vhost: &str, exchange: &str, key: &[u8], headers: &dyn Headers) -> Option<RouteQueues> {
    queues_of(snapshot, vhost, exchange, &[key], headers).ok().map(|(queues, _)| queues)
}

/// The route of a message with further keys (`CC`, `BCC`, `x-cc`), for that message only.
///
/// # Errors
/// As for the message's own key.
pub fn extended(
    snapshot: &Snapshot,
    publisher: &Publisher<'_>,
    exchange: &[u8],
    keys: &[&[u8]],
    headers: &dyn Headers,
) -> Result<Arc<Route>, Refused> {
    let mut route = resolve(snapshot, publisher, exchange, keys, headers)?;
    route.serves = Serves::One;
    Ok(Arc::new(route))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(serves: Serves, generation: u64) -> Arc<Route> {
        Arc::new(Route {
            exchange: b"e"[..].into(),
            key: b"k"[..].into(),
            queues: RouteQueues::default(),
            replies: SmallVec::new(),
            through: None,
            serves,
            is_traced: false,
            numbers_publishers: false,
            generation,
        })
    }

    #[test]
    fn a_kept_route_is_used_by_messages_with_the_same_route() {
        let mut cache = RouteCache { generation: 7, ..RouteCache::default() };
        let kept = route(Serves::WithoutHeaders, 7);
        cache.keep(kept.clone());
        assert!(cache.again(7, b"e", b"other", false).is_none());
        assert!(cache.again(7, b"other", b"k", false).is_none());
        assert!(cache.again(7, b"e", b"k", true).is_none(), "headers may lead elsewhere");
        assert!(cache.again(8, b"e", b"k", false).is_none(), "the topology has changed");
        let again = cache.again(7, b"e", b"k", false).expect("the same way");
        assert!(Arc::ptr_eq(&again, &kept));
        assert_eq!(Arc::strong_count(&again), 2, "nothing was counted");
    }

    #[test]
    fn routes_of_another_topology_or_of_one_message_are_not_kept() {
        let mut cache = RouteCache { generation: 7, ..RouteCache::default() };
        cache.keep(route(Serves::All, 6));
        assert!(cache.again(7, b"e", b"k", false).is_none());
        cache.keep(route(Serves::One, 7));
        assert!(cache.again(7, b"e", b"k", false).is_none());
    }
}
