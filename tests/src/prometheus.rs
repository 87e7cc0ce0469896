//! A real Prometheus that scrapes one node, on a free port and in a directory of its own.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::PATIENCE;
use crate::cell::clients;
use crate::http::Http;
use crate::node::Process;

/// Its scrape interval.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// The label that installations on Kubernetes have and dashboards use.
pub const NAMESPACE: &str = "of-the-test";

/// An element of a result: its labels, and its value.
#[derive(Debug, Clone)]
pub struct Element {
    /// The labels as an object of texts.
    pub labels: Value,
    /// The value.
    pub value: f64,
}

/// A Prometheus server, killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    _process: Process,
    _directory: TempDir,
    http: Http,
}

impl Prometheus {
    /// Starts a server that scrapes `/metrics` of `target`, and waits until it is ready.
    ///
    /// # Panics
    /// When it doesn't start; `make -C tests/clients prometheus` installs it.
    pub fn start(target: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("prometheus.yml");
        let interval = format!("{}ms", INTERVAL.as_millis());
        let text = format!(
            "scrape_configs:\n- job_name: node\n  scrape_interval: {interval}\n  scrape_timeout: {interval}\n  \
             static_configs:\n  - targets: ['{target}']\n    labels: {{namespace: {NAMESPACE}}}\n"
        );
        fs::write(&config, text).expect("write the configuration");
        let mut command = Command::new(clients().join(".installed/prometheus"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        command.arg("--web.listen-address=127.0.0.1:0");
        let mut process = Process::of(command);
        // In either order: two tasks print them.
        for text in ["ready to receive web requests", "Listening on"] {
            let is_said = process.log().contains(text) || process.wait_for_line(text);
            assert!(is_said, "Prometheus didn't start: {}", process.log());
        }
        let log = process.log();
        let line = log.lines().find(|line| line.contains("Listening on")).expect("where it listens");
        let address = line.rsplit_once("address=").expect("an address").1.trim().to_owned();
        Self { _process: process, _directory: directory, http: Http::guest(address) }
    }

    /// The result of an expression at a time, in seconds since 1970; now if there is none.
    ///
    /// # Panics
    /// If the expression is invalid, or its result isn't a vector.
    pub fn query(&self, expression: &str, time: Option<f64>) -> Vec<Element> {
        let time = time.map_or(String::new(), |time| format!("&time={time:.3}"));
        let result = self.ask(&format!("/api/v1/query?query={}{time}", encoded(expression)), expression);
        let elements = result.as_array().unwrap_or_else(|| panic!("{expression}: {result}")).iter();
        elements
            .map(|element| Element { labels: element["metric"].clone(), value: number(&element["value"]) })
            .collect()
    }

    /// The values of an expression with at most one element, every `step` seconds. Missing values are left out.
    ///
    /// # Panics
    /// As [`Prometheus::query`].
    pub fn range(&self, expression: &str, start: f64, end: f64, step: f64) -> Vec<f64> {
        let range = format!("&start={start:.3}&end={end:.3}&step={step}");
        let result = self.ask(&format!("/api/v1/query_range?query={}{range}", encoded(expression)), expression);
        let Some(series) = result[0]["values"].as_array() else { return Vec::new() };
        assert_eq!(result.as_array().map(Vec::len), Some(1), "{expression}: {result}");
        series.iter().map(number).collect()
    }

    /// Waits until an expression has this value.
    ///
    /// # Panics
    /// When it hasn't within [`PATIENCE`].
    pub fn wait(&self, expression: &str, wanted: f64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.query(expression, None);
            if matches!(&found[..], [element] if element.value == wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "{expression} is {found:?} and not {wanted}");
            // Scrapes happen with time; over HTTP they can only be polled.
            thread::sleep(INTERVAL / 10);
        }
    }

    /// Waits until another scrape is complete, which contains everything from before.
    ///
    /// # Panics
    /// When it hasn't within [`PATIENCE`].
    pub fn scraped(&self) {
        let scraped = || self.query("timestamp(up)", None).first().map_or(0.0, |element| element.value);
        let (before, deadline) = (scraped(), Instant::now() + PATIENCE);
        // The next scrape may have begun already.
        let mut seen = before;
        for _ in 0..2 {
            while scraped() <= seen {
                assert!(Instant::now() < deadline, "no scrape since {before}");
                thread::sleep(INTERVAL / 10);
            }
            seen = scraped();
        }
    }

    fn ask(&self, path: &str, expression: &str) -> Value {
        let answer = self.http.get(path).expect("Prometheus answers");
        let json = answer.json();
        assert_eq!(json["status"], "success", "{expression}: {}", answer.body);
        json["data"]["result"].clone()
    }
}

/// The value in a pair of time and value, which is text.
fn number(pair: &Value) -> f64 {
    pair[1].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("a number: {pair}"))
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
