//! Samples of a round's counters over time, and its progress display.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::latencies::Latencies;
use crate::process::Processes;
use crate::tally::Tally;

/// Interval of samples, until there are too many.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// At this many samples every second one is dropped, and the interval doubled.
const SAMPLES_MAX: usize = 400;
/// Shorter runs show no progress on a terminal.
const LONG: Duration = Duration::from_secs(10);
/// Interval of progress on a terminal, and of reading the counters for it.
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Interval of progress lines if there is no terminal to overwrite them on.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A sample of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Time since the start.
    pub(crate) seconds: f64,
    /// Messages written so far.
    pub(crate) sent: u64,
    /// Messages received and verified so far, including copies.
    pub(crate) received: u64,
    /// The broker's memory in bytes, if its process is known.
    pub(crate) resident: Option<u64>,
    /// Nanoseconds, for messages since the previous sample; the highest value if samples were dropped.
    pub(crate) latency_p99: Option<u64>,
}

/// Least number of samples for a change of rate.
const CHANGE_SAMPLES_MIN: usize = 5;

/// The rate in the last quarter of the time, of the messages counted by `count`, relative to that in the first
/// quarter. `end_seconds` is the time of the last message: a round may wait longer for further ones. `None` if no
/// message came in the first quarter, or if there are too few samples.
pub(crate) fn rate_at_end(samples: &[Sample], end_seconds: f64, count: impl Fn(&Sample) -> u64) -> Option<f64> {
    let until = samples.partition_point(|sample| sample.seconds < end_seconds);
    let mut points: Vec<(f64, f64)> =
        samples[..until].iter().map(|sample| (sample.seconds, count(sample) as f64)).collect();
    points.push((end_seconds, count(samples.last()?) as f64));
    if points.len() < CHANGE_SAMPLES_MIN {
        return None;
    }
    let start_seconds = points[0].0;
    let at = |share: f64| {
        let seconds = start_seconds + (end_seconds - start_seconds) * share;
        let after = points.partition_point(|(at, _)| *at < seconds).clamp(1, points.len() - 1);
        let [(before, had), (after, has)] = [points[after - 1], points[after]];
        let part = (seconds - before) / (after - before).max(f64::MIN_POSITIVE);
        had + (has - had) * part
    };
    let (at_start, at_end) = (at(0.25) - at(0.0), at(1.0) - at(0.75));
    (at_start > 0.0).then(|| at_end / at_start)
}

/// The form of progress on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Never,
    /// Overwrites one line of a terminal.
    Terminal,
    /// Writes a line now and then.
    Lines,
}

impl Progress {
    /// On a terminal by default, elsewhere if requested.
    pub(crate) fn of(was_asked: bool) -> Self {
        match (std::io::stderr().is_terminal(), was_asked) {
            (true, _) => Self::Terminal,
            (false, true) => Self::Lines,
            (false, false) => Self::Never,
        }
    }
}

/// The watched round.
pub(crate) struct Watch<'r> {
    pub(crate) tally: &'r Tally,
    /// The broker's.
    pub(crate) processes: &'r Processes,
    pub(crate) start: Instant,
    pub(crate) progress: Progress,
    /// The progress at a sample, from 0 to 1.
    pub(crate) done: &'r (dyn Fn(&Sample) -> f64 + Sync),
}

impl Watch<'_> {
    /// Takes a sample.
    pub(crate) fn sample(&self) -> Sample {
        Sample {
            seconds: self.start.elapsed().as_secs_f64(),
            sent: self.tally.sent(),
            received: self.tally.received(),
            resident: self.processes.memory().map(|memory| memory.resident),
            latency_p99: None,
        }
    }

    /// Takes samples until the other end of `over` is dropped; the last sample is taken at the end. `first` was taken
    /// before the threads started.
    pub(crate) fn run(&self, first: Sample, over: &Receiver<()>) -> Vec<Sample> {
        let mut series = Series { samples: vec![first], every: SAMPLE_EVERY };
        let mut shown = *series.last();
        let latencies = || self.tally.latencies().map(Latencies::counts);
        let mut before = latencies();
        let mut is_long = self.progress == Progress::Lines;
        loop {
            let due = self.start + Duration::from_secs_f64(series.last().seconds) + series.every;
            // Progress continues even if samples have become rare.
            let wait = due.saturating_duration_since(Instant::now()).min(SHOW_EVERY);
            let is_over = over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
            let now = self.sample();
            if is_over || Instant::now() >= due {
                let counts = latencies();
                let latency_p99 = counts.as_ref().zip(before.as_ref()).and_then(|(now, before)| now.p99_since(before));
                series.push(Sample { latency_p99, ..now });
                before = counts;
            }
            if is_over {
                break;
            }
            let done = (self.done)(&now).clamp(0.0, 1.0);
            is_long |= done > 0.0 && now.seconds >= 1.0 && now.seconds / done > LONG.as_secs_f64();
            let every = if self.progress == Progress::Lines { LINE_EVERY } else { SHOW_EVERY };
            if self.progress != Progress::Never && is_long && now.seconds - shown.seconds >= every.as_secs_f64() {
                self.show(&line(done, &shown, &now));
                shown = now;
            }
        }
        if self.progress == Progress::Terminal && is_long {
            self.show("");
        }
        series.samples
    }

    fn show(&self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        // Standard error may be closed, which is no reason to end the round.
        let _ = match self.progress {
            Progress::Terminal => write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush()),
            _ => writeln!(stderr, "{line}"),
        };
    }
}

/// The progress, and the speed between two samples.
fn line(done: f64, before: &Sample, now: &Sample) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let mut text = format!(
        "{:>3.0} %  {:.0} s  sent {:.0} /s  received {:.0} /s",
        done * 100.0,
        now.seconds,
        rate(before.sent, now.sent),
        rate(before.received, now.received)
    );
    if let Some(resident) = now.resident {
        text += &format!("  broker {:.0} MiB", resident as f64 / f64::from(1 << 20));
    }
    text
}

/// Equidistant samples, as many as a plot can show.
struct Series {
    /// Never empty.
    samples: Vec<Sample>,
    every: Duration,
}

impl Series {
    fn last(&self) -> &Sample {
        self.samples.last().expect("a series begins with a sample")
    }

    fn push(&mut self, mut sample: Sample) {
        if self.samples.len() >= SAMPLES_MAX {
            let mut is_kept = false;
            let mut dropped = None;
            self.samples.retain_mut(|sample| {
                is_kept = !is_kept;
                // Messages before a dropped sample are also before the next one.
                sample.latency_p99 = sample.latency_p99.max(dropped);
                dropped = if is_kept { None } else { sample.latency_p99 };
                is_kept
            });
            sample.latency_p99 = sample.latency_p99.max(dropped);
            self.every *= 2;
        }
        self.samples.push(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u64) -> Sample {
        Sample {
            seconds: number as f64 / 4.0,
            sent: number * 100,
            received: number * 50,
            resident: Some(3 << 20),
            latency_p99: None,
        }
    }

    #[test]
    fn a_long_series_is_thinned_out_and_keeps_its_ends() {
        let mut series = Series { samples: vec![sample(0)], every: SAMPLE_EVERY };
        (1..1000).for_each(|number| series.push(sample(number)));
        assert!(series.samples.len() <= SAMPLES_MAX, "{}", series.samples.len());
        assert_eq!((series.samples[0], *series.last()), (sample(0), sample(999)));
        assert!(series.samples.is_sorted_by(|one, next| one.seconds < next.seconds));
        assert!(series.every > SAMPLE_EVERY);
    }

    #[test]
    fn the_highest_latency_stays_where_samples_are_dropped() {
        let mut series = Series { samples: vec![sample(0)], every: SAMPLE_EVERY };
        for number in 1..1000 {
            let latency_p99 = Some(if number == 333 { 5000 } else { number });
            series.push(Sample { latency_p99, ..sample(number) });
        }
        let highest = series.samples.iter().max_by_key(|sample| sample.latency_p99).expect("some");
        assert_eq!(highest.latency_p99, Some(5000));
        assert!((333.0 / 4.0..=336.0 / 4.0).contains(&highest.seconds), "{highest:?}");
    }

    #[test]
    fn the_rate_at_the_end_is_compared_with_that_at_the_start() {
        let steady: Vec<Sample> = (4..24).map(sample).collect();
        assert!((rate_at_end(&steady, 5.75, |sample| sample.sent).expect("a rate") - 1.0).abs() < 1e-9);
        // Half as many in the second half, whenever samples were taken.
        let slower =
            |number: u64| Sample { received: number.min(10) * 10 + number.saturating_sub(10) * 5, ..sample(number) };
        let slower: Vec<Sample> = [0, 1, 2, 6, 10, 11, 17, 20].into_iter().map(slower).collect();
        assert!((rate_at_end(&slower, 5.0, |sample| sample.received).expect("a rate") - 0.5).abs() < 1e-9);
        assert_eq!(rate_at_end(&steady[..4], 1.75, |sample| sample.sent), None, "too few");
        assert_eq!(rate_at_end(&steady, 5.75, |_| 7), None, "nothing came");
        assert_eq!(rate_at_end(&[], 1.0, |_| 7), None);
    }

    #[test]
    fn a_wait_for_more_behind_the_last_message_is_no_lower_rate() {
        // All messages had arrived at 4.9 s; then it was silent.
        let counts = |number: u64| (number as f64 / 4.0).min(4.9) * 1000.0;
        let ended: Vec<Sample> = (0..30).map(|at| Sample { sent: counts(at) as u64, ..sample(at) }).collect();
        assert!((rate_at_end(&ended, 4.9, |sample| sample.sent).expect("a rate") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn progress_says_how_much_is_done_and_how_fast_it_goes() {
        let line = line(0.5, &sample(4), &sample(8));
        assert_eq!(line, " 50 %  2 s  sent 400 /s  received 200 /s  broker 3 MiB");
    }
}
