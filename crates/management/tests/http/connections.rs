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
    // A connection is asked for a field that only it knows.
    assert_eq!(names(&listed("sort=connected_at")).len(), 5);
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
    stage.node.stop("test");
}
