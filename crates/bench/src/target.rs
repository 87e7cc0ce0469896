//! The brokers to measure.

use std::time::Duration;

use crate::metrics_endpoint::{Metrics, scrape};
use crate::perf::Counting;
use crate::process::Processes;
use crate::series::Progress;
use crate::tls::ClientTls;
use crate::uri::Uri;
use crate::{BenchArgs, BenchError};

/// A broker to measure.
pub(crate) struct TargetBroker {
    pub(crate) uri: Uri,
    /// TLS, if the URI requests it.
    pub(crate) tls: Option<ClientTls>,
    pub(crate) processes: Processes,
    metrics_port: Option<u16>,
    /// Port of the stream protocol.
    stream_port: u16,
    /// Whether `perf` counts system calls if the broker doesn't report its own.
    perf: bool,
    pub(crate) management_port: Option<u16>,
    /// Number of additional queues, if it differs from the load's.
    pub(crate) other_queues: Option<u32>,
    pub(crate) silence_max: Duration,
    pub(crate) progress: Progress,
    /// Prefix of the broker's name if two are compared.
    pub(crate) label: &'static str,
}

impl TargetBroker {
    pub(crate) fn all(args: &BenchArgs) -> Result<Vec<Self>, BenchError> {
        let silence_max = Duration::from_secs(args.silence_max_s);
        let progress = Progress::of(args.progress);
        let tls = |uri: &Uri| uri.secure.then(|| ClientTls::new(args)).transpose();
        let processes = |pids: &[u32]| {
            Processes::new(pids).map_err(|pid| BenchError::Usage(format!("no process {pid} to measure")))
        };
        let uri = Uri::parse(&args.uri)?;
        let mut targets = vec![Self {
            tls: tls(&uri)?,
            uri,
            processes: processes(&args.pid)?,
            metrics_port: args.metrics_port,
            stream_port: args.stream_port,
            perf: args.perf,
            management_port: args.management_port,
            other_queues: None,
            silence_max,
            progress,
            label: if args.vs.is_some() { "A: " } else { "" },
        }];
        if let Some(vs) = &args.vs {
            let uri = Uri::parse(vs)?;
            targets.push(Self {
                tls: tls(&uri)?,
                uri,
                processes: processes(&args.vs_pid)?,
                metrics_port: args.vs_metrics_port,
                stream_port: args.vs_stream_port,
                perf: args.perf,
                management_port: args.vs_management_port,
                other_queues: args.vs_other_queues,
                silence_max,
                progress,
                label: "B: ",
            });
        }
        if targets.iter().all(|target| target.tls.is_none()) && (args.cacertfile.is_some() || args.certfile.is_some()) {
            return Err(BenchError::Usage(
                "--cacertfile and --certfile are for TLS: the URI must begin with amqps://".into(),
            ));
        }
        Ok(targets)
    }

    /// The address of its listener for the stream protocol.
    pub(crate) fn stream_address(&self) -> String {
        format!("{}:{}", self.uri.host, self.stream_port)
    }

    /// Starts counting its system calls if requested and not found in `metrics`.
    pub(crate) fn count_calls(&self, metrics: &Metrics) -> Result<Option<Counting>, BenchError> {
        if !self.perf || metrics.reads.is_some() {
            return Ok(None);
        }
        let pids = self.processes.list().ok_or_else(|| {
            BenchError::Usage("--perf counts the system calls of a process: give --pid, or --vs-pid".into())
        })?;
        Counting::start(&pids).map(Some)
    }

    /// Scrapes its metrics; empty if it has no known metrics port.
    pub(crate) fn scrape(&self) -> Result<Metrics, BenchError> {
        let Some(port) = self.metrics_port else {
            return Ok(Metrics::default());
        };
        scrape(&self.uri.host, port).map_err(|source| BenchError::Socket {
            broker: format!("{}:{port}", self.uri.host),
            doing: "read its metrics",
            source,
        })
    }
}
