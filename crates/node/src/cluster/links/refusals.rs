//! Log lines about connections that were refused: one for each address and reason, not one for each attempt.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

/// Time after which the same is said again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 256;

/// The last reason for each address.
#[derive(Default)]
pub(super) struct Refusals(RefCell<BTreeMap<IpAddr, (String, Instant)>>);

impl Refusals {
    /// Says why a connection from there was refused, if it is news.
    pub(super) fn note(&self, from: IpAddr, text: String) {
        match self.is_news(from, &text, Instant::now()) {
            true => warn!("{text}"),
            false => debug!("{text}"),
        }
    }

    #[cfg(test)]
    pub(super) fn texts(&self) -> Vec<String> {
        self.0.borrow().values().map(|(text, _)| text.clone()).collect()
    }

    fn is_news(&self, from: IpAddr, text: &str, now: Instant) -> bool {
        let mut last = self.0.borrow_mut();
        if last.get(&from).is_some_and(|(known, then)| known == text && now.duration_since(*then) < AGAIN_AFTER) {
            return false;
        }
        if last.len() >= ADDRESSES_MAX && !last.contains_key(&from) {
            last.retain(|_, (_, then)| now.duration_since(*then) < AGAIN_AFTER);
            if last.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        last.insert(from, (text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_refusal_is_said_once_for_each_reason_and_minute() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let from = |last: u32| IpAddr::V4(Ipv4Addr::from(last));
        assert!(refusals.is_news(from(1), "a", now));
        assert!(!refusals.is_news(from(1), "a", now + Duration::from_secs(59)));
        assert!(refusals.is_news(from(1), "b", now));
        assert!(refusals.is_news(from(2), "b", now));
        assert!(refusals.is_news(from(1), "b", now + AGAIN_AFTER));
        let told = (0..1000).filter(|address| refusals.is_news(from(*address), "c", now)).count();
        assert_eq!(told, ADDRESSES_MAX);
    }
}
