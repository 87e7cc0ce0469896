//! Health checks and metrics while an alarm is raised.

use serde_json::json;

use crate::stage::{HttpStage, request};

#[test]
fn a_raised_alarm_fails_both_checks_and_stands_in_the_metrics() {
    let stage = HttpStage::with("vm_memory_high_watermark.absolute=1");
    let alarm = json!([{"resource": "memory", "node": "leveret@localhost"}]);
    for (path, reason) in [
        ("/api/health/checks/alarms", "There are alarms in effect in the cluster"),
        ("/api/health/checks/local-alarms", "There are alarms in effect on the node"),
    ] {
        let failed = json!({"status": "failed", "reason": reason, "alarms": alarm});
        assert_eq!(stage.ask("GET", path, ""), (503, failed));
    }
    assert_eq!(stage.ask("GET", "/api/health/checks/is-in-service", "").0, 200);
    let (_, text) = request(stage.prometheus, "GET", "/metrics", "", "");
    for line in [
        "rabbitmq_alarms_memory_used_watermark 1",
        "rabbitmq_alarms_free_disk_space_watermark 0",
        "rabbitmq_resident_memory_limit_bytes 1",
        "leveret_connections_blocked 0",
    ] {
        assert!(text.lines().any(|have| have == line), "no {line} in {text}");
    }
    stage.node.stop("test");
}
