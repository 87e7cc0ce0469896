use leveret_broker::Nanos;

/// Width of a slot. Deadlines of connections (heartbeats, handshakes) are seconds, so this lateness does no harm, and a
/// thousand idle connections share at most ten wake-ups a second.
const TICK_NS: Nanos = 100_000_000;
/// Number of slots, 102 seconds. Entries further off wait in the last slot and are inserted again.
const SLOTS: usize = 1024;

/// Deadlines of one core, as slots of a tenth of a second.
///
/// An entry never fires early and at most one slot late. If its owner has moved its deadline, the old entry stays and
/// fires, and the owner inserts it again.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<Entry<T>>>,
    occupied: [u64; SLOTS / 64],
    /// Ticks up to this one have fired.
    fired: u64,
    len: usize,
}

#[derive(Debug)]
struct Entry<T> {
    tick: u64,
    value: T,
}

/// The time at which an entry with this deadline fires.
pub(crate) fn firing_time(deadline: Nanos) -> Nanos {
    deadline.div_ceil(TICK_NS) * TICK_NS
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Vec::new()).collect(), occupied: [0; SLOTS / 64], fired: 0, len: 0 }
    }

    /// Inserts an entry; true if it is now the first to fire.
    pub(crate) fn insert(&mut self, deadline: Nanos, value: T) -> bool {
        let first = self.next_due();
        self.put(Entry { tick: deadline.div_ceil(TICK_NS), value });
        self.next_due() != first
    }

    /// The time of the next slot that fires, in nanoseconds since the start.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        if self.len == 0 {
            return None;
        }
        (1..=SLOTS as u64).map(|ahead| self.fired + ahead).find(|tick| self.is_occupied(*tick)).map(|t| t * TICK_NS)
    }

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Moves everything that is due at `now` to `due`.
    pub(crate) fn expire(&mut self, now: Nanos, due: &mut Vec<T>) {
        let until = now / TICK_NS;
        let mut far = Vec::new();
        for tick in self.fired + 1..=until.min(self.fired + SLOTS as u64) {
            if !self.is_occupied(tick) {
                continue;
            }
            let slot = slot_of(tick);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            let entries = std::mem::take(&mut self.slots[slot]);
            self.len -= entries.len();
            for entry in entries {
                if entry.tick <= until { due.push(entry.value) } else { far.push(entry) }
            }
        }
        self.fired = self.fired.max(until);
        for entry in far {
            self.put(entry);
        }
    }

    /// Removes unwanted entries, and frees their memory.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        self.len = 0;
        for (number, slot) in self.slots.iter_mut().enumerate() {
            slot.retain(|entry| is_wanted(&entry.value));
            slot.shrink_to_fit();
            if slot.is_empty() {
                self.occupied[number / 64] &= !(1 << (number % 64));
            }
            self.len += slot.len();
        }
    }

    fn put(&mut self, entry: Entry<T>) {
        let slot = slot_of(entry.tick.clamp(self.fired + 1, self.fired + SLOTS as u64));
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.slots[slot].push(entry);
        self.len += 1;
    }

    fn is_occupied(&self, tick: u64) -> bool {
        let slot = slot_of(tick);
        self.occupied[slot / 64] & (1 << (slot % 64)) != 0
    }
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn expire(wheel: &mut Wheel<u32>, now: Nanos) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.expire(now, &mut due);
        due
    }

    #[test]
    fn nothing_fires_early_and_nothing_later_than_a_slot() {
        let mut wheel = Wheel::new();
        wheel.insert(SECOND + 1, 1);
        assert!(expire(&mut wheel, SECOND).is_empty());
        assert_eq!(wheel.next_due(), Some(SECOND + TICK_NS));
        assert_eq!(expire(&mut wheel, SECOND + TICK_NS), [1]);
        assert_eq!(wheel.next_due(), None);
    }

    #[test]
    fn insert_tells_when_it_comes_first() {
        let mut wheel = Wheel::new();
        assert!(wheel.insert(10 * SECOND, 1));
        assert!(!wheel.insert(20 * SECOND, 2));
        assert!(wheel.insert(5 * SECOND, 3));
        assert!(!wheel.insert(5 * SECOND, 4));
    }

    #[test]
    fn a_deadline_beyond_the_wheel_waits_for_its_turn() {
        let mut wheel = Wheel::new();
        wheel.insert(500 * SECOND, 1);
        let mut now = 0;
        while let Some(due) = wheel.next_due() {
            now = due;
            if !expire(&mut wheel, now).is_empty() {
                break;
            }
        }
        assert_eq!(now, 500 * SECOND);
    }

    #[test]
    fn a_deadline_in_the_past_fires_at_the_next_slot() {
        let mut wheel = Wheel::new();
        expire(&mut wheel, 50 * SECOND);
        wheel.insert(SECOND, 1);
        assert_eq!(wheel.next_due(), Some(50 * SECOND + TICK_NS));
        assert_eq!(expire(&mut wheel, 51 * SECOND), [1]);
    }

    #[test]
    fn unwanted_entries_are_removed_with_their_memory() {
        let mut wheel = Wheel::new();
        for n in 0..1_000u32 {
            wheel.insert(u64::from(n % 3 + 1) * SECOND, n);
        }
        wheel.retain(|n| *n == 4);
        assert_eq!(wheel.next_due(), Some(2 * SECOND));
        assert!(wheel.slots.iter().map(Vec::capacity).sum::<usize>() < 10);
        assert_eq!(expire(&mut wheel, 10 * SECOND), [4]);
        assert_eq!(wheel.next_due(), None);
    }

    #[test]
    fn a_long_pause_fires_everything_once() {
        let mut wheel = Wheel::new();
        for n in 0..2_000u32 {
            wheel.insert(u64::from(n) * SECOND / 10, n);
        }
        let mut due = expire(&mut wheel, 1_000 * SECOND);
        due.extend(expire(&mut wheel, 2_000 * SECOND));
        due.sort_unstable();
        assert_eq!(due, (0..2_000).collect::<Vec<_>>());
        assert_eq!(wheel.next_due(), None);
    }
}
