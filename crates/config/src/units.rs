//! Parsers of values.

/// A number of bytes, with or without a unit. As in RabbitMQ, `MiB`, `Mi` and `M` count in units of 1024, `MB` in
/// units of 1000.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("expected a number of bytes such as 50MB, 1GiB or 1048576, got '{text}'");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "k" | "kib" | "ki" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" | "mi" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" | "gi" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "t" | "tib" | "ti" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// A time in milliseconds; a number without a unit counts in `unit_ms`.
pub(crate) fn milliseconds(text: &str, unit_ms: u64) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("expected a time such as 10s, 500ms or a bare number, got '{text}'");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.trim_start() {
        "" => unit_ms,
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// A whole number between two bounds.
pub(crate) fn integer(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {min} to {max}, got '{text}'"))
}

/// A number between two bounds.
pub(crate) fn float(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected a number from {min} to {max}, got '{text}'"))
}

/// `true`, `false`, `on` or `off`.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(format!("expected true or false, got '{text}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_units() {
        for (text, expected) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("50MB", 50_000_000),
            ("50 MB", 50_000_000),
            ("1GiB", 1 << 30),
            ("2G", 2 << 30),
            ("64KiB", 65_536),
            ("1tb", 1_000_000_000_000),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "5 parsecs", "99999999999999TB"] {
            assert!(bytes(text).unwrap_err().contains(&format!("'{text}'")), "{text}");
        }
    }

    #[test]
    fn times_with_units() {
        assert_eq!(milliseconds("10s", 1), Ok(10_000));
        assert_eq!(milliseconds("500ms", 1000), Ok(500));
        assert_eq!(milliseconds("60", 1000), Ok(60_000));
        assert!(milliseconds("soon", 1).is_err());
    }

    #[test]
    fn bounds_and_booleans() {
        assert_eq!(integer("5", 0, 5), Ok(5));
        assert_eq!(integer("6", 0, 5).unwrap_err(), "expected a whole number from 0 to 5, got '6'");
        assert!(float("nan", 0.0, 1.0).is_err());
        assert_eq!(boolean("yes").unwrap_err(), "expected true or false, got 'yes'");
    }
}
