//! What stands on the pages.

use leveret_strict_client::amqp091::{Consume, Event};

use super::{page, traffic, value};
use crate::stage::{Stage, request};

#[test]
fn sums_are_exact_and_need_no_password() {
    let stage = Stage::new();
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
fn what_is_gone_is_no_longer_in_the_sums_and_stays_in_the_totals() {
    let stage = Stage::new();
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
    let stage = Stage::new();
    let amqp = traffic(&stage);
    assert_eq!(stage.ask("PUT", "/api/queues/v/a%22b", r#"{"durable": true}"#).0, 201);
    let text = page(&stage, "/metrics/per-object");
    assert_eq!(value(&text, "rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"q\"}"), 4.0);
    assert_eq!(value(&text, "rabbitmq_queue_messages_ready{vhost=\"v\",queue=\"a\\\"b\"}"), 0.0);
    assert_eq!(value(&text, "rabbitmq_queue_messages_published_total{queue_vhost=\"/\",queue=\"q\"}"), 4.0);
    assert_eq!(value(&text, "rabbitmq_exchange_messages_published_total{vhost=\"/\",exchange=\"amq.direct\"}"), 1.0);
    // The queue that nothing happened in has no counts.
    assert!(!text.contains("rabbitmq_queue_messages_acked_total{vhost=\"v\""));
    let channel =
        text.lines().find(|line| line.starts_with("rabbitmq_channel_messages_published_total{")).expect("one");
    assert!(channel.contains(" (1)\",vhost=\"/\"} 5"), "{channel}");
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn the_detailed_page_has_what_was_asked_for() {
    let stage = Stage::new();
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
    let (status, text) = request(stage.prometheus, "GET", "/metrics/detailed?queue=a&queue=b", "", "");
    assert_eq!((status, &*text), (400, "Only one 'queue' query parameter is allowed"));
    drop(amqp);
    stage.node.stop("test");
}

#[test]
fn other_pages_and_methods() {
    let stage = Stage::new();
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
