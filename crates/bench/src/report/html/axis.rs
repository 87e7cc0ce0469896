//! Positions and tick labels of values on an axis.

use crate::report::units;

/// An axis of a plot.
pub(super) struct Axis {
    pub(super) label: &'static str,
    scale: Scale,
    low: f64,
    high: f64,
    /// Values with their names.
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// From 0 to at least the highest value, with round values labelled by `name`.
    pub(super) fn from_zero(label: &'static str, highest: f64, name: fn(f64) -> String) -> Self {
        let step = round_step(highest / 5.0);
        let high = (highest / step).ceil().max(1.0) * step;
        let count = (high / step).round() as u32;
        let ticks = (0..=count).map(|index| f64::from(index) * step).map(|value| (value, name(value))).collect();
        Self { label, scale: Scale::Linear, low: 0.0, high, ticks }
    }

    /// Powers of ten around the values, which must be above 0.
    pub(super) fn log(label: &'static str, values: impl Iterator<Item = f64>, name: fn(f64) -> String) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if high <= 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let ticks = (first..=last).map(|power| 10_f64.powi(power)).map(|value| (value, name(value))).collect();
        Self { label, scale: Scale::Log, low: 10_f64.powi(first), high: 10_f64.powi(last), ticks }
    }

    /// Percentiles, where each further nine takes the same width, up to `highest` (under 100).
    pub(super) fn percentiles(label: &'static str, highest: f64) -> Self {
        let named = [0.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999];
        let high = tail(highest).max(10.0);
        let ticks = named.into_iter().filter(|percentile| tail(*percentile) <= high * 1.001);
        let ticks = ticks.map(|percentile| (tail(percentile), format!("{percentile} %"))).collect();
        Self { label, scale: Scale::Log, low: 1.0, high, ticks }
    }

    /// One position for each name.
    pub(super) fn names(label: &'static str, names: impl Iterator<Item = String>) -> Self {
        let ticks: Vec<(f64, String)> = names.enumerate().map(|(index, name)| (index as f64 + 0.5, name)).collect();
        Self { label, scale: Scale::Linear, low: 0.0, high: ticks.len().max(1) as f64, ticks }
    }

    /// Position of a value, from 0 (lowest) to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        share.clamp(0.0, 1.0)
    }
}

/// One in how many messages is above a percentile.
pub(super) fn tail(percentile: f64) -> f64 {
    100.0 / (100.0 - percentile)
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    if !wanted.is_finite() || wanted <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powi(wanted.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= wanted * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// A time in microseconds without insignificant digits.
pub(super) fn time(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{} µs", units::number(micros)),
        1e3..1e6 => format!("{} ms", units::number(micros / 1e3)),
        _ => format!("{} s", units::number(micros / 1e6)),
    }
}

/// `1.5 M`, `20 k`.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, " M"),
        1e3.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    units::number(value) + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn round_values_are_named() {
        let axis = Axis::from_zero("x", 41_310.0, short);
        assert_eq!(names(&axis), ["0", "10 k", "20 k", "30 k", "40 k", "50 k"]);
        assert_eq!([0.0, 25_000.0, 50_000.0, 99e9].map(|value| axis.place(value)), [0.0, 0.5, 1.0, 1.0]);
        assert_eq!(names(&Axis::from_zero("x", 1.7e6, short)), ["0", "500 k", "1 M", "1.5 M", "2 M"]);
        assert_eq!(names(&Axis::from_zero("x", 0.0, short)), ["0", "1"]);
    }

    #[test]
    fn powers_of_ten_are_named() {
        let axis = Axis::log("x", [70.0, 3_000.0].into_iter(), time);
        assert_eq!(names(&axis), ["10 µs", "100 µs", "1 ms", "10 ms"]);
        assert!((axis.place(100.0) - 1.0 / 3.0).abs() < 1e-9 && axis.place(0.0) == 0.0);
        assert_eq!(Axis::log("x", [].into_iter(), short).ticks.len(), 2);
        assert_eq!(names(&Axis::log("x", [100.0].into_iter(), short)), ["100", "1 k"]);
    }

    #[test]
    fn each_nine_is_as_wide_as_the_one_before() {
        let axis = Axis::percentiles("x", 99.99);
        assert_eq!(names(&axis), ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
        for (index, percentile) in [0.0, 90.0, 99.0, 99.9, 99.99].into_iter().enumerate() {
            assert!((axis.place(tail(percentile)) - index as f64 / 4.0).abs() < 1e-6, "{percentile}");
        }
    }
}
