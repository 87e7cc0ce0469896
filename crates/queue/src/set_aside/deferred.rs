//! Deferred messages of a quorum queue: delayed ones to which a consumer gave a token, by which they can be fetched before their time.
//!
//! A token may stand for several messages. A consumer claims them; from then on they are its own, and come to it as it has credit,
//! until they are due or the consumer ends.

use std::collections::{BTreeMap, BTreeSet};

use leveret_message::Added;

use super::delayed::Delayed;
use crate::annotations::Annotations;
use crate::consumer_id::ConsumerId;
use crate::reads::OwnReads;

/// The deferred messages of a queue, by token. Most queues have none.
///
/// The tokens themselves are among the annotations of the messages, and so in the log.
#[derive(Debug, Default)]
pub(crate) struct Deferred(Option<Box<Tokens>>);

#[derive(Debug, Default)]
struct Tokens {
    /// The messages that no consumer has claimed.
    open: BTreeMap<Box<str>, BTreeSet<u64>>,
    /// The claimed messages, and the consumer that claimed each.
    claimed: BTreeMap<u64, ConsumerId>,
}

impl Deferred {
    /// The deferred ones among the messages that recovery found: those whose token came with the time until which they are delayed.
    pub(crate) fn recovered(annotations: &Annotations, delayed: &Delayed) -> Self {
        let mut deferred = Self::default();
        for annotated in annotations.iter() {
            let added = &annotated.added;
            if let Ok(Some(token)) = added.deferral_token()
                && added.delivery_ms().is_some_and(|until_ms| delayed.is_until(annotated.number, until_ms))
            {
                deferred.add(annotated.number, token);
            }
        }
        deferred
    }

    /// The token of a message, if it is deferred.
    pub(crate) fn token_of(&self, number: u64, added: &Added) -> Option<Box<str>> {
        let (tokens, token) = (self.0.as_ref()?, added.deferral_token().ok()??);
        let is_open = || tokens.open.get(token).is_some_and(|messages| messages.contains(&number));
        (tokens.claimed.contains_key(&number) || is_open()).then(|| token.into())
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a message that was deferred, or whose claim has ended.
    pub(crate) fn add(&mut self, number: u64, token: &str) {
        let tokens = self.0.get_or_insert_default();
        tokens.claimed.remove(&number);
        match tokens.open.get_mut(token) {
            Some(messages) => _ = messages.insert(number),
            None => _ = tokens.open.insert(token.into(), BTreeSet::from([number])),
        }
    }

    /// Claims messages with this token for a consumer, the oldest ones, as many at most. Returns them: none if the token is unknown,
    /// or others claimed them.
    pub(crate) fn claim(&mut self, token: &str, id: ConsumerId, most: usize) -> BTreeSet<u64> {
        let mut claimed = BTreeSet::new();
        let Some(tokens) = &mut self.0 else { return claimed };
        let Some(messages) = tokens.open.get_mut(token) else { return claimed };
        while claimed.len() < most
            && let Some(number) = messages.pop_first()
        {
            claimed.insert(number);
            tokens.claimed.insert(number, id);
        }
        if messages.is_empty() {
            tokens.open.remove(token);
        }
        claimed
    }

    /// Removes a message. Returns the consumer that had claimed it.
    pub(crate) fn remove(&mut self, number: u64, token: &str) -> Option<ConsumerId> {
        let tokens = self.0.as_mut()?;
        let claimer = tokens.claimed.remove(&number);
        if claimer.is_none()
            && let Some(messages) = tokens.open.get_mut(token)
            && messages.remove(&number)
            && messages.is_empty()
        {
            tokens.open.remove(token);
        }
        self.0.take_if(|tokens| tokens.open.is_empty() && tokens.claimed.is_empty());
        claimer
    }
}

/// The deferred messages that a consumer has claimed, and that it hasn't received yet.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    numbers: BTreeSet<u64>,
    /// The ones that were read for it.
    pub(crate) reads: OwnReads,
}

impl Claims {
    /// Number of messages.
    pub(crate) fn len(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Adds messages.
    pub(crate) fn add(&mut self, numbers: BTreeSet<u64>) {
        self.numbers.extend(numbers);
    }

    /// The message that comes next: the oldest one.
    pub(crate) fn first(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Removes a message.
    pub(crate) fn remove(&mut self, number: u64) {
        self.numbers.remove(&number);
        self.reads.free_below(self.first().unwrap_or(u64::MAX));
    }

    /// The messages.
    pub(crate) fn into_numbers(self) -> BTreeSet<u64> {
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ConsumerId = ConsumerId(1);
    const SECOND: ConsumerId = ConsumerId(2);

    #[test]
    fn messages_of_a_token_belong_to_the_first_that_claims_them() {
        let mut deferred = Deferred::default();
        deferred.add(9, "a");
        deferred.add(4, "a");
        deferred.add(12, "a");
        deferred.add(5, "b");
        assert!(deferred.claim("c", FIRST, 10).is_empty());
        assert_eq!(deferred.claim("a", FIRST, 2), BTreeSet::from([4, 9]));
        assert_eq!(deferred.claim("a", SECOND, 2), BTreeSet::from([12]));
        assert_eq!(deferred.remove(12, "a"), Some(SECOND));
        assert!(deferred.claim("a", SECOND, 10).is_empty());
        // Deferred under the same token later.
        deferred.add(7, "a");
        assert_eq!(deferred.claim("a", SECOND, 10), BTreeSet::from([7]));
        assert_eq!(deferred.remove(4, "a"), Some(FIRST));
        // The first one ends.
        deferred.add(9, "a");
        assert_eq!(deferred.claim("a", SECOND, 10), BTreeSet::from([9]));
        for (number, token, claimer) in [(9, "a", Some(SECOND)), (7, "a", Some(SECOND)), (5, "b", None)] {
            assert!(!deferred.is_empty());
            assert_eq!(deferred.remove(number, token), claimer);
        }
        assert!(deferred.is_empty());
        assert_eq!(deferred.remove(5, "b"), None);
    }
}
