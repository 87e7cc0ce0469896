//! Numbers, sizes and times as people read them, as the page writes them.

/// A whole number with separators: 12,345.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One thing or several: 1 message, 2 messages.
pub(crate) fn several(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Something per second.
pub(crate) fn rate(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if value < 0.1 && value > 0.0 => "< 0.1".to_owned(),
        _ if value.abs() < 10.0 => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}

/// A size in binary units.
pub(crate) fn bytes(number: u64) -> String {
    let mut size = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if size < 1024.0 || unit == "TiB" {
            return match unit {
                "B" => format!("{} B", count(number)),
                _ if size < 10.0 => format!("{size:.2} {unit}"),
                _ if size < 100.0 => format!("{size:.1} {unit}"),
                _ => format!("{} {unit}", count(size.round() as u64)),
            };
        }
        size /= 1024.0;
    }
    String::new()
}

/// A length of time.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).floor() as u64;
    match whole {
        _ if seconds <= 0.0 => "0 s".to_owned(),
        0 => format!("{} ms", (seconds * 1000.0).round()),
        1..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_page_writes_them() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([several(1, "message"), several(1500, "message")], ["1 message", "1,500 messages"]);
        assert_eq!([0.0, 0.04, 2.5, 1200.4].map(rate), ["0", "< 0.1", "2.5", "1,200"]);
        assert_eq!([1023, 1536, 10 << 20].map(bytes), ["1,023 B", "1.50 KiB", "10.0 MiB"]);
        assert_eq!([0.25, 61.0, 7300.0, 90_000.0].map(span), ["250 ms", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
