use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use leveret_broker::Nanos;

const SLICE_NS: Nanos = 125_000_000;
/// Number of slices that are summed: one second.
const SLICES: u64 = 8;
/// Loads are compared in these steps (bytes per second), so that a single handshake on one core doesn't outweigh the
/// number of connections.
const STEP: u64 = 64 * 1024;

/// The bytes that a core has moved in the last second, and its number of connections.
///
/// Written by its core, read by the acceptor. A reading that is one slice out of date does no harm, so all accesses are
/// relaxed.
#[derive(Debug, Default)]
pub(crate) struct Load {
    slices: [Slice; SLICES as usize * 2],
    moved: AtomicU64,
    connections: AtomicUsize,
}

#[derive(Debug, Default)]
struct Slice {
    number: AtomicU64,
    bytes: AtomicU64,
}

impl Load {
    pub(crate) fn add(&self, now: Nanos, bytes: usize) {
        let number = now / SLICE_NS;
        let slice = self.slice(number);
        self.moved.store(self.moved() + bytes as u64, Relaxed);
        if slice.number.load(Relaxed) == number {
            slice.bytes.store(slice.bytes.load(Relaxed) + bytes as u64, Relaxed);
        } else {
            slice.bytes.store(bytes as u64, Relaxed);
            slice.number.store(number, Relaxed);
        }
    }

    /// Bytes read and written in the second before `now`.
    pub(crate) fn bytes(&self, now: Nanos) -> u64 {
        let last = now / SLICE_NS;
        (last.saturating_sub(SLICES - 1)..=last)
            .map(|number| (number, self.slice(number)))
            .filter(|(number, slice)| slice.number.load(Relaxed) == *number)
            .map(|(_, slice)| slice.bytes.load(Relaxed))
            .sum()
    }

    /// Bytes read and written so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Counts a connection from the moment the acceptor has chosen this core.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn disconnected(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    fn slice(&self, number: u64) -> &Slice {
        &self.slices[(number % (SLICES * 2)) as usize]
    }
}

/// The core with the fewest bytes in the last second; among equals the one with the fewest connections.
pub(crate) fn least_loaded<'a>(loads: impl Iterator<Item = &'a Load>, now: Nanos) -> usize {
    loads
        .enumerate()
        .min_by_key(|(index, load)| (load.bytes(now) / STEP, load.connections(), *index))
        .map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn bytes_older_than_a_second_no_longer_count() {
        let load = Load::default();
        load.add(10 * SECOND, 100);
        load.add(10 * SECOND + SECOND / 2, 50);
        assert_eq!(load.bytes(10 * SECOND + SECOND / 2), 150);
        assert_eq!(load.bytes(11 * SECOND), 50);
        assert_eq!(load.bytes(30 * SECOND), 0);
    }

    #[test]
    fn a_slice_is_counted_anew_when_its_place_comes_round() {
        let load = Load::default();
        load.add(SECOND, 100);
        load.add(SECOND + SLICE_NS * SLICES * 2, 7);
        assert_eq!(load.bytes(SECOND + SLICE_NS * SLICES * 2), 7);
    }

    #[test]
    fn the_core_with_the_least_bytes_takes_the_next_connection() {
        let loads = [Load::default(), Load::default(), Load::default()];
        loads[0].add(SECOND, 10_000_000);
        loads[1].add(SECOND, 2_000_000);
        loads[2].add(SECOND, 5_000_000);
        (0..100).for_each(|_| loads[1].connected());
        assert_eq!(least_loaded(loads.iter(), SECOND), 1);
        loads[1].add(SECOND, 20_000_000);
        assert_eq!(least_loaded(loads.iter(), SECOND), 2);
    }

    #[test]
    fn a_burst_of_quiet_connections_is_spread() {
        let loads = [Load::default(), Load::default()];
        for _ in 0..10 {
            let chosen = least_loaded(loads.iter(), SECOND);
            loads[chosen].connected();
            loads[chosen].add(SECOND, 700);
        }
        assert_eq!((loads[0].connections(), loads[1].connections()), (5, 5));
    }
}
