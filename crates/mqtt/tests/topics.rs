//! Topic filters (MQTT 5, 4.7).

use leveret_mqtt::topic::{check_filter, has_wildcard, matches, shared};

#[test]
fn filters_match_by_levels() {
    let matching = [
        ("sport/tennis/player1/#", "sport/tennis/player1"),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
        ("sport/#", "sport"),
        ("#", "a"),
        ("#", "/a"),
        ("sport/tennis/+", "sport/tennis/player1"),
        ("sport/+", "sport/"),
        ("+/+", "/finance"),
        ("/+", "/finance"),
        ("a/b", "a/b"),
        ("+/tennis/#", "sport/tennis"),
        ("a.b/+", "a.b/c"),
        ("$SYS/#", "$SYS/x"),
        ("$SYS/monitor/+", "$SYS/monitor/Clients"),
        ("//", "//"),
        ("+", ""),
    ];
    for (filter, topic) in matching {
        assert!(matches(filter, topic), "{filter} {topic}");
    }
    let others = [
        ("sport/tennis/+", "sport/tennis/player1/ranking"),
        ("sport/+", "sport"),
        ("+", "/finance"),
        ("a/b", "A/b"),
        ("a", "a/"),
        ("a/", "a"),
        ("a/b/c", "a/b"),
        ("a/b", "a.b"),
    ];
    for (filter, topic) in others {
        assert!(!matches(filter, topic), "{filter} {topic}");
    }
}

#[test]
fn wildcards_leave_topics_with_a_dollar_alone() {
    // [MQTT-4.7.2-1]
    for (filter, topic) in [("#", "$SYS/x"), ("+/monitor/Clients", "$SYS/monitor/Clients"), ("+", "$x")] {
        assert!(!matches(filter, topic), "{filter} {topic}");
    }
}

#[test]
fn shared_filters_are_cut() {
    assert_eq!(shared("$share/g/a/+"), Some(("g", "a/+")));
    assert_eq!((shared("a/b"), shared("$sharex/g/a")), (None, None));
    assert!(check_filter("$share/g/#").is_ok() && check_filter("$share/g//").is_ok());
    assert!(has_wildcard("a/+") && !has_wildcard("a/b"));
}
