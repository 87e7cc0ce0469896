//! `leveret bench` against a node: loads with several publishers, consumers and queues are verified and reported.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use leveret_tests::node::{Node, Options, binary};
use serde_json::Value;

/// The rounds of a load.
fn rounds(node: &Node, words: &str) -> Vec<Value> {
    let uri = format!("amqp://{}", node.amqp());
    let mut command = Command::new(binary());
    command.args(["bench", "--json", "--uri", &uri, "--metrics-port", &node.ports().prometheus.to_string()]);
    command.args(["--pid", &node.ports().pid.to_string(), "--management-port", &node.ports().http.to_string()]);
    command.args(words.split(' '));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["rounds"].as_array().expect("a list").clone()
}

#[test]
fn loads_of_many_connections_are_verified() {
    let node = Node::start(Options::new());
    for words in [
        "two-pairs two-pairs-amqp10 --messages 20000",
        "classic-amqp091 --messages 4000 --producers 4 --consumers 4 --queues 4 --size 10",
        "slow-queues --queues 20 --messages 400 --rate 2000",
        "many-queues --queues 20 --messages 400 --rate 2000",
        "memory-amqp10 --messages 2000 --queues 10 --rate 10000",
    ] {
        for round in rounds(&node, words) {
            assert_eq!(round["dropped"], 0, "{words}: {round}");
            for figure in ["sent_per_second", "received_per_second"] {
                assert!(round[figure].as_f64().is_some_and(|rate| rate > 0.0), "{words}: {round}");
            }
            assert!(round["latency_us"]["p99"].is_number(), "{words}: {round}");
            let series = round["series"].as_array().expect("samples");
            let last = series.last().expect("the last one");
            assert_eq!((&series[0][1], &series[0][2]), (&0.into(), &0.into()), "{words}: {round}");
            assert_eq!((&last[1], &last[2]), (&round["messages"], &round["messages"]), "{words}: {round}");
            assert!(last[3].as_u64().is_some_and(|resident| resident > 0), "{words}: {round}");
            let highest = round["latency_us"]["max"].as_f64().expect("a latency");
            let over_time: Vec<f64> = series.iter().filter_map(|sample| sample[4].as_f64()).collect();
            assert!(!over_time.is_empty(), "{words}: {round}");
            // Both are rounded up.
            assert!(over_time.iter().all(|p99| *p99 <= highest * 1.07 + 1.0), "{words}: {round}");
        }
    }
    assert!(node.http().get("/api/queues").expect("an answer").body.contains("[]"), "the queues are gone");
}

#[test]
fn publishing_and_consuming_in_turn_are_two_results() {
    let node = Node::start(Options::new());
    for scenario in ["in-then-out", "in-then-out-amqp10"] {
        let rounds = rounds(&node, &format!("{scenario} --messages 10000"));
        assert_eq!(rounds.len(), 2);
        assert!(rounds[0]["sent_per_second"].is_number() && rounds[0]["received_per_second"].is_null());
        assert!(rounds[1]["sent_per_second"].is_null() && rounds[1]["received_per_second"].is_number());
        assert_eq!(rounds[1]["scenario"], format!("{scenario} (out)"));
        assert!(rounds[1]["latency_us"].is_null(), "they waited on purpose");
        let series = rounds[1]["series"].as_array().expect("samples");
        assert!(series.iter().all(|sample| sample[4].is_null()), "{series:?}");
    }
}

#[test]
fn drops_of_a_full_queue_match_the_nodes_counter() {
    let node = Node::start(Options::new());
    let rounds = rounds(&node, "transient --messages 300000 --size 10");
    let dropped = rounds[0]["dropped"].as_u64().expect("a number");
    assert_eq!(rounds[0]["messages"], 300_000);
    let metrics = node.prometheus().get("/metrics").expect("an answer").body;
    let counted: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("rabbitmq_global_messages_dead_lettered_maxlen_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(dropped, counted, "{metrics}");
}

#[test]
fn only_the_measured_half_of_a_scenario_is_reported() {
    let node = Node::start(Options::new());
    for suffix in ["", "-amqp10"] {
        let rounds = rounds(&node, &format!("publish-only{suffix} consume-only{suffix} --messages 5000"));
        assert_eq!(rounds.len(), 2);
        assert!(rounds[0]["sent_per_second"].is_number() && rounds[0]["received_per_second"].is_null());
        assert!(rounds[1]["sent_per_second"].is_null() && rounds[1]["received_per_second"].is_number());
    }
}

#[test]
fn exchanges_take_messages_to_each_queue_that_is_bound() {
    let node = Node::start(Options::new());
    for (words, copies) in [
        ("direct direct-amqp10 --queues 2", 1),
        ("fanout fanout-amqp10 --queues 5", 5),
        ("fanout fanout-amqp10 --queues 2 --producers 3", 2),
        ("topic topic-amqp10 --bindings 250 --queues 2", 1),
        ("topic topic-amqp10 --bindings 4 --queues 2 --routing-key-cache-size 1100", 1),
        ("headers headers-amqp10", 1),
    ] {
        for round in rounds(&node, &format!("{words} --messages 3000")) {
            let delivered = round["messages"].as_u64().map(|messages| messages * copies);
            assert_eq!((round["delivered"].as_u64(), &round["dropped"]), (delivered, &0.into()), "{words}: {round}");
        }
    }
    let exchanges = node.http().get("/api/exchanges").expect("an answer").body;
    assert!(exchanges.contains("amq.topic") && !exchanges.contains("my-"), "the exchanges are gone: {exchanges}");
}

#[test]
fn a_load_by_the_clock_is_verified_to_its_last_message() {
    let node = Node::start(Options::new());
    for words in [
        "classic classic-amqp10 --queues 2",
        "memory memory-amqp10",
        "in-then-out",
        "fanout-amqp10 --queues 2",
        "transient",
        "latency --rate 2000",
    ] {
        for round in rounds(&node, &format!("{words} --seconds 1")) {
            assert!(round["messages"].as_u64().is_some_and(|messages| messages > 100), "{words}: {round}");
            let series = round["series"].as_array().expect("samples");
            let seconds = series.last().expect("the last one")[0].as_f64().expect("seconds");
            assert!(round["sent_per_second"].is_null() || seconds >= 0.9, "{words}: {round}");
        }
    }
}

#[test]
fn rows_are_loads_under_names_of_their_own() {
    let node = Node::start(Options::new());
    let rounds = rounds(&node, "--rows two-pairs-10,latency-amqp10-100 --messages 200");
    let told: Vec<_> = rounds.iter().map(|round| (&round["scenario"], &round["size"], &round["rate"])).collect();
    assert_eq!(
        told,
        [
            (&"latency-amqp10-100".into(), &1000.into(), &100.0.into()),
            (&"two-pairs-amqp091-10".into(), &10.into(), &Value::Null),
            (&"two-pairs-amqp10-10".into(), &10.into(), &Value::Null),
        ]
    );
    let list = Command::new(binary()).args(["bench", "--list"]).output().expect("it runs");
    let list = String::from_utf8(list.stdout).expect("text");
    assert!(list.lines().any(|line| line.starts_with("topic-amqp10-100000 ")), "{list}");
    let uri = format!("amqp://{}", node.amqp());
    let output = Command::new(binary()).args(["bench", "--uri", &uri, "--rows", "classic-amqp10-*,no*"]).output();
    let error = String::from_utf8(output.expect("it runs").stderr).expect("text");
    assert!(error.contains("no row is called 'no*'"), "{error}");
}

#[test]
fn a_queue_is_measured_beside_idle_queues() {
    let node = Node::start(Options::new());
    let of_metrics = |name: &str| {
        let metrics = node.prometheus().get("/metrics").expect("an answer").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {metrics}"))
    };
    let mut declared = of_metrics("rabbitmq_queues_declared_total");
    for row in ["classic-amqp091-200", "classic-amqp10-200"] {
        let rounds = rounds(&node, &format!("--rows {row} --messages 1000 --other-queues 450 --rounds 2"));
        let told = rounds[1]["load"].as_str().expect("what it was");
        assert!(told.contains(", 450 other queues"), "{told}");
        // They exist during all rounds.
        declared += 452.0;
        assert_eq!(of_metrics("rabbitmq_queues_declared_total"), declared);
        assert_eq!(of_metrics("rabbitmq_queues_deleted_total"), declared);
    }
    // Alternating with a node that has none.
    let alone = Node::start(Options::new());
    let vs = format!("--vs amqp://{} --vs-other-queues 0", alone.amqp());
    let both = rounds(&node, &format!("classic --messages 1000 --rounds 1 --other-queues 50 {vs}"));
    let told: Vec<bool> =
        both.iter().map(|round| round["load"].as_str().expect("a load").contains("other queues")).collect();
    assert_eq!(told, [true, false]);
    declared += 51.0;
    assert_eq!(of_metrics("rabbitmq_queues_declared_total"), declared);
    // A round that fails deletes them too.
    let os = serde_json::json!({"durable": true, "arguments": {"x-durability": "os"}});
    assert_eq!(node.http().put("/api/queues/%2F/my-classic-queue", &os).expect("an answer").status, 201);
    let uri = format!("amqp://{}", node.amqp());
    let words = ["bench", "classic", "--other-queues", "300", "--durability", "synced", "--uri", &uri];
    let output = Command::new(binary()).args(words).output().expect("it runs");
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && error.contains("x-durability"), "{error}");
    assert_eq!(of_metrics("rabbitmq_queues_declared_total"), declared + 301.0);
    assert_eq!(of_metrics("rabbitmq_queues_deleted_total"), declared + 300.0);
}

#[test]
fn publish_only_and_consume_only_are_halves_of_one_round() {
    let node = Node::start(Options::new());
    let both = rounds(&node, "--rows publish-only-amqp10,consume-only-amqp10 --messages 2000 --rounds 2");
    let names: Vec<&str> = both.iter().map(|round| round["scenario"].as_str().expect("a name")).collect();
    assert_eq!(names, ["publish-only-amqp10", "consume-only-amqp10"].repeat(2));
    assert!(both.iter().all(|round| round["messages"] == 2000), "{both:?}");
    assert!(both[0]["confirm_latency_us"]["p50"].is_number() && both[1]["confirm_latency_us"]["p50"].is_null());
    // Of the four results, two came from each round.
    let published = node.http().get("/api/overview").expect("an answer").json()["message_stats"]["publish"].clone();
    assert_eq!(published, 4000);
}

#[test]
fn half_of_a_brokers_full_rate_is_measured_and_requested() {
    let node = Node::start(Options::new());
    for row in ["half-rate-amqp091", "half-rate-amqp10"] {
        let round = &rounds(&node, &format!("--rows {row} --seconds 1"))[0];
        let rate = round["rate"].as_f64().expect("a rate");
        assert_eq!(round["messages"].as_f64(), Some(rate), "one second of it: {round}");
        let (confirm, sync) = (&round["confirm_latency_us"]["p99"], &round["sync_us"]["p99"]);
        assert!(confirm.is_number() && sync.is_number(), "{round}");
    }
}

/// A broker that accepts connections and sends nothing, or only `greeting`.
fn silent_broker(greeting: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!("amqp://{}", listener.local_addr().expect("its address"));
    thread::spawn(move || {
        let mut open = Vec::new();
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let _ = socket.write_all(greeting);
            open.push(socket);
        }
    });
    uri
}

#[test]
fn a_silent_broker_voids_only_its_own_rounds() {
    // A heartbeat of AMQP 0-9-1 doesn't count as a reply either.
    let heartbeat = b"\x08\0\0\0\0\0\0\xce";
    for (greeting, due) in [(&b""[..], "connection.open-ok"), (&heartbeat[..], "connection.open-ok")] {
        let uri = silent_broker(greeting);
        let words = ["bench", "--json", "--silence-max-s", "1", "--rows", "classic-200", "--uri", &uri];
        let output = Command::new(binary()).args(words).args(["--durability", "synced,os"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let voids: Vec<_> = report["rounds"].as_array().expect("a list").iter().map(|round| &round["void"]).collect();
        assert_eq!(voids.len(), 4, "both rows were tried in both durabilities");
        let first = voids[0].as_str().expect("why");
        assert!(first.contains(&format!("owed {due} for 1 s")), "{first}");
    }
}

#[test]
fn durable_loads_run_in_each_durability_and_report_syncs() {
    let node = Node::start(Options::new());
    for scenario in ["classic", "classic-amqp10"] {
        let rounds = rounds(&node, &format!("{scenario} --messages 20000 --durability synced,os"));
        let told: Vec<_> = rounds.iter().map(|round| &round["durability"]).collect();
        assert_eq!(told, ["synced", "os"]);
        for figure in ["reads_per_message", "writes_per_message"] {
            assert!(rounds[0][figure].as_f64().is_some_and(|count| count > 0.0 && count < 10.0), "{}", rounds[0]);
        }
        let (p50, max) = (&rounds[0]["sync_us"]["p50"], &rounds[0]["sync_us"]["max"]);
        assert!(p50.as_f64().zip(max.as_f64()).is_some_and(|(p50, max)| 0.0 < p50 && p50 <= max), "{}", rounds[0]);
    }
    // The queue is declared with it: an existing queue with another one is refused.
    let os = serde_json::json!({"durable": true, "arguments": {"x-durability": "os"}});
    assert_eq!(node.http().put("/api/queues/%2F/my-classic-queue", &os).expect("an answer").status, 201);
    for scenario in ["classic", "classic-amqp10"] {
        let uri = format!("amqp://{}", node.amqp());
        let words = ["bench", scenario, "--messages", "100", "--durability", "synced", "--uri", &uri];
        let output = Command::new(binary()).args(words).output().expect("it runs");
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && error.contains("x-durability"), "{error}");
    }
    assert_eq!(rounds(&node, "classic --messages 100 --durability os")[0]["durability"], "os");
    // A transient queue is never declared with it.
    assert_eq!(rounds(&node, "memory --messages 2000 --durability synced,os").len(), 1);
}

#[test]
fn idle_connections_are_measured() {
    let node = Node::start(Options::new());
    // Without heartbeats from us, the node would drop them after twice the interval.
    let three = rounds(&node, "idle-amqp091 idle-amqp10 --connections 200 --sessions 3 --idle-s 4 --heartbeat 1");
    assert_eq!(three.len(), 2);
    for round in three {
        assert_eq!((&round["connections"], &round["sessions"]), (&200.into(), &3.into()));
        assert!(round["opened_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{round}");
        assert!(round["bytes_per_connection"].is_number() && round["given_back"].is_number(), "{round}");
        // The third session of each connection, compared with two sessions.
        assert!(round["bytes_per_further_session"].is_number(), "{round}");
        assert!(round["growth_by_further_session"].is_number(), "{round}");
        let (with, without) = (&round["idle_wake_ups_per_second"], &round["wake_ups_per_second_without_connections"]);
        assert!(with.as_f64().zip(without.as_f64()).is_some_and(|(with, _)| with > 0.0), "{round}");
        assert_eq!((&round["sessions_open"], &round["sessions_listed"]), (&600.into(), &600.into()), "{round}");
        assert!(round["logins_while_dropping"].as_u64().is_some_and(|logins| logins > 0), "{round}");
        assert_eq!(round["extrapolated"]["connections"], 40_000, "{round}");
    }
    for round in rounds(&node, "idle-amqp091 idle-amqp10 --connections 20 --sessions 1 --idle-s 0") {
        assert_eq!((&round["sessions_open"], &round["sessions_listed"]), (&20.into(), &20.into()), "{round}");
        assert!(round["bytes_per_further_session"].is_null(), "a client comes with its first: {round}");
    }
}

#[test]
fn options_have_the_names_of_perf_test_and_quiver() {
    let node = Node::start(Options::new());
    let words = "classic-amqp10 --count 700 --body-size 20 --credit 30";
    let told = rounds(&node, words);
    let [messages, size, prefetch] = ["messages", "size", "prefetch"].map(|field| &told[0][field]);
    assert_eq!((messages, size, prefetch), (&700.into(), &20.into(), &30.into()), "{words}");
    assert!(rounds(&node, "memory --time 1")[0]["load"].as_str().is_some_and(|load| load.contains("for 1 s")));
    let idle = rounds(&node, "idle-amqp091 --connections 2 --idle-s 0 --requested-heartbeat 7");
    assert_eq!(idle[0]["heartbeat_seconds"], 7);
}

#[test]
fn invalid_options_are_refused() {
    let node = Node::start(Options::new());
    let uri = format!("amqp://{}", node.amqp());
    let output =
        Command::new(binary()).args(["bench", "memory", "--uri", &uri, "--queues", "3", "--producers", "4"]).output();
    let error = String::from_utf8(output.expect("it runs").stderr).expect("text");
    assert!(error.contains("4 publishers and 3 consumers can't be shared out evenly among 3 queues"), "{error}");
}

/// Whether a field is that figure of the JSON, allowing for the reader's last bit.
fn is_same(field: &str, figure: f64) -> bool {
    field.parse::<f64>().is_ok_and(|field| (field - figure).abs() <= figure.abs() * 1e-12)
}

/// The fields of a line of CSV.
fn fields_of(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => fields.last_mut().expect("there is one").push(other),
        }
    }
    fields
}

#[test]
fn the_files_of_a_run_agree_and_the_page_is_self_contained() {
    let node = Node::start(Options::new());
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let run = |words: &[&str]| {
        let output = Command::new(binary()).arg("bench").args(words).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let uri = format!("amqp://{}", node.amqp());
    let (metrics, pid) = (node.ports().prometheus.to_string(), node.ports().pid.to_string());
    let files = ["a.json", "a.csv", "a.html"].map(path);
    let broker = ["--uri", &uri, "--metrics-port", &metrics, "--pid", &pid, "--messages", "20000"];
    let told = ["--rounds", "3", "--json-file", &files[0], "--csv-file", &files[1], "--html-file", &files[2]];
    let (is_success, text) = run(&[&["classic-amqp10"], &broker[..], &told].concat());
    assert!(is_success, "{text}");

    let [json, csv, html] = files.each_ref().map(|file| std::fs::read_to_string(file).expect("it was written"));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let rounds = json["rounds"].as_array().expect("a list");
    assert_eq!(rounds.len(), 3);
    let mut lines = csv.lines().map(fields_of);
    let names = lines.next().expect("a line of names");
    for (round, fields) in rounds.iter().zip(lines) {
        let field = |name: &str| fields[names.iter().position(|other| other == name).expect(name)].as_str();
        for name in ["broker", "kernel", "protocol", "durability"] {
            assert_eq!(round[name].as_str(), Some(field(name)), "{round}");
        }
        for name in ["received_per_second", "resident_bytes_max", "syncs_per_message", "cores", "size"] {
            let figure = round[name].as_f64().unwrap_or_else(|| panic!("{name}: {round}"));
            assert!(is_same(field(name), figure), "{name}: {round}");
        }
        let p99 = round["latency_us"]["p99.9"].as_f64().expect("a figure");
        assert!(is_same(field("latency_us.p99.9"), p99), "{round}");
        let rate = round["received_per_second"].as_f64().expect("a figure");
        assert!(text.contains(&format!("{rate:.0} /s, verified")), "{rate}: {text}");
    }
    // The page shows medians, here the middle value of three.
    let mut rates: Vec<_> = rounds.iter().filter_map(|round| round["received_per_second"].as_f64()).collect();
    rates.sort_by(f64::total_cmp);
    let digits = format!("{:.0}", rates[1]);
    let (thousands, rest) = digits.split_at(digits.len() - 3);
    assert!(html.contains(&format!("<td>{thousands},{rest}<small>")), "{digits}: {html}");
    for title in ["Throughput", "Latency by percentile", "Resident memory"] {
        assert!(html.contains(&format!("<figcaption>{title}")), "{title}: {html}");
    }
    for outside in ["://", "url(", "src=", "@import", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }

    // Reported again, together with another run in which one round fails.
    let other = path("b.json");
    let (is_success, text) = run(&["memory", "memory-amqp10", "--uri", "amqp://127.0.0.1:1", "--json-file", &other]);
    assert!(!is_success && text.matches("  void ").count() == 2, "{text}");
    let page = path("b.html");
    let (is_success, text) = run(&["--from-json", &files[0], &other, "--html-file", &page]);
    assert!(is_success && text.contains(&digits), "{text}");
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains(&format!("<td>{thousands},{rest}<small>")), "{page}");
    assert!(page.contains("<li>memory-amqp10, round 1, unknown broker: 127.0.0.1:1: "), "{page}");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_before_measuring() {
    let output =
        Command::new(binary()).args(["bench", "--uri", "amqp://127.0.0.1:1", "--csv-file", "/no/such/x"]).output();
    let error = String::from_utf8(output.expect("it runs").stderr).expect("text");
    assert!(error.contains("cannot write /no/such/x: "), "{error}");
}

#[test]
fn perf_counts_the_calls_of_a_broker_without_counters() {
    let node = Node::start(Options::new());
    // Without its metrics a node is treated like any other broker.
    let uri = format!("amqp://{}", node.amqp());
    let run = |words: &[&str]| {
        let load = ["bench", "classic", "--json", "--perf", "--messages", "2000", "--uri", &uri];
        Command::new(binary()).args(load).args(words).output().expect("it runs")
    };
    let error = String::from_utf8(run(&[]).stderr).expect("text");
    assert!(error.contains("give --pid"), "{error}");
    let output = run(&["--pid", &node.ports().pid.to_string()]);
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("--perf counts a broker's system calls by perf stat, which says") {
        // perf isn't installed or permitted here, so a load that requires it doesn't run.
        return assert!(!output.status.success());
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let round = &report["rounds"][0];
    assert_eq!(round["calls_were_counted_by_perf"], true, "{round}");
    for figure in ["reads_per_message", "writes_per_message", "syncs_per_message"] {
        assert!(round[figure].as_f64().is_some_and(|calls| calls > 0.0), "{figure}: {round}");
    }
}
