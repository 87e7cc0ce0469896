//! Formats figures for people.

/// A time in microseconds.
pub(super) fn time(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0} µs"),
        1e3..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Memory in bytes.
pub(super) fn memory(bytes: f64) -> String {
    match bytes / f64::from(1 << 20) {
        few @ ..0.1 => format!("{:.1} KiB", few * 1024.0),
        few @ ..10.0 => format!("{few:.1} MiB"),
        many => format!("{many:.0} MiB"),
    }
}

/// A number of any size: large ones with commas, small ones with three significant digits.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || magnitude == 0.0 {
        return grouped(value);
    }
    let digits = (2.0 - magnitude.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!([0.9, 1_500.0, 12_000_000.0].map(time), ["1 µs", "1.50 ms", "12.00 s"]);
        assert_eq!([5_120.0, 1_572_864.0, 104_857_600.0].map(memory), ["5.0 KiB", "1.5 MiB", "100 MiB"]);
        let numbers = [0.0, 0.000_521_9, 0.5, 1.0, 20.04, 999.6, 1_234_567.0, -1_500.0, 100.0, 50.0];
        let texts = ["0", "0.000522", "0.5", "1", "20", "1,000", "1,234,567", "-1,500", "100", "50"];
        assert_eq!(numbers.map(number), texts);
    }
}
