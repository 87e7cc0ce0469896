use std::collections::BTreeMap;

use proptest::prelude::*;

use super::chunk::SEARCHES;
use super::*;

const START: u64 = 1_700_000_000_123;

/// A random number after this one.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

#[test]
fn a_message_is_due_in_its_millisecond() {
    let mut times = Times::default();
    for (number, time_ms) in [(0, 5_000), (1, 1), (7, 700), (8, 5_000)] {
        times.insert(number, START + time_ms, number as u32);
    }
    assert_eq!((times.next_ms(), times.pop_due(START)), (Some(START + 1), None));
    assert_eq!(times.pop_due(START + 1), Some((1, 1)));
    assert_eq!((times.pop_due(START + 699), times.pop_due(START + 700)), (None, Some((7, 7))));
    assert_eq!(times.pop_due(START + 5_000), Some((0, 0)));
    assert_eq!(times.pop_due(START + 5_000), Some((8, 8)));
    assert!(times.is_empty() && times.far.chunks.is_empty() && times.far.soonest.is_empty());
}

#[test]
fn a_million_random_times_take_under_8_megabytes() {
    let (mut times, mut state) = (Times::default(), 1);
    for number in 0..1_000_000 {
        let due = START + random(&mut state) % 600_000;
        times.insert(number, due, (random(&mut state) % 60_000) as u32);
    }
    assert!(times.memory() < 8_000_000, "{}", times.memory());
    // Others have gaps between their numbers.
    let mut sparse = Times::default();
    for number in 0..1_000_000 {
        sparse.insert(3 * number, START + random(&mut state) % 600_000, 1_000);
    }
    assert!(sparse.memory() < 8_000_000, "{}", sparse.memory());
    for after in 1..10 {
        while times.pop_due(START + after * 60_000).is_some() {}
        let chunks = times.encoded().0 as usize;
        let most = 40_000 + 16 * times.len() as usize + 250 * chunks;
        assert!(times.memory() < most, "{} messages take {}", times.len(), times.memory());
    }
}

/// The times and numbers of all, as they come due.
fn popped(times: &mut Times) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| times.next_ms().zip(times.pop_due(u64::MAX).map(|due| due.0))).collect()
}

#[test]
fn a_far_time_leaves_its_neighbours_exact() {
    const CENTURY: u64 = 3_155_760_000_000;
    for far_first in [false, true] {
        let mut times = Times::default();
        let far = |times: &mut Times| times.insert(500, START + 40 * CENTURY, 0);
        if far_first {
            far(&mut times);
        }
        (0..400).for_each(|number| times.insert(number, START + 7 * number + 1, 0));
        if !far_first {
            far(&mut times);
        }
        let mut bytes = Vec::new();
        times.encode(&mut bytes);
        let mut again = Times::decode(times.encoded().0 as usize, &mut &bytes[..], None).unwrap();
        let expected: Vec<_> = (0..400).map(|number| (START + 7 * number + 1, number)).collect();
        for times in [&mut times, &mut again] {
            let popped = popped(times);
            assert_eq!((&popped[..400], popped[400].1), (&expected[..], 500));
            assert_eq!(popped[400].0, START + 40 * CENTURY);
        }
    }
}

#[test]
fn ten_million_random_times_take_8_bytes_each() {
    let (mut times, mut state) = (Times::default(), 1);
    for number in 0..10_000_000 {
        times.insert(number, START + random(&mut state) % 600_000, 1_000);
    }
    assert!(times.memory() <= 80_000_000, "{}", times.memory());
}

#[test]
fn chunks_with_scales_of_their_own_are_read() {
    let mut bytes = Vec::new();
    for at in 0..100 {
        let mut chunk = Chunk::new(1_000 * at, Scale::about(START + at, START + at));
        (0..10).for_each(|next| chunk.insert(1_000 * at + next, START + at + next, 5));
        chunk.encode(&mut bytes);
    }
    let times = Times::decode(100, &mut &bytes[..], None).unwrap();
    assert_eq!((times.len(), times.exact.len(), times.far.len()), (1_000, 1, 0));
    assert_eq!(times.get(7_003), Some((START + 10, 5)));
    let twice = [&bytes[..], &bytes[..]].concat();
    assert!(Times::decode(200, &mut &twice[..], None).is_err());
}

#[test]
fn numbers_are_looked_for_among_equal_times_only() {
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let mut times = Times::default();
    for number in 0..40 {
        times.insert(number, START + (number % 20) * YEAR_MS, 1);
    }
    let searches = SEARCHES.get();
    assert_eq!(times.pop_due(START - 1), None);
    assert_eq!(popped(&mut times).len(), 40);
    assert_eq!(SEARCHES.get(), searches, "no two levels have the same time");
}

#[test]
fn departed_messages_are_forgotten() {
    let mut times = Times::default();
    for number in 0..100_000 {
        times.insert(number, START + 1_000_000, 0);
        times.prune(10, number.saturating_sub(10), |other| other + 10 > number);
    }
    assert!(times.memory() < 100_000);
    let mut times = Times::default();
    for number in 0..100_000 {
        times.insert(number, START + 1_000_000, 0);
        // A message that stays keeps the low mark down.
        times.prune(2, 0, |other| other == 0 || other == number);
    }
    assert!(times.memory() < 200_000, "{}", times.memory());
    assert_eq!(times.pop_due(START + 2_000_000), Some((0, 0)));
}

proptest! {
    #[test]
    fn times_are_exact_for_two_years_and_never_early(
        entries in prop::collection::vec((0..6u8, 0..1_000_000_000u64), 1..400),
    ) {
        // Minutes, days, months, years, centuries and millennia.
        let spans = [600_000, 86_400_000, 8_000_000_000, 300_000_000_000, 20_000_000_000_000, 250_000_000_000_000u64];
        let due = |(span, part): (u8, u64)| {
            let span = u128::from(spans[usize::from(span)]);
            START + (span * u128::from(part) / 1_000_000_000) as u64
        };
        let mut times = Times::default();
        for (number, entry) in (0..).zip(&entries) {
            times.insert(number, due(*entry), 0);
        }
        let soonest = entries.iter().map(|entry| due(*entry)).min().unwrap();
        let mut order: Vec<_> = (0u64..).zip(&entries).map(|(number, entry)| (due(*entry), number)).collect();
        order.sort_unstable();
        let mut seen = 0;
        for (time_ms, number) in popped(&mut times) {
            let asked = due(entries[number as usize]);
            let late = time_ms.checked_sub(asked);
            prop_assert!(late.is_some_and(|late| late <= 65_600), "{late:?}");
            if asked - soonest < 63_000_000_000 {
                prop_assert_eq!((time_ms, number), order[seen]);
                seen += 1;
            }
        }
    }

    #[test]
    fn they_are_a_map_by_number_and_a_queue_by_time(
        steps in prop::collection::vec((0..8u8, 0..2_000u64, 0..400u64, 0..3usize), 1..60),
    ) {
        let (mut times, mut plain) = (Times::default(), BTreeMap::<u64, (u64, u32)>::new());
        for (step, number, after, spread) in steps {
            // Neighbours, numbers with gaps, and numbers far from each other.
            let number = number * [1, 50, 100_000][spread];
            match step {
                0..=3 => {
                    for at in 0..200 {
                        let (number, due, bytes) = (number + 7 * at % 300, START + (after * at) % 1_000, at as u32);
                        times.insert(number, due, bytes);
                        plain.insert(number, (due, bytes));
                    }
                }
                4 => prop_assert_eq!(times.remove(number), plain.remove(&number)),
                5 => {
                    times.keep(|other| other % 3 > 0);
                    plain.retain(|other, _| other % 3 > 0);
                }
                6 => {
                    let mut bytes = Vec::new();
                    times.encode(&mut bytes);
                    let (chunks, length) = times.encoded();
                    prop_assert_eq!(bytes.len(), length);
                    times = Times::decode(chunks as usize, &mut &bytes[..], None).unwrap();
                }
                _ => {
                    while let Some((number, bytes)) = times.pop_due(START + after) {
                        let soonest = plain.iter().map(|(number, (due, bytes))| (*due, *number, *bytes)).min();
                        prop_assert_eq!(soonest.map(|(_, number, bytes)| (number, bytes)), Some((number, bytes)));
                        plain.remove(&number);
                    }
                }
            }
            prop_assert_eq!(times.len(), plain.len() as u64);
            prop_assert_eq!(times.next_ms(), plain.values().map(|(due, _)| *due).min());
            prop_assert_eq!(times.get(number), plain.get(&number).copied());
            let range = number..=number + after;
            let found: Vec<_> = times.range(range.clone()).collect();
            let expected: Vec<_> = plain.range(range).map(|(number, (due, bytes))| (*number, *due, *bytes)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
