/// The conditions for rotating a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rotation {
    /// `rotation.size`: size in bytes at which it is rotated; `None` for no limit.
    pub size: Option<u64>,
    /// `rotation.date`: times at which it is rotated.
    pub date: Option<RotationDate>,
    /// `rotation.count`: number of old files kept.
    pub count: u32,
    /// `rotation.compress`: whether old files are compressed with gzip.
    pub compress: bool,
}

/// A recurring time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationDate {
    /// Its period.
    pub period: Period,
    /// Hour from 0 to 23; ignored if hourly.
    pub hour: u8,
    /// Minute from 0 to 59.
    pub minute: u8,
}

/// The period of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Hourly.
    Hour,
    /// Daily.
    Day,
    /// Weekly on this day; 0 is Sunday.
    Week(u8),
    /// Monthly on this day, from 1, or on the last day of a shorter month; `None` for the last day.
    Month(Option<u8>),
}

impl RotationDate {
    /// Parses the syntax of newsyslog.conf(5): `$H30`, `$D0`, `$W5D16`, `$M1D0`, `$MLD23`.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let wrong = || {
            format!(
                "'{text}' is no date of a rotation: expected $D0 for every midnight, $W5D16 for Fridays at 16, \
                 $M1D0 for the first of a month ($ML for the last), or $H30 for half past each hour"
            )
        };
        if text.is_empty() {
            return Ok(None);
        }
        let mut rest = text.strip_prefix('$').ok_or_else(wrong)?;
        let mut part = |letter: char, from: u8, to: u8| -> Result<Option<u8>, String> {
            let Some(behind) = rest.strip_prefix(letter) else { return Ok(None) };
            let (number, behind) = behind.split_at(behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len()));
            if letter == 'M' && number.is_empty() {
                rest = behind.strip_prefix('L').ok_or_else(wrong)?;
                return Ok(Some(0));
            }
            rest = behind;
            let number = number.parse().ok().filter(|number| (from..=to).contains(number));
            number.map(Some).ok_or_else(wrong)
        };
        let month = part('M', 1, 31)?;
        let week = if month.is_none() { part('W', 0, 6)? } else { None };
        let day = part('D', 0, 23)?;
        let minute = part('H', 0, 59)?;
        if !rest.is_empty() {
            return Err(wrong());
        }
        let period = match (month, week, day, minute) {
            (Some(day), _, _, _) => Period::Month(Some(day).filter(|day| *day != 0)),
            (None, Some(day), _, _) => Period::Week(day),
            (None, None, Some(_), _) => Period::Day,
            (None, None, None, Some(_)) => Period::Hour,
            (None, None, None, None) => return Err(wrong()),
        };
        Ok(Some(Self { period, hour: day.unwrap_or(0), minute: minute.unwrap_or(0) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_newsyslog_are_read() {
        let date = |period, hour, minute| Ok(Some(RotationDate { period, hour, minute }));
        assert_eq!(RotationDate::parse("$D0"), date(Period::Day, 0, 0));
        assert_eq!(RotationDate::parse("$D23H30"), date(Period::Day, 23, 30));
        assert_eq!(RotationDate::parse("$W5D16"), date(Period::Week(5), 16, 0));
        assert_eq!(RotationDate::parse("$W0"), date(Period::Week(0), 0, 0));
        assert_eq!(RotationDate::parse("$M1D0"), date(Period::Month(Some(1)), 0, 0));
        assert_eq!(RotationDate::parse("$MLD3"), date(Period::Month(None), 3, 0));
        assert_eq!(RotationDate::parse("$H00"), date(Period::Hour, 0, 0));
        assert_eq!(RotationDate::parse(""), Ok(None));
        for wrong in ["D0", "$D24", "$W7", "$M0", "$M32", "$H60", "$", "$D1x", "daily"] {
            assert!(RotationDate::parse(wrong).expect_err(wrong).contains(wrong));
        }
    }
}
