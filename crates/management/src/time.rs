//! Times in the API's format.

use crate::api::Api;

/// Formats milliseconds since 1970 like `2026-11-21T09:59:18.123+00:00`.
pub(crate) fn iso8601(wall_ms: u64) -> String {
    let (seconds, ms) = (wall_ms / 1000, wall_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years; count from 1 March of year 0, so that leap days come last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next_year;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// The time of the last activity, given by the monotonic clock; the start of the node if there was none.
pub(crate) fn idle_since(api: &Api, used: u64) -> String {
    let now = api.node().clock().now();
    iso8601(now.wall_ms_at(if used == 0 { now.monotonic.saturating_sub(api.uptime_ms() * 1_000_000) } else { used }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999+00:00"),
            (1_795_255_158_123, "2026-11-21T09:59:18.123+00:00"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000+00:00"),
        ] {
            assert_eq!(iso8601(ms), text);
        }
    }
}
