//! The times of rotations by date.

use leveret_config::{Period, RotationDate};
use time::{Duration, OffsetDateTime, Time};

/// The latest time, not after this one, at which a rotation was due.
pub(super) fn last_due(rotation: &RotationDate, now: OffsetDateTime) -> OffsetDateTime {
    let at = |date: time::Date| {
        let time = Time::from_hms(rotation.hour, rotation.minute, 0).unwrap_or(Time::MIDNIGHT);
        date.with_time(time).assume_utc()
    };
    if rotation.period == Period::Hour {
        let whole = now.replace_time(Time::from_hms(now.hour(), rotation.minute, 0).unwrap_or(Time::MIDNIGHT));
        return if whole <= now { whole } else { whole.saturating_sub(Duration::HOUR) };
    }
    // At most one month and a day back.
    let mut date = now.date();
    loop {
        let is_day = match rotation.period {
            Period::Hour | Period::Day => true,
            Period::Week(day) => date.weekday().number_days_from_sunday() == day,
            Period::Month(day) => {
                let last = date.month().length(date.year());
                date.day() == day.map_or(last, |day| day.min(last))
            }
        };
        if is_day && at(date) <= now {
            return at(date);
        }
        match date.previous_day() {
            Some(earlier) => date = earlier,
            None => return at(date),
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_config::Config;

    use super::super::calendar::Moment;
    use super::*;

    #[track_caller]
    fn check(spec: &str, now_s: u64, expected: &str) {
        let mut config = Config::default();
        config.read("rabbitmq.conf", &format!("log.file.rotation.date = {spec}\n")).expect("is right");
        let rotation = config.log.file.rotation.date.expect("was named");
        let now = Moment::of(std::time::UNIX_EPOCH + std::time::Duration::from_secs(now_s)).date();
        let due = last_due(&rotation, now);
        assert_eq!(due.to_string(), format!("{expected} +00:00:00"), "{spec}");
    }

    /// Sunday 2026-11-22, 18:13:38.
    const SUNDAY: u64 = 1_795_371_218;

    #[test]
    fn times_that_have_passed_are_found() {
        check("$D0", SUNDAY, "2026-11-22 0:00:00.0");
        check("$D18", SUNDAY, "2026-11-22 18:00:00.0");
        check("$D19", SUNDAY, "2026-11-21 19:00:00.0");
        check("$H13", SUNDAY, "2026-11-22 18:13:00.0");
        check("$H30", SUNDAY, "2026-11-22 17:30:00.0");
        check("$W0D0", SUNDAY, "2026-11-22 0:00:00.0");
        check("$W5D16", SUNDAY, "2026-11-20 16:00:00.0");
        check("$W0D23", SUNDAY, "2026-11-15 23:00:00.0");
        check("$M1D0", SUNDAY, "2026-11-01 0:00:00.0");
        check("$M31D5", SUNDAY, "2026-10-31 5:00:00.0");
        check("$MLD5", SUNDAY, "2026-10-31 5:00:00.0");
        // Two days later than the end of February.
        check("$M30D0", 1_772_409_600, "2026-02-28 0:00:00.0");
    }
}
