//! A round as a paragraph.

use std::fmt::Write;

use super::record::{Extrapolated, Percentiles, Record};
use super::units;

impl Record {
    /// The round as a paragraph, including its broker if several are compared.
    pub(crate) fn text(&self, are_two: bool) -> String {
        let broker = self.broker.as_deref().unwrap_or("unknown broker");
        let label = if are_two { format!("{}: ", self.target) } else { String::new() };
        let mut out = format!("\n{} round {}: {}{broker}\n", self.scenario, self.round, label);
        let mut line = |label: &str, value: String| {
            let _ = writeln!(out, "  {label:<18} {value}");
        };
        if let Some(reason) = &self.void {
            line("void", reason.clone());
            out.pop();
            return out;
        }
        line("load", format!("{}, {}", self.protocol, self.asked.description));
        if self.idle.connections.is_some() {
            self.idle_lines(&mut line);
        } else {
            self.message_lines(&mut line);
        }
        out.pop();
        out
    }

    fn message_lines(&self, line: &mut impl FnMut(&str, String)) {
        let figures = &self.figures;
        if let Some(rate) = figures.sent_per_second {
            line("sent", format!("{rate:.0} /s"));
        }
        if let Some(rate) = figures.received_per_second {
            line("received", format!("{rate:.0} /s, verified"));
        }
        if let Some(share) = figures.rate_at_end {
            line("rate at the end", format!("{share:.2} of that at the start, by quarters of the time"));
        }
        if let Some(latency) = &figures.latency_us {
            line("latency", percentiles(latency));
        }
        if let Some(dropped) = figures.dropped.filter(|dropped| *dropped > 0) {
            line("dropped", format!("{dropped} by the queue's limit"));
        }
        if let Some(latency) = &figures.confirm_latency_us {
            line("confirm latency", percentiles(latency));
        }
        if let Some(seconds) = figures.broker_cpu_seconds_per_million {
            let rate = figures.messages_per_broker_cpu_second;
            let rate = rate.map_or(String::new(), |rate| format!(", {rate:.0} messages per CPU-second"));
            line("broker CPU", format!("{seconds:.3} s per million{rate}"));
        }
        if let (Some(resident), Some(peak)) = (figures.resident_bytes, figures.resident_bytes_max) {
            let whose = if figures.resident_max_is_of_this_round == Some(true) { "" } else { " since its start" };
            let [resident, peak] = [resident, peak].map(|bytes| units::memory(bytes as f64));
            line("broker memory", format!("{resident} resident, peak {peak}{whose}"));
        }
        let syncs = figures.syncs.zip(figures.syncs_per_message);
        line("syncs per message", syncs.map_or("-".into(), |(all, each)| format!("{each:.5} ({all:.0})")));
        if let Some(time) = figures.sync_us {
            let all = [("p50", time.p50), ("p99", time.p99), ("max", time.max)];
            line("sync time", named(all.into_iter().filter_map(|(name, micros)| Some((name, micros?)))));
        }
        if let (Some(reads), Some(writes)) = (figures.reads_per_message, figures.writes_per_message) {
            let whose = if figures.calls_were_counted_by_perf == Some(true) { ", of files too" } else { "" };
            line("calls per message", format!("{reads:.5} reads, {writes:.5} writes{whose}"));
        }
        line("durability", self.durability.clone().unwrap_or_else(|| "-".into()));
        let sides =
            [("publisher", figures.publisher_cpu_ns_per_message), ("consumer", figures.consumer_cpu_ns_per_message)];
        let sides = sides.into_iter().filter_map(|(side, nanos)| Some(format!("{side} {:.0} ns", nanos?)));
        let sides: Vec<String> = sides.collect();
        if !sides.is_empty() {
            line("generator CPU", sides.join(", ") + " per message");
        }
    }

    fn idle_lines(&self, line: &mut impl FnMut(&str, String)) {
        let idle = &self.idle;
        if let Some(rate) = idle.opened_per_second {
            line("opened", format!("{rate:.0} /s"));
        }
        if let Some(bytes) = idle.bytes_per_connection {
            line("memory", format!("{bytes:.0} bytes per connection"));
        }
        if let Some(bytes) = idle.bytes_per_further_session {
            let share =
                idle.growth_by_further_session.map_or(String::new(), |share| format!(", {:.1} % more", share * 100.0));
            line("last session", format!("{bytes:.0} bytes per connection{share}"));
        }
        if let (Some(cores), Some(seconds)) = (idle.idle_cores, idle.idle_seconds) {
            line("idle CPU", format!("{:.2} % of a core over {seconds:.0} s", cores * 100.0));
        }
        if let (Some(with), Some(without)) =
            (idle.idle_wake_ups_per_second, idle.wake_ups_per_second_without_connections)
        {
            line("idle wake-ups", format!("{with:.1} /s, {without:.1} /s without connections"));
        }
        if let (Some(listed), Some(open), Some(seconds)) =
            (idle.sessions_listed, idle.sessions_open, idle.listing_seconds)
        {
            line("listed", format!("{listed} of {open} sessions in {seconds:.2} s"));
        }
        if let (Some(seconds), Some(logins)) = (idle.drop_seconds, idle.logins_while_dropping) {
            let times = [("p50", idle.login_while_dropping_ms_p50), ("max", idle.login_while_dropping_ms_max)];
            let times = named(times.into_iter().filter_map(|(name, millis)| Some((name, millis? * 1e3))));
            line("dropped", format!("in {seconds:.2} s; {logins} logins meanwhile, {times}"));
        }
        if let Some(share) = idle.given_back {
            let when = idle.given_back_90_percent_seconds;
            let when = when.map_or(String::new(), |seconds| format!(", 90 % after {seconds:.1} s"));
            line("given back", format!("{:.0} % after they were dropped at once{when}", share * 100.0));
        }
        if let Some(Extrapolated { connections, bytes: Some(bytes), idle_cores: Some(cores) }) = idle.extrapolated {
            let (memory, percent) = (units::memory(bytes), cores * 100.0);
            line(
                "extrapolated",
                format!("{connections} connections: {memory}, {percent:.2} % of a core (not measured)"),
            );
        }
    }
}

fn percentiles(percentiles: &Percentiles) -> String {
    named(percentiles.named())
}

fn named(times: impl IntoIterator<Item = (&'static str, f64)>) -> String {
    let times = times.into_iter().map(|(name, micros)| format!("{name} {}", units::time(micros)));
    times.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::record::{Figures, Idle, SyncTime};

    #[test]
    fn known_values_are_shown_and_unknown_ones_are_not_zero() {
        let mut record = Record { scenario: "x".into(), round: 2, target: "A".into(), ..Record::default() };
        assert!(
            record.text(true).contains("syncs per message  -\n") && record.text(true).contains("durability         -")
        );
        assert!(!record.text(true).contains("broker CPU"), "{}", record.text(true));
        record.broker = Some("Some 1".into());
        record.figures = Figures {
            rate_at_end: Some(0.987),
            latency_us: Some(Percentiles { p50: 1.0, p75: 2.0, p95: 3.0, p99: 4.0, p999: 5.0, max: 6000.0 }),
            sync_us: Some(SyncTime { p50: Some(70.0), p99: None, max: Some(2e3) }),
            ..Figures::default()
        };
        let text = record.text(true);
        assert!(text.starts_with("\nx round 2: A: Some 1\n"), "{text}");
        assert!(text.contains("p50 1 µs, p75 2 µs, p95 3 µs, p99 4 µs, p99.9 5 µs, max 6.00 ms\n"), "{text}");
        assert!(text.contains("rate at the end    0.99 of that at the start, by quarters of the time\n"), "{text}");
        assert!(text.contains("sync time          p50 70 µs, max 2.00 ms\n"), "{text}");
        record.idle =
            Idle { connections: Some(3), idle_cores: Some(0.015), idle_seconds: Some(4.0), ..Idle::default() };
        assert!(record.text(true).ends_with("idle CPU           1.50 % of a core over 4 s"), "{}", record.text(true));
        record.void = Some("1 lost".into());
        assert!(record.text(true).ends_with("Some 1\n  void               1 lost"), "{}", record.text(true));
    }
}
