//! Results as one self-contained page: no external script, font, picture or style.

mod axis;
mod charts;
mod escape;
mod plot;
mod tables;

use charts::Coloured;
use escape::escape;

use super::record::Results;
use super::summary::{RoundGroup, distinct};

const STYLE: &str = include_str!("style.css");
/// Number of colours for the measured broker; those after them are for the one that it is compared with.
const COLOURS_OF_FIRST: usize = 3;
const COLOURS: usize = 6;

impl Results {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let groups = self.groups();
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>leveret bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        );
        out += &self.heading();
        out += &tables::messages(self);
        out += &tables::idle(self);
        out += &tables::voids(self);
        for (anchor, scenario) in self.scenarios().into_iter().enumerate() {
            let of_load: Vec<&RoundGroup<'_>> = groups.iter().filter(|group| group.scenario == scenario).collect();
            out += &self.section(anchor, scenario, &of_load);
        }
        out + "</body>\n</html>\n"
    }

    fn heading(&self) -> String {
        let machines = distinct(self.rounds.iter().map(|record| record.machine.to_string()));
        let brokers = distinct(self.rounds.iter().filter_map(|record| record.broker.as_deref()));
        let times = || self.rounds.iter().map(|record| record.machine.measured_at.as_str());
        let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        let when = if first == last { first.to_owned() } else { format!("{first} to {last}") };
        let mut out = String::from("<h1>leveret bench</h1>\n");
        for machine in &machines {
            out += &format!("<p>{}</p>\n", escape(machine));
        }
        out += &format!("<p>{}</p>\n<p class=\"dim\">{}</p>\n", escape(&brokers.join(" · ")), escape(&when));
        out + "<p class=\"dim\">Medians over the rounds, with the lowest and highest below. Every message was verified by \
               number and checksum. What isn't known is left blank.</p>\n"
    }

    fn section(&self, anchor: usize, scenario: &str, groups: &[&RoundGroup<'_>]) -> String {
        let mut out = format!("<section id=\"load-{anchor}\">\n<h2>{}</h2>\n", escape(scenario));
        if groups.is_empty() {
            return out + "<p class=\"void\">No round counts.</p>\n</section>\n";
        }
        for description in distinct(groups.iter().map(|group| group.rounds[0].asked.description.as_str())) {
            out += &format!("<p class=\"dim\">{}</p>\n", escape(description));
        }
        let mut used = [0; 2];
        let mut coloured = Vec::new();
        for group in groups {
            let is_second = usize::from(group.column.target == "B");
            let colours = if is_second == 1 { COLOURS_OF_FIRST..COLOURS } else { 0..COLOURS_OF_FIRST };
            let colour = colours.start + used[is_second] % colours.len();
            used[is_second] += 1;
            coloured.push(Coloured { colour, name: self.name_of(group.column), group });
        }
        out += "<ul class=\"legend\">\n";
        for Coloured { colour, name, .. } in &coloured {
            out += &format!("<li class=\"c{colour}\">{}</li>\n", escape(name));
        }
        out + "</ul>\n<div class=\"plots\">\n" + &charts::charts(&coloured) + "</div>\n</section>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::record::Record;
    use crate::report::samples;

    fn page(rounds: Vec<Record>) -> String {
        Results { rounds }.html()
    }

    #[test]
    fn every_plot_is_there_and_every_figure_in_the_table() {
        let second = Record { target: "B".into(), durability: None, ..samples::load() };
        let page = page(vec![samples::load(), second, samples::idle()]);
        for title in ["Throughput", "Latency, p99", "Latency by percentile", "Resident memory", "Syncs of the disk"] {
            assert!(page.contains(&format!("<figcaption>{title}")), "{title}");
        }
        for figure in ["<td>900</td>", "<td>2,000,000</td>", "<td>6.00 ms</td>", "<td>20 MiB</td>", "<td>0.125</td>"] {
            assert!(page.contains(figure), "{figure}: {page}");
        }
        assert!(page.contains("<td>4,500</td>") && page.contains("<td>95</td>"), "idle");
        assert!(page.contains("c0") && page.contains("<li class=\"c3\">B: Some 1</li>"), "{page}");
    }

    #[test]
    fn unknown_values_are_blank() {
        let bare = Record { scenario: "x".into(), target: "A".into(), ..Record::default() };
        let page = page(vec![bare]);
        assert!(page.contains("<td></td><td></td>") && !page.contains("<td>0"), "{page}");
        assert!(!page.contains("<svg"), "{page}");
    }

    #[test]
    fn no_text_of_others_becomes_markup_and_nothing_is_fetched() {
        let evil = "<script src=\"http://x/\">'&";
        let mut record = samples::load();
        let texts = [
            &mut record.scenario,
            &mut record.target,
            &mut record.protocol,
            &mut record.asked.description,
            &mut record.machine.kernel,
            &mut record.machine.measured_at,
        ];
        texts.into_iter().for_each(|text| *text = evil.into());
        record.broker = Some(evil.into());
        record.durability = Some(evil.into());
        record.machine.cpu_model = Some(evil.into());
        let void = Record { void: Some(evil.into()), ..record.clone() };
        let page = page(vec![record.clone(), record, void]);
        assert!(page.matches(&escape(evil)).count() >= 12, "{page}");
        for raw in ["<script", "src=\"", "http://x/\">", "url(", "@import", "<link", "<img"] {
            assert!(!page.contains(raw), "{raw}");
        }
    }

    #[test]
    fn a_load_of_which_no_round_counts_says_so() {
        let page = page(vec![samples::void()]);
        assert!(page.contains("1 lost, &quot;first&quot;: &lt;2&gt;</li>"), "{page}");
        assert!(page.contains("No round counts."), "{page}");
    }
}
