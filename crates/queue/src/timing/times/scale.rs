//! Times as 32-bit ticks: exact to the millisecond for times within 37 days of each other, else rounded up.

use crate::timing::times::TIME_MS_MAX;

/// How far the scale of new times begins before them, in milliseconds: twelve days, so that sooner ones fit in.
const BEFORE_MS: u64 = 1 << 30;

/// Times as numbers of equal steps from a beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Time of tick 0, in milliseconds since the Unix epoch.
    zero_ms: u64,
    /// Length of a tick in milliseconds, at least 1.
    tick_ms: u32,
}

impl Scale {
    /// Bytes of an encoded scale.
    pub(super) const BYTES: usize = 12;
    /// Half seconds since the beginning of 2020.
    pub(crate) const HALF_SECONDS: Self = Self { zero_ms: 1_577_836_800_000, tick_ms: 500 };

    /// The scale of milliseconds from this time on, in milliseconds since the Unix epoch.
    pub(super) fn exact_from(zero_ms: u64) -> Self {
        Self { zero_ms, tick_ms: 1 }
    }

    /// A scale that covers both times, and those between them.
    pub(super) fn about(soonest_ms: u64, latest_ms: u64) -> Self {
        let zero_ms = soonest_ms.min(TIME_MS_MAX).saturating_sub(BEFORE_MS);
        let mut scale = Self { zero_ms, tick_ms: 1 };
        while !scale.covers(latest_ms.min(TIME_MS_MAX)) {
            scale.tick_ms *= 2;
            // Times of coarser scales are times of finer ones, too: rounding up again and again adds up to less than a tick.
            scale.zero_ms = zero_ms - zero_ms % u64::from(scale.tick_ms);
        }
        scale
    }

    /// Whether it has a tick for this time. Times beyond [`TIME_MS_MAX`] count as that.
    pub(super) fn covers(self, time_ms: u64) -> bool {
        let time_ms = time_ms.min(TIME_MS_MAX);
        time_ms >= self.zero_ms && (time_ms - self.zero_ms).div_ceil(u64::from(self.tick_ms)) <= u64::from(u32::MAX)
    }

    /// The first tick that isn't before a time that it covers.
    pub(super) fn tick(self, time_ms: u64) -> u32 {
        let ticks = (time_ms.min(TIME_MS_MAX) - self.zero_ms).div_ceil(u64::from(self.tick_ms));
        u32::try_from(ticks).expect("the scale covers it")
    }

    /// The time of a tick, in milliseconds since the Unix epoch.
    pub(super) fn time_ms(self, tick: u32) -> u64 {
        self.zero_ms + u64::from(tick) * u64::from(self.tick_ms)
    }

    /// Appends 8 bytes time of tick 0 and 4 bytes length of a tick.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.zero_ms.to_le_bytes());
        out.extend_from_slice(&self.tick_ms.to_le_bytes());
    }

    /// Decodes bytes written by [`Scale::encode`]. `None` if there is no such scale.
    pub(super) fn decode(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let (zero_ms, tick_ms) = bytes.split_first_chunk()?;
        let scale =
            Self { zero_ms: u64::from_le_bytes(*zero_ms), tick_ms: u32::from_le_bytes(*tick_ms.first_chunk()?) };
        (scale.zero_ms <= TIME_MS_MAX && scale.tick_ms > 0).then_some(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up_and_only_where_years_are_covered() {
        const DAY_MS: u64 = 86_400_000;
        let now = 1_700_000_000_000;
        for (latest, most) in [(0, 0), (37 * DAY_MS, 0), (400 * DAY_MS, 15), (3_650 * DAY_MS, 127)] {
            let scale = Scale::about(now, now + latest);
            for time in [now, now + 1, now + latest / 3, now + latest] {
                let late = scale.time_ms(scale.tick(time)) - time;
                assert!(scale.covers(time) && late <= most, "{latest}: {late}");
            }
            let mut bytes = Vec::new();
            scale.encode(&mut bytes);
            assert_eq!(Scale::decode(*bytes.first_chunk().unwrap()), Some(scale));
        }
        let scale = Scale::about(0, u64::MAX);
        assert_eq!(scale.tick(u64::MAX), scale.tick(TIME_MS_MAX));
        assert_eq!(Scale::decode([0; Scale::BYTES]), None, "a tick takes time");
    }
}
