//! Records for tests.

use super::record::{Asked, Bucket, Extrapolated, Figures, Idle, Machine, Percentiles, Record, SampleRecord, SyncTime};

/// A load of messages with every figure.
pub(super) fn load() -> Record {
    let percentiles = Percentiles { p50: 100.0, p75: 200.0, p95: 300.0, p99: 400.0, p999: 500.0, max: 6000.5 };
    Record {
        scenario: "row".into(),
        round: 1,
        target: "A".into(),
        broker: Some("Some 1".into()),
        protocol: "AMQP 1.0".into(),
        durability: Some("synced".into()),
        machine: Machine {
            measured_at: "2000-02-29T00:05:09Z".into(),
            kernel: "6.1".into(),
            cores: Some(2),
            cpu_model: Some("Fast (R), 9".into()),
        },
        asked: Asked { description: "10 x 12 bytes".into(), messages: Some(10), rate: Some(5.0), ..Asked::default() },
        figures: Figures {
            dropped: Some(0),
            sent_per_second: Some(1000.0),
            received_per_second: Some(900.5),
            rate_at_end: Some(0.95),
            latency_us: Some(percentiles),
            confirm_latency_us: Some(percentiles),
            broker_cpu_seconds_per_million: Some(0.5),
            messages_per_broker_cpu_second: Some(2e6),
            resident_bytes: Some(20 << 20),
            resident_bytes_max: Some(30 << 20),
            resident_max_is_of_this_round: Some(true),
            syncs: Some(5.0),
            syncs_per_message: Some(0.5),
            reads_per_message: Some(0.25),
            writes_per_message: Some(0.125),
            calls_were_counted_by_perf: Some(false),
            sync_us: Some(SyncTime { p50: Some(75.0), p99: Some(150.0), max: Some(300.0) }),
            publisher_cpu_ns_per_message: Some(100.0),
            consumer_cpu_ns_per_message: Some(200.0),
        },
        latency_curve_us: vec![(0.0, 50.0), (50.0, 100.0), (99.0, 400.0), (99.9, 500.0), (100.0, 6000.5)],
        sync_histogram: vec![
            Bucket { at_most_us: Some(100.0), count: 3.0 },
            Bucket { at_most_us: Some(1000.0), count: 2.0 },
            Bucket { at_most_us: None, count: 0.0 },
        ],
        series: (1..=4_u32)
            .map(|step| SampleRecord {
                seconds: f64::from(step) * 0.25,
                sent: u64::from(step) * 250,
                received: u64::from(step) * 225,
                resident_bytes: Some(20 << 20),
                latency_p99_us: Some(350.0),
            })
            .collect(),
        ..Record::default()
    }
}

/// Idle connections.
pub(super) fn idle() -> Record {
    Record {
        scenario: "idle-row".into(),
        idle: Idle {
            connections: Some(100),
            sessions: Some(2),
            opened_per_second: Some(5000.0),
            bytes_per_connection: Some(4500.0),
            bytes_per_further_session: Some(300.0),
            idle_cores: Some(0.015),
            idle_seconds: Some(10.0),
            given_back: Some(0.95),
            sessions_open: Some(300),
            sessions_listed: Some(300),
            extrapolated: Some(Extrapolated { connections: 400, bytes: Some(18e5), idle_cores: Some(0.06) }),
            ..Idle::default()
        },
        ..without_figures()
    }
}

/// A void round.
pub(super) fn void() -> Record {
    Record { void: Some("1 lost, \"first\": <2>".into()), ..without_figures() }
}

fn without_figures() -> Record {
    let all = load();
    Record {
        figures: Figures::default(),
        asked: Asked::default(),
        latency_curve_us: vec![],
        sync_histogram: vec![],
        series: vec![],
        ..all
    }
}
