//! The contents of the pages.

use base64::Engine;
use leveret_management::MetricsOptions;
use leveret_strict_client::amqp091::{Consume, Event, Publication};

use super::{page, traffic, value};
use crate::stage::{Amqp, HttpStage, request};

#[test]
fn sums_are_exact_and_need_no_password() {
    let stage = HttpStage::new();
    let mut amqp = traffic(&stage);
    amqp.client.get(1, b"q", true);
    amqp.until(|event| matches!(event, Event::Got { .. }));
    amqp.client.qos(1, 1, false);
    amqp.reply("basic.qos-ok");
    amqp.client.consume(1, b"q", b"c", Consume::default(), &Default::default());
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    let text = page(&stage, "/metrics");
    for (sample, wanted) in [
        ("rabbitmq_queues", 1.0),
        ("rabbitmq_queues_created_total", 1.0),
        ("rabbitmq_connections", 1.0),
        ("rabbitmq_connections_opened_total", 1.0),
        ("rabbitmq_channels", 1.0),
        ("rabbitmq_consumers", 1.0),
        ("rabbitmq_global_consumers{protocol=\"amqp091\"}", 1.0),
        ("rabbitmq_global_publishers{protocol=\"amqp091\"}", 1.0),
        ("rabbitmq_global_publishers{protocol=\"amqp10\"}", 0.0),
        ("rabbitmq_global_messages_received_total{protocol=\"amqp091\"}", 5.0),
        ("rabbitmq_global_messages_received_confirm_total{protocol=\"amqp091\"}", 5.0),
        ("rabbitmq_global_messages_confirmed_total{protocol=\"amqp091\"}", 5.0),
        ("rabbitmq_global_messages_routed_total{protocol=\"amqp091\"}", 4.0),
        ("rabbitmq_global_messages_unroutable_returned_total{protocol=\"amqp091\"}", 1.0),
        ("rabbitmq_queue_messages_published_total", 4.0),
        ("rabbitmq_queue_messages_ready", 2.0),
        ("rabbitmq_queue_messages_unacked", 1.0),
        ("rabbitmq_queue_messages", 3.0),
        ("rabbitmq_queue_messages_persistent", 2.0),
        ("rabbitmq_queue_messages_bytes", 305.0),
        ("rabbitmq_channel_messages_unacked", 1.0),
        ("rabbitmq_consumer_prefetch", 1.0),
        ("rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"100\"}", 2.0),
        ("rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"1000\"}", 5.0),
        ("rabbitmq_message_size_bytes_sum{protocol=\"amqp091\"}", 459.0),
        ("rabbitmq_auth_attempts_succeeded_total{protocol=\"amqp091\"}", 1.0),
        ("leveret_durability_queues{durability=\"synced\"}", 1.0),
        ("leveret_queues_waiting{reason=\"consumers_busy\"}", 1.0),
        ("leveret_durability_info{mode=\"synced\"}", 1.0),
    ] {
        assert_eq!(value(&text, sample), wanted, "{sample}");
    }
    let classic = "queue_type=\"rabbit_classic_queue\"";
    let delivered = format!("rabbitmq_global_messages_delivered_total{{protocol=\"amqp091\",{classic}}}");
    assert_eq!(value(&text, &delivered), 2.0);
    for positive in [
        "rabbitmq_io_sync_ops_total",
        "rabbitmq_io_write_bytes_total",
        "rabbitmq_process_resident_memory_bytes",
        "rabbitmq_disk_space_available_bytes",
        "leveret_sync_seconds_count",
    ] {
        assert!(value(&text, positive) > 0.0, "{positive}");
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn deleted_objects_leave_the_sums_and_stay_in_the_totals() {
    let stage = HttpStage::new();
    let mut amqp = traffic(&stage);
    amqp.client.delete_queue(1, b"q");
    amqp.until(|event| matches!(event, Event::Removed { .. }));
    amqp.client.close_channel(1);
    amqp.reply("channel.close-ok");
    let text = page(&stage, "/metrics");
    for (sample, wanted) in [
        ("rabbitmq_queues", 0.0),
        ("rabbitmq_queue_messages", 0.0),
        ("rabbitmq_channels", 0.0),
        ("rabbitmq_global_publishers{protocol=\"amqp091\"}", 0.0),
        ("rabbitmq_queues_deleted_total", 1.0),
        ("rabbitmq_channels_closed_total", 1.0),
        ("rabbitmq_channel_messages_published_total", 5.0),
        ("leveret_durability_queues{durability=\"synced\"}", 0.0),
    ] {
        assert_eq!(value(&text, sample), wanted, "{sample}");
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn every_object_has_its_samples() {
    let stage = HttpStage::new();
    let amqp = traffic(&stage);
    assert_eq!(stage.ask("PUT", "/api/queues/v/a%22b", r#"{"durable": true}"#).0, 201);
    let text = page(&stage, "/metrics/per-object");
    assert_eq!(value(&text, "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"q\"}"), 4.0);
    assert_eq!(value(&text, "rabbitmq_queue_messages_ready{vhost=\"v\",queue=\"a\\\"b\"}"), 0.0);
    assert_eq!(value(&text, "rabbitmq_queue_messages_published_total{queue_vhost=\"/\",queue=\"q\"}"), 4.0);
    assert_eq!(value(&text, "rabbitmq_exchange_messages_published_total{vhost=\"/\",exchange=\"amq.direct\"}"), 1.0);
    // A queue without any activity has no counters.
    assert!(!text.contains("rabbitmq_queue_messages_acked_total{vhost=\"v\""));
    let channel = |family: &str, object: &str| {
        let is_wanted =
            |line: &&str| line.starts_with(family) && line.contains(&format!(" (1)\",vhost=\"/\",{object}}} "));
        let found = text.lines().find(is_wanted).unwrap_or_else(|| panic!("{family} of {object} in {text}"));
        found.rsplit(' ').next().expect("a value").to_owned()
    };
    for (family, of_default, of_direct) in [
        ("rabbitmq_channel_messages_published_total", "4", "1"),
        ("rabbitmq_channel_messages_confirmed_total", "4", "1"),
        ("rabbitmq_channel_messages_unroutable_returned_total", "0", "1"),
    ] {
        assert_eq!(channel(family, "exchange=\"\""), of_default, "{family}");
        assert_eq!(channel(family, "exchange=\"amq.direct\""), of_direct, "{family}");
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn the_detailed_page_has_what_was_asked_for() {
    let stage = HttpStage::new();
    let amqp = traffic(&stage);
    assert_eq!(stage.ask("PUT", "/api/queues/v/other", r#"{"durable": true}"#).0, 201);
    let detailed = |query: &str| page(&stage, &format!("/metrics/detailed{query}"));
    let nothing = detailed("?family=nonsense");
    assert!(nothing.lines().filter(|line| !line.starts_with('#')).all(|line| {
        ["rabbitmq_build_info{", "rabbitmq_identity_info{", "telemetry_scrape_"]
            .iter()
            .any(|name| line.starts_with(name))
    }));
    assert!(nothing.contains("rabbitmq_endpoint=\"detailed\""));
    let coarse = detailed("?family=queue_coarse_metrics");
    for queue in ["vhost=\"/\",queue=\"q\"", "vhost=\"v\",queue=\"other\""] {
        assert!(coarse.contains(&format!("rabbitmq_detailed_queue_messages{{{queue}}} ")), "{coarse}");
        assert!(coarse.contains(&format!("rabbitmq_detailed_queue_info{{{queue},queue_type=\"rabbit_classic_queue\"")));
    }
    assert!(!coarse.contains("queue_consumers"));
    let of_vhost = detailed("?family=queue_coarse_metrics&vhost=v&vhost=none");
    assert!(of_vhost.contains("queue=\"other\"") && !of_vhost.contains("queue=\"q\""));
    let of_queue = detailed("?family=queue_metrics&queue=q&vhost=%2F");
    assert!(of_queue.contains("queue=\"q\"") && !of_queue.contains("queue=\"other\""));
    // A regular expression finds parts of names, but a vhost that is called so is that one alone.
    for (filter, has_q, has_other) in [
        ("queue=%5Eoth", false, true),
        ("queue=t", false, true),
        ("queue=%5E%28%3F%21q%29", false, true),
        ("queue=", true, true),
        ("vhost=%5E%5Bv-z%5D%24", false, true),
        ("vhost=%2F", true, false),
        ("vhost=", false, false),
        ("vhost=v&vhost=%5E%2F", true, true),
    ] {
        let found = detailed(&format!("?family=queue_coarse_metrics&{filter}"));
        let has = |queue: &str| found.contains(&format!("queue=\"{queue}\""));
        assert_eq!((has("q"), has("other")), (has_q, has_other), "{filter}");
    }
    // The second group is a part of the first.
    let both = detailed("?family=queue_metrics&family=queue_consumer_count");
    assert_eq!(both.matches("# TYPE rabbitmq_detailed_queue_consumers ").count(), 1);
    assert!(detailed("?family=channel_metrics").contains("rabbitmq_detailed_channel_consumers{channel=\""));
    assert!(detailed("?family=vhost_status").contains("rabbitmq_cluster_vhost_status{vhost=\"v\"} 1"));
    let exchanges = detailed("?family=exchange_names&family=exchange_bindings");
    assert!(exchanges.contains("rabbitmq_cluster_exchange_name{vhost=\"/\",exchange=\"amq.topic\",type=\"topic\"} 1"));
    assert!(
        exchanges.contains("rabbitmq_cluster_exchange_bindings{vhost=\"v\",exchange=\"amq.topic\",type=\"topic\"} 0")
    );
    for (query, refused) in [
        ("queue=a&queue=b", "Only one 'queue' query parameter is allowed"),
        ("family=queue_metrics&queue=%28", "Invalid 'queue' regex '(': unclosed group"),
        ("family=queue_metrics&vhost=%28", "Invalid 'vhost' regex '(': unclosed group"),
    ] {
        let (status, text) = request(stage.prometheus, "GET", &format!("/metrics/detailed?{query}"), "", "");
        assert_eq!((status, &*text), (400, refused), "{query}");
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn other_pages_and_methods() {
    let stage = HttpStage::new();
    let memory = page(&stage, "/metrics/memory-breakdown");
    assert!(value(&memory, "rabbitmq_memory_other_system_bytes") > 0.0);
    let scrapes = |text: &str| {
        value(
            text,
            "telemetry_scrape_size_bytes_count{registry=\"default\",content_type=\"text/plain; version=0.0.4\"}",
        )
    };
    assert_eq!(scrapes(&page(&stage, "/metrics")), 0.0);
    assert_eq!(scrapes(&page(&stage, "/metrics/")), 1.0);
    let ask = |method: &str, path: &str| request(stage.prometheus, method, path, "", "");
    assert_eq!(ask("GET", "/metrics/none"), (404, "Unknown Registry".to_owned()));
    assert_eq!(ask("GET", "/api/queues").0, 404);
    assert_eq!(ask("GET", "/").0, 404);
    assert_eq!(ask("POST", "/metrics").0, 405);
    stage.node.stop("test");
}

/// Queues with their arguments; each gets three messages.
const MORTAL: [(&str, &str); 5] = [
    ("full", r#"{"x-max-length": 1}"#),
    ("full-dl", r#"{"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}"#),
    ("brief-dl", r#"{"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}"#),
    ("refused", "{}"),
    ("refused-dl", r#"{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}"#),
];

#[test]
fn deaths_are_counted_by_reason_and_dead_letter_exchange() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    for (queue, arguments) in MORTAL.into_iter().chain([("dead", "{}")]) {
        let body = format!("{{\"durable\": true, \"arguments\": {arguments}}}");
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{queue}"), &body).0, 201);
    }
    for (queue, _) in MORTAL {
        for _ in 0..3 {
            amqp.client.publish(1, Publication::to_queue(queue.as_bytes(), b"mortal"));
        }
    }
    for queue in ["refused", "refused-dl"] {
        amqp.client.get(1, queue.as_bytes(), false);
        let mut tag = 0;
        amqp.until_seen(|event| match event {
            Event::Got { delivery, .. } => {
                tag = delivery.delivery_tag;
                true
            }
            _ => false,
        });
        amqp.client.reject(1, tag, false);
    }
    // Two of full-dl, three of brief-dl and one of refused-dl.
    amqp.client.consume(1, b"dead", b"c", Consume::default(), &Default::default());
    (0..6).for_each(|_| amqp.until(|event| matches!(event, Event::Delivered(_))));
    let text = page(&stage, "/metrics");
    for (death, strategy, wanted) in [
        ("maxlen", "disabled", 2.0),
        ("maxlen", "at_most_once", 2.0),
        ("expired", "disabled", 0.0),
        ("expired", "at_most_once", 3.0),
        ("rejected", "disabled", 1.0),
        ("rejected", "at_most_once", 1.0),
    ] {
        let labels = format!("queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"{strategy}\"");
        let sample = format!("rabbitmq_global_messages_dead_lettered_{death}_total{{{labels}}}");
        assert_eq!(value(&text, &sample), wanted, "{sample}");
    }
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn metrics_of_quorum_queues_have_their_type() {
    let stage = HttpStage::new();
    let mut amqp = Amqp::connect(stage.amqp);
    for (queue, arguments) in [
        ("parks", r#"{"x-queue-type": "quorum", "x-delivery-limit": 0}"#),
        (
            "gives-up",
            r#"{"x-queue-type": "quorum", "x-delivery-limit": 0, "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead"}"#,
        ),
        ("dead", "{}"),
    ] {
        let body = format!("{{\"durable\": true, \"arguments\": {arguments}}}");
        assert_eq!(stage.ask("PUT", &format!("/api/queues/%2F/{queue}"), &body).0, 201);
    }
    amqp.client.confirm_select(1);
    amqp.reply("confirm.select-ok");
    for queue in ["parks", "gives-up"] {
        amqp.client.publish(1, Publication::to_queue(queue.as_bytes(), b"poison"));
        amqp.until(|event| matches!(event, Event::Confirmed { .. }));
        amqp.client.get(1, queue.as_bytes(), false);
        let mut tag = 0;
        amqp.until_seen(|event| match event {
            Event::Got { delivery, .. } => {
                tag = delivery.delivery_tag;
                true
            }
            _ => false,
        });
        amqp.client.reject(1, tag, true);
    }
    amqp.client.consume(1, b"dead", b"c", Consume::default(), &Default::default());
    amqp.until(|event| matches!(event, Event::Delivered(_)));
    let sums = page(&stage, "/metrics");
    // The dead letter is flagged redelivered: its delivery failed in the queue in which it died.
    for (family, quorum, classic) in [
        ("delivered", 2.0, 1.0),
        ("delivered_get_manual_ack", 2.0, 0.0),
        ("delivered_consume_manual_ack", 0.0, 1.0),
        ("redelivered", 0.0, 1.0),
    ] {
        for (queue_type, wanted) in [("quorum", quorum), ("classic", classic), ("stream", 0.0), ("volatile", 0.0)] {
            let labels = format!("protocol=\"amqp091\",queue_type=\"rabbit_{queue_type}_queue\"");
            let sample = format!("rabbitmq_global_messages_{family}_total{{{labels}}}");
            assert_eq!(value(&sums, &sample), wanted, "{sample}");
        }
    }
    let labels = "queue_type=\"rabbit_quorum_queue\",dead_letter_strategy=\"at_most_once\"";
    let sample = format!("rabbitmq_global_messages_dead_lettered_delivery_limit_total{{{labels}}}");
    assert_eq!(value(&sums, &sample), 1.0, "{sample}");
    assert_eq!(value(&sums, "leveret_queue_messages_parked"), 1.0);
    assert_eq!(value(&sums, "leveret_queue_messages_parked_bytes"), 6.0);
    let each = page(&stage, "/metrics/per-object");
    let of = "vhost=\"/\",queue=\"parks\"";
    assert_eq!(value(&each, &format!("leveret_queue_messages_parked{{{of}}}")), 1.0);
    let info = "queue_type=\"rabbit_quorum_queue\",membership=\"leader\"";
    assert_eq!(value(&each, &format!("rabbitmq_queue_info{{{of},{info}}}")), 1.0);
    assert!(!each.contains(&format!("rabbitmq_queue_messages_ready_ram{{{of}}}")), "only classic queues have it");
    assert!(!each.contains("leveret_queue_messages_parked{vhost=\"/\",queue=\"dead\"}"), "classic queues never park");
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn pages_can_be_elsewhere_and_for_monitors_only() {
    let options = MetricsOptions { path: "/m".to_owned(), per_object: true, authentication: true };
    let stage = HttpStage::with_metrics(options);
    let amqp = traffic(&stage);
    let ask = |path: &str, user: &str| {
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{user}"));
        request(stage.prometheus, "GET", path, &format!("authorization: Basic {encoded}\r\n"), "")
    };
    assert_eq!(request(stage.prometheus, "GET", "/m", "", "").0, 401);
    assert_eq!(ask("/m", "none").0, 401);
    assert_eq!(ask("/m", "user").0, 401);
    assert_eq!(ask("/metrics", "guest").0, 404);
    let (status, text) = ask("/m", "guest");
    assert_eq!(status, 200);
    assert_eq!(value(&text, "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"q\"}"), 4.0);
    drop(amqp);
    stage.node.stop("test");
}
