//! The metrics port.

use crate::stage::{Stage, request};

#[test]
fn metrics_show_the_nodes_state_without_a_password() {
    let stage = Stage::new();
    assert_eq!(stage.ask("PUT", "/api/queues/%2F/q", r#"{"durable": true}"#).0, 201);
    let (status, text) = request(stage.prometheus, "GET", "/metrics", "", "");
    assert_eq!(status, 200);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.trim().parse::<f64>().unwrap()
    };
    assert_eq!(value("rabbitmq_queues "), 1.0);
    assert!(value("rabbitmq_io_sync_ops_total ") >= 1.0);
    assert!(value("rabbitmq_io_write_bytes_total ") > 0.0);
    assert!(value("rabbitmq_process_resident_memory_bytes ") > 0.0);
    assert!(value("rabbitmq_disk_space_available_bytes ") > 0.0);
    assert!(text.contains("leveret_durability_info{mode=\"synced\"} 1"));
    assert_eq!(request(stage.prometheus, "GET", "/metrics/per-object", "", "").0, 501);
    assert_eq!(request(stage.prometheus, "GET", "/api/queues", "", "").0, 404);
    stage.node.stop("test");
}
