//! Admission of connections to a listener: limits of all connections, of those from one address, and of the open
//! files that HTTP may use.
//!
//! If a limit is reached, the least valuable connection is closed to make room: one that hasn't logged in, or an idle
//! one. Only if there is none is the new connection refused.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use leveret_config::HttpLimits;
use leveret_node::{Descriptors, HttpDescriptor};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::progress::{Claim, Progress};

/// Time for which new connections are exempt: many that arrive at once mustn't displace each other before they have
/// sent anything.
const GRACE: Duration = Duration::from_secs(1);

/// The admission of connections to a listener.
pub(super) struct Admission {
    /// The prefix of the listener's configuration keys.
    prefix: &'static str,
    most: usize,
    most_per_address: usize,
    descriptors: Option<Arc<Descriptors>>,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    next: u64,
    taken: HashMap<u64, Taken>,
    by_address: HashMap<IpAddr, usize>,
}

struct Taken {
    address: IpAddr,
    progress: Arc<Progress>,
    closing: Arc<Notify>,
    descriptor: Option<HttpDescriptor>,
}

/// The slot of a connection, freed when dropped.
pub(super) struct ConnectionSlot {
    number: u64,
    admission: Arc<Admission>,
    pub(super) progress: Arc<Progress>,
    closing: Arc<Notify>,
}

impl ConnectionSlot {
    /// Completes when another connection gets this slot.
    pub(super) async fn is_lost(&self) {
        self.closing.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.admission.places.lock().remove(self.number);
    }
}

impl Places {
    fn remove(&mut self, number: u64) -> Option<Taken> {
        let taken = self.taken.remove(&number)?;
        if let Some(count) = self.by_address.get_mut(&taken.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&taken.address);
            }
        }
        Some(taken)
    }

    /// Closes the least valuable connection, of all or from one address. The search goes over all of them: there are
    /// thousands at most, and it only happens if all slots are taken.
    fn close_one(&mut self, address: Option<IpAddr>, now: Instant) -> Option<Taken> {
        let candidates = self.taken.iter().filter(|(_, taken)| address.is_none_or(|wanted| taken.address == wanted));
        let (claim, number) = candidates.map(|(number, taken)| (taken.progress.claim(now, GRACE), *number)).min()?;
        if claim == Claim::Full {
            return None;
        }
        let closed = self.remove(number)?;
        closed.closing.notify_one();
        Some(closed)
    }
}

impl Admission {
    /// The admission for a listener whose keys have this prefix. Without `descriptors`, open files aren't limited.
    pub(super) fn new(prefix: &'static str, limits: &HttpLimits, descriptors: Option<Arc<Descriptors>>) -> Arc<Self> {
        let most = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        Arc::new(Self {
            prefix,
            most: most(limits.max_connections),
            most_per_address: most(limits.max_connections_per_address),
            descriptors,
            places: Mutex::default(),
        })
    }

    /// Takes a slot for a connection from `address`.
    ///
    /// # Errors
    /// There is none; the error names the limit.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<ConnectionSlot, String> {
        let mut places = self.places.lock();
        let mut freed = None;
        if places.by_address.get(&address).copied().unwrap_or(0) >= self.most_per_address {
            freed = Some(places.close_one(Some(address), now).ok_or_else(|| {
                format!(
                    "{address} has {} connections here already, the most that {}.max_connections_per_address allows",
                    self.most_per_address, self.prefix
                )
            })?);
        }
        if places.taken.len() >= self.most {
            freed = Some(places.close_one(None, now).ok_or_else(|| {
                format!(
                    "there are {} connections here already, the most that {}.max_connections allows",
                    self.most, self.prefix
                )
            })?);
        }
        let descriptor = match &self.descriptors {
            None => None,
            // The new connection takes over the descriptor of the closed one, which is only open a moment longer.
            Some(descriptors) => Some(
                freed
                    .and_then(|freed| freed.descriptor)
                    .or_else(|| descriptors.take_for_http())
                    .or_else(|| places.close_one(None, now)?.descriptor)
                    .ok_or_else(|| {
                        format!(
                            "HTTP has {} connections already, all that the limit of {} open files leaves to it",
                            descriptors.http_max(),
                            descriptors.limit()
                        )
                    })?,
            ),
        };
        let number = places.next;
        places.next += 1;
        let progress = Arc::new(Progress::new(now));
        let closing = Arc::new(Notify::new());
        *places.by_address.entry(address).or_default() += 1;
        let taken = Taken { address, progress: progress.clone(), closing: closing.clone(), descriptor };
        places.taken.insert(number, taken);
        Ok(ConnectionSlot { number, admission: self.clone(), progress, closing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_connections: u32, max_connections_per_address: u32) -> HttpLimits {
        HttpLimits {
            max_connections: Some(max_connections),
            max_connections_per_address: Some(max_connections_per_address),
            ..HttpLimits::default()
        }
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_lost(place: &ConnectionSlot) -> bool {
        futures_lite::future::block_on(futures_lite::future::poll_once(place.is_lost())).is_some()
    }

    #[test]
    fn a_full_address_does_not_block_other_addresses() {
        let now = Instant::now();
        let admission = Admission::new("management.tcp", &limits(3, 2), None);
        let first = admission.admit(address(1), now).expect("a place");
        let _second = admission.admit(address(1), now).expect("a place");
        let refused = admission.admit(address(1), now).err().expect("is full");
        assert!(refused.contains("10.0.0.1 has 2") && refused.contains("max_connections_per_address"), "{refused}");
        let other = admission.admit(address(2), now).expect("a place");
        let refused = admission.admit(address(3), now).err().expect("is full");
        assert!(refused.contains("management.tcp.max_connections allows"), "{refused}");
        drop(other);
        admission.admit(address(3), now).expect("a place");
        drop(first);
        admission.admit(address(1), now).expect("a place");
    }

    #[test]
    fn a_silent_client_is_displaced_by_a_new_one() {
        let mut now = Instant::now();
        let admission = Admission::new("management.tcp", &limits(2, 2), None);
        let silent = admission.admit(address(1), now).expect("a place");
        let busy = admission.admit(address(1), now).expect("a place");
        busy.progress.received(now);
        busy.progress.asks(now);
        busy.progress.let_in();
        now += GRACE;
        let third = admission.admit(address(1), now).expect("a place");
        assert!(is_lost(&silent) && !is_lost(&busy) && !is_lost(&third));
        // A slot that was lost already isn't freed twice.
        drop(silent);
        assert_eq!(admission.places.lock().by_address[&address(1)], 2);
        now += GRACE;
        busy.progress.is_answered(now);
        third.progress.received(now);
        third.progress.asks(now);
        let _fourth = admission.admit(address(2), now).expect("a place");
        assert!(is_lost(&busy) && !is_lost(&third));
    }
}
