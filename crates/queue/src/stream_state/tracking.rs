//! Offsets that a stream keeps for its consumers, by names that these chose: a consumer that comes back goes on where it was.
//!
//! The offset of a name is the lowest one that its consumer hasn't settled. It is logged at most every 50 ms, so that a crash brings
//! back no more than that.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::consumer_id::ConsumerId;
use crate::nanos::Nanos;
use crate::records::KeptOffset;

/// Most names of a stream.
pub(crate) const NAMES_MAX: usize = 1000;
/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Time between records of an offset.
const LOG_INTERVAL: Nanos = 50_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tracked {
    offset: u64,
    /// The last consumer that came with the name: others with it don't change the offset any more.
    owner: Option<ConsumerId>,
    /// Time of the last record.
    logged: Nanos,
    /// Whether the offset has changed since.
    is_changed: bool,
}

/// The offsets of a stream's consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracking {
    names: BTreeMap<Arc<str>, Tracked>,
    /// Time at which changed offsets have to be logged.
    due: Option<Nanos>,
}

impl Tracking {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The offset of a name.
    pub(crate) fn of(&self, name: &str) -> Option<u64> {
        self.names.get(name).map(|tracked| tracked.offset)
    }

    /// Whether one more name would be too many.
    pub(crate) fn is_full(&self) -> bool {
        self.names.len() >= NAMES_MAX
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<KeptOffset> {
        let kept = |(name, tracked): (&Arc<str>, &Tracked)| KeptOffset { name: name.clone(), offset: tracked.offset };
        self.names.iter().map(kept).collect()
    }

    /// A consumer came with a name, and begins at this offset. Returns what has to be logged.
    pub(crate) fn begin(&mut self, name: &Arc<str>, owner: ConsumerId, offset: u64, now: Nanos) -> KeptOffset {
        let tracked = Tracked { offset, owner: Some(owner), logged: now, is_changed: false };
        self.names.insert(name.clone(), tracked);
        KeptOffset { name: name.clone(), offset }
    }

    /// A consumer has settled all messages below `offset`. Returns what has to be logged now.
    pub(crate) fn advance(&mut self, name: &str, owner: ConsumerId, offset: u64, now: Nanos) -> Option<KeptOffset> {
        let (name, tracked) =
            self.names.get_key_value(name).map(|(name, _)| name.clone()).zip(self.names.get_mut(name))?;
        if tracked.owner != Some(owner) || offset <= tracked.offset {
            return None;
        }
        tracked.offset = offset;
        let next = tracked.logged.saturating_add(LOG_INTERVAL);
        if next > now {
            tracked.is_changed = true;
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
            return None;
        }
        (tracked.logged, tracked.is_changed) = (now, false);
        Some(KeptOffset { name, offset })
    }

    /// Keeps an offset for a name, whatever it was before: no consumer moves it from then on. Returns what has to be logged now.
    pub(crate) fn set(&mut self, kept: KeptOffset, now: Nanos) -> Option<KeptOffset> {
        let tracked = self.names.entry(kept.name.clone()).or_default();
        let is_new = tracked.logged == 0 && !tracked.is_changed;
        (tracked.offset, tracked.owner) = (kept.offset, None);
        let next = tracked.logged.saturating_add(LOG_INTERVAL);
        if next > now && !is_new {
            tracked.is_changed = true;
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
            return None;
        }
        (tracked.logged, tracked.is_changed) = (now, false);
        Some(kept)
    }

    /// The next time at which changed offsets have to be logged.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// All changed offsets: they are logged now.
    pub(crate) fn take_changed(&mut self, now: Nanos) -> Vec<KeptOffset> {
        self.due = None;
        let changed = self.names.iter_mut().filter(|(_, tracked)| tracked.is_changed);
        let take = |(name, tracked): (&Arc<str>, &mut Tracked)| {
            (tracked.logged, tracked.is_changed) = (now, false);
            KeptOffset { name: name.clone(), offset: tracked.offset }
        };
        changed.map(take).collect()
    }

    /// These offsets couldn't be logged: that is tried again with their next change, and at a clean stop.
    pub(crate) fn not_logged(&mut self, offsets: &[KeptOffset]) {
        for kept in offsets {
            if let Some(tracked) = self.names.get_mut(&kept.name) {
                tracked.is_changed = true;
            }
        }
    }

    /// The same for what a replay of the log found.
    pub fn replay(&mut self, kept: KeptOffset) {
        self.names.insert(kept.name, Tracked { offset: kept.offset, ..Tracked::default() });
    }

    /// Appends its form in a checkpoint: number of names u32, then as [`KeptOffset::encode`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.names.len() as u32).to_le_bytes());
        self.all().iter().for_each(|kept| kept.encode(out));
    }

    /// The offsets that these bytes begin with, and the bytes behind them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, mut rest) = bytes.split_first_chunk::<4>()?;
        let mut tracking = Self::default();
        for _ in 0..u32::from_le_bytes(*count) {
            let (kept, behind) = KeptOffset::decode(rest)?;
            tracking.replay(kept);
            rest = behind;
        }
        Some((tracking, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn kept(name: &str, offset: u64) -> KeptOffset {
        KeptOffset { name: name.into(), offset }
    }

    #[test]
    fn an_offset_is_logged_at_most_every_50_ms() {
        let (mut tracking, one) = (Tracking::default(), ConsumerId(1));
        assert_eq!(tracking.begin(&"a".into(), one, 3, 0), kept("a", 3));
        assert_eq!(tracking.advance("a", one, 5, 10 * MS), None);
        assert_eq!((tracking.of("a"), tracking.due()), (Some(5), Some(50 * MS)));
        assert_eq!(tracking.advance("a", one, 4, 20 * MS), None, "it never goes back");
        assert_eq!(tracking.take_changed(50 * MS), [kept("a", 5)]);
        assert_eq!((tracking.due(), tracking.take_changed(60 * MS).len()), (None, 0));
        assert_eq!(tracking.advance("a", one, 9, 200 * MS), Some(kept("a", 9)));
    }

    #[test]
    fn only_the_last_consumer_of_a_name_moves_its_offset() {
        let mut tracking = Tracking::default();
        tracking.begin(&"a".into(), ConsumerId(1), 3, 0);
        tracking.begin(&"a".into(), ConsumerId(2), 3, 0);
        assert_eq!(tracking.advance("a", ConsumerId(1), 8, 100 * MS), None);
        assert_eq!(tracking.advance("b", ConsumerId(2), 8, 100 * MS), None);
        assert_eq!(tracking.advance("a", ConsumerId(2), 4, 100 * MS), Some(kept("a", 4)));
    }

    #[test]
    fn kept_offsets_come_back_and_damage_is_found() {
        let mut tracking = Tracking::default();
        tracking.replay(kept("a", 7));
        tracking.replay(kept("name", u64::MAX));
        let mut bytes = Vec::new();
        tracking.encode(&mut bytes);
        assert_eq!(Tracking::decode(&bytes), Some((tracking.clone(), &[][..])));
        for end in 0..bytes.len() {
            assert_eq!(Tracking::decode(&bytes[..end]), None);
        }
        assert_eq!(KeptOffset::decode_all(&bytes[4..]), Some(tracking.all()));
        assert_eq!(KeptOffset::decode_all(&bytes[4..bytes.len() - 1]), None);
    }
}
