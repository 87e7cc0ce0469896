//! The plots of one load: its brokers side by side.

use super::axis::{Axis, short, tail, time};
use super::plot::{Plot, Shape, ShapeKind};
use crate::report::record::{Record, SampleRecord};
use crate::report::summary::RoundGroup;
use crate::report::units;

/// A broker's rounds with its colour.
pub(super) struct Coloured<'g> {
    pub(super) colour: usize,
    pub(super) name: String,
    pub(super) group: &'g RoundGroup<'g>,
}

/// Every plot for which there are values.
pub(super) fn charts(brokers: &[Coloured<'_>]) -> String {
    let plots = [
        over_time("Throughput", "messages /s", brokers, throughput, Axis::from_zero, short),
        over_time("Latency, p99 of each moment", "p99", brokers, latency, log_from, time),
        distribution(brokers),
        over_time("Resident memory of the broker", "MiB", brokers, memory, Axis::from_zero, units::number),
        syncs(brokers),
    ];
    plots.iter().flatten().map(Plot::figure).collect()
}

type Points = Vec<(f64, f64)>;
/// Formats a value on an axis.
type Written = fn(f64) -> String;

/// A line per round, the median one on top.
fn lines(brokers: &[Coloured<'_>], points_of: impl Fn(&Record) -> Points) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for Coloured { colour, name, group } in brokers {
        let middle = group.middle();
        for round in &group.rounds {
            let points = points_of(round);
            if points.len() > 1 {
                let name = format!("{name}, round {}", round.round);
                let is_faint = !std::ptr::eq(*round, middle);
                shapes.push(Shape { colour: *colour, is_faint, name, kind: ShapeKind::Line(points) });
            }
        }
    }
    shapes
}

fn all_points(shapes: &[Shape]) -> impl Iterator<Item = (f64, f64)> {
    let points = shapes.iter().filter_map(|shape| match &shape.kind {
        ShapeKind::Line(points) => Some(points),
        ShapeKind::Bars(_) => None,
    });
    points.flatten().copied()
}

fn highest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// A logarithmic axis of three powers of ten up to the highest value, whatever the lowest one is.
fn log_from(label: &'static str, highest: f64, name: Written) -> Axis {
    Axis::log(label, [highest / 1e3, highest].into_iter().map(|value| value.max(1.0)), name)
}

fn over_time(
    title: &'static str,
    unit: &'static str,
    brokers: &[Coloured<'_>],
    points_of: fn(&[SampleRecord]) -> Points,
    axis: fn(&'static str, f64, Written) -> Axis,
    name: Written,
) -> Option<Plot> {
    let shapes = lines(brokers, |round| points_of(&round.series));
    let x = Axis::from_zero("seconds", highest(all_points(&shapes).map(|point| point.0)), units::number);
    let y = axis(unit, highest(all_points(&shapes).map(|point| point.1)), name);
    (!shapes.is_empty()).then_some(Plot { title, x, y, shapes })
}

/// Messages received since the previous sample, or sent if nothing is received.
fn throughput(series: &[SampleRecord]) -> Points {
    let receives = series.iter().any(|sample| sample.received > 0);
    let count = |sample: &SampleRecord| if receives { sample.received } else { sample.sent };
    let mut before = SampleRecord::default();
    let mut points = Vec::new();
    for sample in series {
        let seconds = sample.seconds - before.seconds;
        // The last sample may be so close to the previous one that the quotient is meaningless.
        if seconds > 0.02 {
            points.push((sample.seconds, count(sample).saturating_sub(count(&before)) as f64 / seconds));
            before = *sample;
        }
    }
    // The first interval begins at the first point.
    if let Some((_, rate)) = points.first() {
        points.insert(0, (0.0, *rate));
    }
    points
}

fn latency(series: &[SampleRecord]) -> Points {
    series.iter().filter_map(|sample| Some((sample.seconds, sample.latency_p99_us?))).collect()
}

fn memory(series: &[SampleRecord]) -> Points {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    series.iter().filter_map(|sample| Some((sample.seconds, mebibytes(sample.resident_bytes?)))).collect()
}

/// The axis of percentiles is that of HdrHistogram's own plots.
fn distribution(brokers: &[Coloured<'_>]) -> Option<Plot> {
    let shapes = lines(brokers, |round| curve(&round.latency_curve_us));
    let x = highest(all_points(&shapes).map(|point| point.0));
    let x = Axis::percentiles("percentile", 100.0 - 100.0 / x.max(1.0));
    let y = Axis::log("latency", all_points(&shapes).map(|point| point.1.max(1.0)), time);
    (!shapes.is_empty()).then_some(Plot { title: "Latency by percentile", x, y, shapes })
}

/// 100 % would be infinitely far: the highest latency is drawn at the last percentile before it.
fn curve(curve: &[(f64, f64)]) -> Points {
    let mut last = 1.0;
    let place = |(percentile, latency): &(f64, f64)| {
        if *percentile < 100.0 {
            last = tail(*percentile);
        }
        (last, *latency)
    };
    curve.iter().map(place).collect()
}

/// Fractions of syncs by duration in the median rounds.
fn syncs(brokers: &[Coloured<'_>]) -> Option<Plot> {
    let known = brokers.iter().map(|one| (one, &one.group.middle().sync_histogram));
    let known: Vec<_> = known.filter(|(_, buckets)| buckets.iter().any(|bucket| bucket.count > 0.0)).collect();
    let (_, buckets) = known.first()?;
    let bounds: Vec<Option<f64>> = buckets.iter().map(|bucket| bucket.at_most_us).collect();
    let comparable: Vec<_> = known
        .iter()
        .filter(|(_, other)| other.iter().map(|bucket| bucket.at_most_us).eq(bounds.iter().copied()))
        .collect();
    let used = |index: usize| comparable.iter().any(|(_, buckets)| buckets[index].count > 0.0);
    let first = (0..bounds.len()).find(|index| used(*index))?;
    let last = (0..bounds.len()).rfind(|index| used(*index))?;
    let mut shapes = Vec::new();
    let mut all_shares = Vec::new();
    for (index, (one, buckets)) in comparable.iter().enumerate() {
        let all: f64 = buckets.iter().map(|bucket| bucket.count).sum();
        let width = 0.8 / comparable.len() as f64;
        let bars = buckets[first..=last].iter().enumerate().map(|(place, bucket)| {
            let left = place as f64 + 0.1 + width * index as f64;
            (left, left + width, bucket.count / all * 100.0)
        });
        let bars: Vec<_> = bars.collect();
        all_shares.extend(bars.iter().map(|bar| bar.2));
        shapes.push(Shape { colour: one.colour, is_faint: false, name: one.name.clone(), kind: ShapeKind::Bars(bars) });
    }
    // If there are many, not every name can be shown.
    let every = (last - first + 1).div_ceil(8);
    let names = bounds[first..=last].iter().enumerate().map(|(index, bound)| match bound {
        _ if index % every > 0 => String::new(),
        Some(micros) => time(*micros),
        None => "more".into(),
    });
    let x = Axis::names("time of a sync, at most", names);
    let y = Axis::from_zero("% of the syncs", highest(all_shares.into_iter()), units::number);
    Some(Plot { title: "Syncs of the disk", x, y, shapes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_what_came_between_two_samples() {
        let sample = |seconds, sent, received| SampleRecord { seconds, sent, received, ..SampleRecord::default() };
        let both = [sample(0.5, 100, 50), sample(1.0, 200, 150), sample(1.001, 300, 250)];
        assert_eq!(throughput(&both), [(0.0, 100.0), (0.5, 100.0), (1.0, 200.0)]);
        assert_eq!(throughput(&[sample(0.5, 100, 0), sample(1.0, 100, 0)]), [(0.0, 200.0), (0.5, 200.0), (1.0, 0.0)]);
    }

    #[test]
    fn the_highest_latency_stands_above_the_last_percentile() {
        let points = curve(&[(0.0, 5.0), (50.0, 7.0), (90.0, 8.0), (100.0, 9.0)]);
        assert_eq!(points, [(1.0, 5.0), (2.0, 7.0), (10.0, 8.0), (10.0, 9.0)]);
    }
}
