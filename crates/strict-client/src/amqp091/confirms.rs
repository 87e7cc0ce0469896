//! Unconfirmed publishes of a channel.

use std::collections::VecDeque;

/// Tags are dense, so the unconfirmed ones are within a window: everything below `base` is confirmed.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    /// Whether the server sent `confirm.select-ok`, or needn't.
    pub(crate) selected: bool,
    /// Highest tag up to which all are confirmed.
    confirmed_to: u64,
    /// For each published tag above `confirmed_to`, whether it is confirmed.
    window: VecDeque<bool>,
    open: usize,
}

impl Confirms {
    /// The tag of the next publish.
    pub(crate) fn publish(&mut self) -> u64 {
        self.window.push_back(false);
        self.open += 1;
        self.last_published()
    }

    pub(crate) fn last_published(&self) -> u64 {
        self.confirmed_to + self.window.len() as u64
    }

    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Processes a confirm, and passes each newly confirmed range of tags to `newly`. Returns false if it breaks the
    /// rule.
    pub(crate) fn confirm(&mut self, tag: u64, multiple: bool, mut newly: impl FnMut(u64, u64)) -> bool {
        let tag = if tag == 0 && multiple { self.last_published() } else { tag };
        if tag <= self.confirmed_to || tag > self.last_published() {
            return false;
        }
        let index = (tag - self.confirmed_to - 1) as usize;
        if !multiple {
            if std::mem::replace(&mut self.window[index], true) {
                return false;
            }
            self.open -= 1;
            newly(tag, tag);
        } else {
            let mut start = None;
            let mut covered = 0;
            for at in 0..=index {
                if std::mem::replace(&mut self.window[at], true) {
                    if let Some(first) = start.take() {
                        newly(self.confirmed_to + first, self.confirmed_to + at as u64);
                    }
                } else {
                    covered += 1;
                    start.get_or_insert(at as u64 + 1);
                }
            }
            if let Some(first) = start {
                newly(self.confirmed_to + first, tag);
            }
            if covered == 0 {
                return false;
            }
            self.open -= covered;
        }
        while self.window.front() == Some(&true) {
            self.window.pop_front();
            self.confirmed_to += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Confirms;

    fn confirm(confirms: &mut Confirms, tag: u64, multiple: bool) -> Option<Vec<(u64, u64)>> {
        let mut ranges = Vec::new();
        confirms.confirm(tag, multiple, |first, last| ranges.push((first, last))).then_some(ranges)
    }

    #[test]
    fn each_tag_is_confirmed_once() {
        let mut confirms = Confirms::default();
        assert_eq!(confirm(&mut confirms, 1, false), None);
        assert_eq!((1..=6).map(|_| confirms.publish()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(confirm(&mut confirms, 3, false), Some(vec![(3, 3)]));
        assert_eq!(confirm(&mut confirms, 3, false), None);
        assert_eq!(confirm(&mut confirms, 5, true), Some(vec![(1, 2), (4, 5)]));
        assert_eq!(confirm(&mut confirms, 5, true), None);
        assert_eq!(confirm(&mut confirms, 7, false), None);
        assert_eq!(confirms.open(), 1);
        assert_eq!(confirm(&mut confirms, 0, true), Some(vec![(6, 6)]));
        assert_eq!(confirm(&mut confirms, 0, true), None);
        assert_eq!((confirms.open(), confirms.last_published()), (0, 6));
    }

    #[test]
    fn a_multiple_that_covers_nothing_new_is_refused() {
        let mut confirms = Confirms::default();
        for _ in 0..3 {
            confirms.publish();
        }
        assert!(confirm(&mut confirms, 2, false).is_some());
        assert_eq!(confirm(&mut confirms, 2, true), Some(vec![(1, 1)]));
        assert_eq!(confirm(&mut confirms, 2, true), None);
    }
}
