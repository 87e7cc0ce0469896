//! Pages of the rows of several members, found by their keys.
//!
//! A page far behind has many rows before it, and no member knows how many of them are its own. So each is asked for samples first: the
//! key of each so-manieth row up to the page's end. These tell of each member a window that has its rows of the page, and how many rows
//! are before all windows. The keys within the windows tell which rows these are. With `step` samples apart, `n` members and a page of
//! `size` rows, `n * end / step` samples and at most about `size + 3 * n * step` keys are sent, instead of `n * end` rows.
//!
//! A member's rows are asked for by their places. When rows come or go there between two questions, its rows on the page may be those next
//! to the ones that were meant; none is there twice.

use std::cmp::Ordering;
use std::ops::Range;

use crate::merged_rows::{MemberRows, MergedRow};

/// Most samples of a member.
const SAMPLES_MAX: usize = 4096;

/// The distance of samples for a page that ends there: about as many samples as keys in the windows.
pub(crate) fn step(end: usize) -> usize {
    (end / 2).isqrt().max(end.div_ceil(SAMPLES_MAX)).max(1)
}

/// The range of each member's list in which its rows of the page are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    pub(crate) ranges: Vec<Range<usize>>,
    /// The number of rows before all of them.
    pub(crate) skipped: usize,
}

/// The windows for a range of the merged list, given the keys of each `step`th row of each member up to the range's end.
pub(crate) fn windows(samples: &[MemberRows], step: usize, wanted: &Range<usize>, is_reversed: bool) -> Windows {
    let lengths: Vec<usize> = samples.iter().map(|part| part.filtered as usize).collect();
    let mut all: Vec<(&MergedRow, usize, usize)> = Vec::new();
    for (member, part) in samples.iter().enumerate() {
        all.extend(part.rows.iter().enumerate().map(|(at, row)| (row, member, at)));
    }
    all.sort_by(|one, other| in_order((one.0, one.1, one.2), (other.0, other.1, other.2), is_reversed));
    // Of each member, the samples that are before the one which is looked at.
    let mut before = vec![0; samples.len()];
    let mut lows = vec![0; samples.len()];
    let mut highs = lengths.clone();
    for (_, member, at) in all {
        let most = |of: usize| match of == member {
            true => at * step,
            false if before[of] < samples[of].rows.len() => before[of] * step,
            false => lengths[of],
        };
        let least = |of: usize| match of == member {
            true => at * step,
            // The last sample before this one is before it, too.
            false => before[of].checked_sub(1).map_or(0, |last| last * step + 1),
        };
        let (mosts, leasts) = ((0..samples.len()).map(most), (0..samples.len()).map(least));
        if mosts.clone().sum::<usize>() <= wanted.start {
            lows = leasts.clone().collect();
        }
        if leasts.sum::<usize>() >= wanted.end {
            highs = mosts.collect();
            break;
        }
        before[member] = at + 1;
    }
    let skipped = lows.iter().sum();
    let range = |(low, high): (usize, usize)| low..high.min(wanted.end).max(low);
    Windows { ranges: lows.into_iter().zip(highs).map(range).collect(), skipped }
}

/// Rows with equal keys are ordered by their members, then by their places there.
fn in_order(
    (row, member, at): (&MergedRow, usize, usize),
    (other_row, other_member, other_at): (&MergedRow, usize, usize),
    is_reversed: bool,
) -> Ordering {
    row.order(other_row, is_reversed).then_with(|| (member, at).cmp(&(other_member, other_at)))
}

/// The place of a row: its member, and its number in the list of that.
pub(crate) type RowPlace = (usize, usize);

/// The places of a page's rows, given the keys of all windows.
pub(crate) fn places(
    keys: Vec<MemberRows>,
    windows: &Windows,
    wanted: &Range<usize>,
    is_reversed: bool,
) -> Vec<RowPlace> {
    let mut all: Vec<(MergedRow, usize, usize)> = Vec::new();
    for (member, (part, range)) in keys.into_iter().zip(&windows.ranges).enumerate() {
        all.extend(part.rows.into_iter().enumerate().map(|(at, row)| (row, member, range.start + at)));
    }
    all.sort_by(|one, other| in_order((&one.0, one.1, one.2), (&other.0, other.1, other.2), is_reversed));
    // A queue got a leader while its members were asked, and two have it.
    all.dedup_by(|later, row| {
        later.1 != row.1
            && row.0.object().is_some_and(|object| !object.1.is_empty() && later.0.object() == Some(object))
    });
    let on_page = all.into_iter().skip(wanted.start.saturating_sub(windows.skipped)).take(wanted.len());
    on_page.map(|(_, member, at)| (member, at)).collect()
}

/// The range of each member's list that has its rows of the page.
pub(crate) fn ranges(places: &[RowPlace], members: usize) -> Vec<Range<usize>> {
    let mut ranges = vec![0..0; members];
    for &(member, at) in places {
        let range = &mut ranges[member];
        *range = match range.start == range.end {
            true => at..at + 1,
            false => range.start.min(at)..range.end.max(at + 1),
        };
    }
    ranges
}

/// The page's rows, given those of each member's range. Rows that are gone by now are left out.
pub(crate) fn rows(places: &[RowPlace], parts: Vec<MemberRows>) -> Vec<MergedRow> {
    let starts: Vec<usize> = ranges(places, parts.len()).into_iter().map(|range| range.start).collect();
    let mut parts: Vec<Vec<Option<MergedRow>>> =
        parts.into_iter().map(|part| part.rows.into_iter().map(Some).collect()).collect();
    places.iter().filter_map(|&(member, at)| parts[member].get_mut(at - starts[member])?.take()).collect()
}

#[cfg(test)]
mod tests {
    use leveret_node::ForwardedResponse;
    use serde_json::{Value, json};

    use super::*;

    fn part(rows: &[Value], length: usize) -> MemberRows {
        let page = json!({"items": rows, "total_count": length, "filtered_count": length});
        let body = serde_json::to_vec(&page).expect("JSON").into();
        MemberRows::of(&ForwardedResponse { status: 200, headers: Vec::new(), body }, "key").expect("a page")
    }

    /// The rows of a member that a question gets.
    fn asked(rows: &[Value], range: &Range<usize>, step: usize) -> MemberRows {
        let found: Vec<Value> = rows.iter().take(range.end).skip(range.start).step_by(step).cloned().collect();
        part(&found, rows.len())
    }

    fn sorted(mut rows: Vec<Value>, is_reversed: bool) -> Vec<Value> {
        let key = |row: &Value| row["key"].as_u64().expect("a number");
        let name = |row: &Value| row["name"].as_str().expect("a name").to_owned();
        rows.sort_by(|one, other| {
            let order = if is_reversed { key(other).cmp(&key(one)) } else { key(one).cmp(&key(other)) };
            order.then_with(|| name(one).cmp(&name(other)))
        });
        rows
    }

    #[test]
    fn every_page_has_the_rows_of_the_whole_list() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for keys in [1, 3, 5000] {
            for uneven in [1, 40] {
                let mut lists = vec![Vec::new(); 3];
                for number in 0..2000 {
                    let row = json!({"key": random(keys), "vhost": "/", "name": format!("q{number:05}")});
                    let member = random(2 + uneven).min(2) as usize;
                    lists[member].push(row);
                }
                for is_reversed in [false, true] {
                    let all = sorted(lists.concat(), is_reversed);
                    let lists: Vec<_> = lists.iter().map(|rows| sorted(rows.clone(), is_reversed)).collect();
                    for wanted in [0..10, 90..100, 500..600, 1000..1001, 1490..1900, 1990..2100, 1999..2400] {
                        let step = step(wanted.end);
                        let ask = |ranges: &[Range<usize>], step: usize| -> Vec<MemberRows> {
                            lists.iter().zip(ranges).map(|(rows, range)| asked(rows, range, step)).collect()
                        };
                        let samples = ask(&vec![0..wanted.end; 3], step);
                        let windows = windows(&samples, step, &wanted, is_reversed);
                        let width: usize = windows.ranges.iter().map(Range::len).sum();
                        assert!(width <= wanted.len() + 12 * step, "{width} for {wanted:?}");
                        let places = places(ask(&windows.ranges, 1), &windows, &wanted, is_reversed);
                        let ranges = ranges(&places, 3);
                        assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), places.len());
                        let found = rows(&places, ask(&ranges, 1));
                        let found: Vec<Value> = found.iter().map(MergedRow::value).collect();
                        assert_eq!(found, all[wanted.start..wanted.end.min(2000)], "{wanted:?} {keys} {is_reversed}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_are_gone_or_twice_there_are_left_out() {
        let row = |key: u64, name: &str| json!({"key": key, "vhost": "/", "name": name});
        let windows = Windows { ranges: vec![0..10, 5..15], skipped: 5 };
        let keys = vec![part(&[row(1, "a"), row(3, "c")], 2), part(&[row(2, "b"), row(3, "c"), row(4, "d")], 8)];
        let places = places(keys, &windows, &(5..15), false);
        assert_eq!(places, [(0, 0), (1, 5), (0, 1), (1, 7)]);
        assert_eq!(ranges(&places, 2), [0..2, 5..8]);
        let parts = vec![part(&[row(1, "a")], 1), part(&[row(2, "b"), row(3, "c"), row(4, "d")], 8)];
        let found = rows(&places, parts);
        assert_eq!(found.iter().filter_map(|row| Some(row.object()?.1)).collect::<Vec<_>>(), ["a", "b", "d"]);
    }
}
