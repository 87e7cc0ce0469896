//! Conservation (accepted = settled + dead-lettered + expired + dropped + purged + parked + remaining), read over
//! HTTP at the end of every black-box test.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::Http;

const PARTS: [&str; 7] = ["settled", "dead_lettered", "expired", "dropped", "purged", "parked", "remaining"];

/// Time for the counters to agree: an acknowledgement sent while a connection was closing is applied a moment later.
const AGREEMENT: Duration = Duration::from_secs(5);

/// Checks every queue of the node.
///
/// # Panics
/// If a queue doesn't show the counters or they don't add up.
pub fn check(http: &Http) {
    let deadline = Instant::now() + AGREEMENT;
    loop {
        match violation(http) {
            None => return,
            Some(text) if Instant::now() > deadline => panic!("conservation: {text}"),
            Some(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The first queue whose counters don't add up, as text.
pub fn violation(http: &Http) -> Option<String> {
    let answer = match http.get("/api/queues") {
        Ok(answer) => answer,
        Err(error) => return Some(format!("GET /api/queues: {error}")),
    };
    let json = answer.json();
    let Some(queues) = json.as_array() else {
        return Some(format!("GET /api/queues: {} {}", answer.status, answer.body));
    };
    queues.iter().find_map(|queue| of_queue(queue).err())
}

/// Adds up the counters of one queue's JSON.
///
/// # Errors
/// The name of the queue with its counters, if they are missing or don't add up.
pub fn of_queue(queue: &Value) -> Result<u64, String> {
    let name = queue["name"].as_str().unwrap_or("?");
    let counters = &queue["conservation"];
    let count = |key: &str| counters[key].as_u64().ok_or_else(|| format!("queue {name} shows no {key}: {queue}"));
    let accepted = count("accepted")?;
    let mut sum = 0;
    for part in PARTS {
        sum += count(part)?;
    }
    if sum == accepted { Ok(accepted) } else { Err(format!("queue {name} doesn't add up: {counters}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::of_queue;

    #[test]
    fn sums_must_agree() {
        let mut queue = json!({"name": "q", "conservation": {"accepted": 3, "settled": 1, "dead_lettered": 0,
            "expired": 0, "dropped": 1, "purged": 0, "parked": 0, "remaining": 1}});
        assert_eq!(of_queue(&queue), Ok(3));
        queue["conservation"]["remaining"] = json!(2);
        assert!(of_queue(&queue).expect_err("4 isn't 3").contains("doesn't add up"));
        assert!(of_queue(&json!({"name": "q"})).is_err());
    }
}
