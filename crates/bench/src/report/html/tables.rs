//! The tables of the page.

use super::escape::escape;
use crate::report::record::{Record, Results};
use crate::report::summary::{RoundGroup, Spread};
use crate::report::units;

/// A column: its heading, its figure and the format of that.
type Figure = (&'static str, fn(&Record) -> Option<f64>, fn(f64) -> String);

const MESSAGES: &[Figure] = &[
    ("messages /s", Record::rate, units::number),
    ("per broker CPU-s", per_cpu_second, units::number),
    // The ratio to the second broker comes between these two.
    ("p50", |record| Some(record.figures.latency_us?.p50), units::time),
    ("p75", |record| Some(record.figures.latency_us?.p75), units::time),
    ("p95", |record| Some(record.figures.latency_us?.p95), units::time),
    ("p99", |record| Some(record.figures.latency_us?.p99), units::time),
    ("p99.9", |record| Some(record.figures.latency_us?.p999), units::time),
    ("max", |record| Some(record.figures.latency_us?.max), units::time),
    ("confirm p99", |record| Some(record.figures.confirm_latency_us?.p99), units::time),
    ("CPU-s per million", |record| record.figures.broker_cpu_seconds_per_million, units::number),
    ("RSS", |record| Some(record.figures.resident_bytes? as f64), units::memory),
    ("peak", |record| Some(record.figures.resident_bytes_max? as f64), units::memory),
    ("syncs /msg", |record| record.figures.syncs_per_message, units::number),
    ("reads /msg", |record| record.figures.reads_per_message, units::number),
    ("writes /msg", |record| record.figures.writes_per_message, units::number),
    ("sync p50", |record| record.figures.sync_us?.p50, units::time),
    ("sync p99", |record| record.figures.sync_us?.p99, units::time),
    ("sync max", |record| record.figures.sync_us?.max, units::time),
];
/// Index in [`MESSAGES`] of the column after the ratio.
const AFTER_RATIO: usize = 2;

const IDLE: &[Figure] = &[
    ("connections", |record| record.idle.connections.map(f64::from), units::number),
    ("sessions each", |record| record.idle.sessions.map(f64::from), units::number),
    ("opened /s", |record| record.idle.opened_per_second, units::number),
    ("bytes per connection", |record| record.idle.bytes_per_connection, units::number),
    ("bytes per further session", |record| record.idle.bytes_per_further_session, units::number),
    ("% of a core while idle", |record| Some(record.idle.idle_cores? * 100.0), units::number),
    ("without connections", |record| Some(record.idle.cores_without_connections? * 100.0), units::number),
    ("wake-ups /s", |record| record.idle.idle_wake_ups_per_second, units::number),
    ("without connections", |record| record.idle.wake_ups_per_second_without_connections, units::number),
    ("s to list", |record| record.idle.listing_seconds, units::number),
    ("s to drop", |record| record.idle.drop_seconds, units::number),
    ("login meanwhile, max ms", |record| record.idle.login_while_dropping_ms_max, units::number),
    ("% given back", |record| Some(record.idle.given_back? * 100.0), units::number),
    ("s until 90 %", |record| record.idle.given_back_90_percent_seconds, units::number),
    ("MiB for 40,000 (extrapolated)", extrapolated, units::number),
];

/// Extrapolated: more connections than a process may have open here.
fn extrapolated(record: &Record) -> Option<f64> {
    Some(record.idle.extrapolated?.bytes? / f64::from(1 << 20))
}

fn per_cpu_second(record: &Record) -> Option<f64> {
    record.figures.messages_per_broker_cpu_second
}

/// Loads of messages, by load and then by broker.
pub(super) fn messages(results: &Results) -> String {
    let all = results.groups();
    let groups: Vec<&RoundGroup<'_>> = all.iter().filter(|group| !is_idle(group)).collect();
    let mut headings: Vec<&str> = MESSAGES.iter().map(|(heading, ..)| *heading).collect();
    headings.insert(AFTER_RATIO, "× the second");
    headings.insert(0, "rounds");
    let row = |group: &RoundGroup<'_>| {
        let mut cells: Vec<String> = MESSAGES.iter().map(|figure| cell(group, figure)).collect();
        let ratio = Results::ratio(&all, group, per_cpu_second);
        cells.insert(AFTER_RATIO, format!("<td>{}</td>", ratio.map_or(String::new(), units::number)));
        // Number of valid rounds.
        cells.insert(0, format!("<td>{}</td>", group.rounds.len()));
        cells
    };
    table(results, &groups, &headings, row)
}

/// Idle connections.
pub(super) fn idle(results: &Results) -> String {
    let all = results.groups();
    let groups: Vec<&RoundGroup<'_>> = all.iter().filter(|group| is_idle(group)).collect();
    let headings: Vec<&str> = IDLE.iter().map(|(heading, ..)| *heading).collect();
    table(results, &groups, &headings, |group| IDLE.iter().map(|figure| cell(group, figure)).collect())
}

/// Void rounds with reasons.
pub(super) fn voids(results: &Results) -> String {
    let mut out = String::new();
    for record in &results.rounds {
        let Some(reason) = &record.void else { continue };
        let (scenario, name) = (escape(&record.scenario), escape(&results.name_of(record.column())));
        out += &format!("<li>{scenario}, round {}, {name}: {}</li>\n", record.round, escape(reason));
    }
    if out.is_empty() { out } else { format!("<h2>Void</h2>\n<ul class=\"void\">\n{out}</ul>\n") }
}

fn is_idle(group: &RoundGroup<'_>) -> bool {
    group.rounds.iter().any(|record| record.idle.connections.is_some())
}

fn table(
    results: &Results,
    groups: &[&RoundGroup<'_>],
    headings: &[&str],
    cells: impl Fn(&RoundGroup<'_>) -> Vec<String>,
) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"scroll\"><table>\n<thead><tr><th class=\"text\" scope=\"col\">load</th>");
    for text in ["broker", "durability"] {
        out += &format!("<th class=\"text\" scope=\"col\">{text}</th>");
    }
    for heading in headings.iter().chain(&["rounds", "protocol"]) {
        out += &format!("<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    let scenarios = results.scenarios();
    for scenario in &scenarios {
        for group in groups.iter().filter(|group| group.scenario == *scenario) {
            let anchor = scenarios.iter().position(|other| other == scenario).unwrap_or_default();
            let first = group.rounds[0];
            out += &format!(
                "<tr><th scope=\"row\"><a href=\"#load-{anchor}\">{}</a></th><td class=\"text\">{}</td>\
                 <td class=\"text\">{}</td>{}<td>{}</td><td>{}</td></tr>\n",
                escape(scenario),
                escape(&results.broker_of(group.column)),
                escape(group.column.durability),
                cells(group).concat(),
                group.rounds.len(),
                escape(&first.protocol)
            );
        }
    }
    out + "</tbody></table></div>\n"
}

/// The median, with the lowest and highest where they differ.
fn cell(group: &RoundGroup<'_>, (_, figure, written): &Figure) -> String {
    let Some(Spread { median, min, max }) = group.spread(figure) else { return "<td></td>".into() };
    let [median, min, max] = [median, min, max].map(written);
    let range = if min == max { String::new() } else { format!("<small>{min} – {max}</small>") };
    format!("<td>{}{range}</td>", escape(&median))
}
