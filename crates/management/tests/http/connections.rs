//! Lists of connections.

use serde_json::Value;

use crate::stage::{Amqp, HttpStage};

#[test]
fn connections_are_sorted_by_what_is_known_of_them() {
    let stage = HttpStage::new();
    let _clients: Vec<Amqp> = (0..5).map(|_| Amqp::connect(stage.amqp)).collect();
    let listed = |query: &str| stage.ask("GET", &format!("/api/connections?{query}"), "").1;
    let names = |rows: &Value| -> Vec<String> {
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    let mut expected = names(&listed(""));
    expected.sort();
    assert_eq!(expected.len(), 5);
    assert_eq!(names(&listed("sort=name")), expected);
    expected.reverse();
    let page = listed("sort=name&sort_reverse=true&page=2&page_size=2");
    assert_eq!(names(&page["items"]), expected[2..4]);
    assert_eq!((&page["total_count"], &page["filtered_count"]), (&5.into(), &5.into()));
    for path in ["user", "vhost", "protocol"] {
        let page = listed(&format!("sort={path}&page=1&page_size=5&columns={path}"));
        assert_eq!(page["items"].as_array().map(Vec::len), Some(5), "{path}");
        assert!(page["items"][0][path].is_string(), "{page}");
    }
    let one = listed(&format!("sort=name&page=1&name={}", expected[0].replace(' ', "%20").replace('>', "%3E")));
    assert_eq!(names(&one["items"]), expected[..1]);
    for path in ["peer_port", "connected_at", "recv_oct", "send_oct", "channels", "timeout", "queued_bytes"] {
        let numbers = |query: &str| -> Vec<u64> {
            let rows = listed(&format!("sort={path}{query}"));
            rows.as_array().expect("a list").iter().map(|row| row[path].as_u64().expect("a number")).collect()
        };
        let ascending = numbers("");
        assert!(ascending.len() == 5 && ascending.is_sorted(), "{path}: {ascending:?}");
        assert!(numbers("&sort_reverse=true").is_sorted_by(|a, b| a >= b), "{path}");
    }
    for path in ["peer_host", "state", "auth_mechanism", "recv_oct_details.rate", "send_oct_details.rate", "send_pend"]
    {
        assert_eq!(names(&listed(&format!("sort={path}"))).len(), 5, "{path}");
    }
    stage.node.stop("test");
}
