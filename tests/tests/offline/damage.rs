//! Reports about damaged directories, and the contents of repaired copies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leveret_tests::broker::is_given;
use leveret_tests::data_directory::{crc32c, files, fixture, put, unpack};
use leveret_tests::node::{Node, Options, new_directory, run};
use leveret_tests::wire::{Wire, publish};
use serde_json::Value;

fn verify(directory: &Path, more: &[&str]) -> (i32, Value) {
    let path = directory.to_str().expect("a path of text");
    let (status, report, problem) = run(&[&["verify", path, "--format", "json"], more].concat());
    let report = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report} {problem}"));
    (status, report)
}

fn text(directory: &Path) -> (i32, String, String) {
    run(&["verify", directory.to_str().expect("a path of text")])
}

/// The records of a queue in a dump.
fn records(directory: &Path, queue: &str) -> Vec<Value> {
    let path = directory.to_str().expect("a path of text");
    let (status, lines, problem) = run(&["log", "dump", path, "--queue", queue, "--format", "json", "--bodies"]);
    assert_eq!(status, 0, "{problem}");
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A message of this queue in a segment in use: its file, the offset of its body, and its number.
fn stored(directory: &Path, queue: &str) -> (String, usize, u64) {
    let all = records(directory, queue);
    let unused = verify(directory, &[]).1["unused_files"].clone();
    let is_used = |file: &Value| !unused.as_array().is_some_and(|unused| unused.contains(file));
    let in_segment = |record: &&Value| {
        let file = &record["file"];
        record["kind"] == "message" && is_used(file) && file.as_str().is_some_and(|file| file.starts_with("segment-"))
    };
    let record = all.iter().rfind(in_segment).expect("a message in a segment");
    let number = |key: &str| record[key].as_u64().expect("a number");
    let end = number("offset") + 12 + number("length") - number("body_bytes");
    (record["file"].as_str().expect("a name").to_owned(), usize::try_from(end).expect("small"), number("number"))
}

fn messages(directory: &tempfile::TempDir, copy: &Path) -> BTreeMap<String, u64> {
    let _ = directory;
    let target = new_directory();
    fs::remove_dir_all(target.path()).expect("an empty directory");
    fs::rename(copy, target.path()).expect("the copy moves");
    let node = Node::start_in(target, Options::new());
    let queues = node.http().get("/api/queues").expect("an answer").json();
    let count = |queue: &Value| (queue["name"].as_str().unwrap().to_owned(), queue["messages"].as_u64().unwrap());
    queues.as_array().expect("a list").iter().map(count).collect()
}

fn recorded() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(fixture("data-1/clean").join("queues.json")).expect("recorded counts");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_flipped_byte_is_named_and_left_out_of_the_copy() {
    if is_given() {
        return;
    }
    let directory = unpack(&fixture("data-1/clean"));
    let (file, at, number) = stored(directory.path(), "events");
    let mut content = files(directory.path()).remove(&file).expect("the file");
    content[at] ^= 0x20;
    put(directory.path(), &file, &content);
    let before = files(directory.path());

    let parent = new_directory();
    let copy = parent.path().join("copy");
    let (status, report) = verify(directory.path(), &["--repair-to", copy.to_str().expect("a path of text")]);
    assert_eq!(status, 1);
    let [damage] = &report["damaged"].as_array().expect("a list")[..] else { panic!("{report:#}") };
    assert_eq!(damage["file"], file);
    let range = damage["from_byte"].as_u64().unwrap()..damage["to_byte"].as_u64().unwrap();
    assert!(range.contains(&(at as u64)) && range.end - range.start < 500, "{damage}");
    let [queue] = &damage["queues"].as_array().expect("a list")[..] else { panic!("{damage:#}") };
    assert_eq!((queue["vhost"].as_str(), queue["name"].as_str()), (Some("/"), Some("events")));
    assert_eq!(queue["numbers"], serde_json::json!([[number, number]]));
    assert_eq!(report["messages_lost"], 1);
    let (status, text, _) = text(directory.path());
    assert_eq!(status, 1);
    let line = format!("    queue 'events' in vhost '/' (log {}): 1 message ({number})\n", queue["log"]);
    assert!(text.contains(&line), "{line} in {text}");

    assert!(files(directory.path()) == before, "the original was changed");
    let (status, checked) = verify(&copy, &[]);
    assert_eq!((status, &checked["messages"]), (0, &report["messages_copied"]), "{checked:#}");
    let mut expected = recorded();
    *expected.get_mut("events").expect("a queue") -= 1;
    assert_eq!(messages(&directory, &copy), expected);
}

#[test]
fn a_sound_directory_is_copied_whole() {
    if is_given() {
        return;
    }
    for kind in ["clean", "crash"] {
        let directory = unpack(&fixture(&format!("data-1/{kind}")));
        let parent = new_directory();
        let copy = parent.path().join("copy");
        let (_, report) = verify(directory.path(), &["--repair-to", copy.to_str().expect("a path of text")]);
        assert_eq!(report["messages_lost"], 0, "{report:#}");
        let recorded = fs::read_to_string(fixture(&format!("data-1/{kind}")).join("queues.json")).expect("counts");
        assert_eq!(messages(&directory, &copy), serde_json::from_str(&recorded).expect("JSON"));
    }
}

#[test]
fn a_missing_segment_names_the_messages_that_were_in_it() {
    if is_given() {
        return;
    }
    let directory = unpack(&fixture("data-1/clean"));
    let (file, _, number) = stored(directory.path(), "events");
    fs::remove_file(directory.path().join("store").join(&file)).expect("removes");
    let (status, report) = verify(directory.path(), &[]);
    assert_eq!(status, 1);
    let damaged = report["damaged"].as_array().expect("a list");
    assert!(
        damaged.iter().any(|damage| damage["file"] == *file && damage["reason"].as_str().unwrap().contains("missing"))
    );
    let queues = damaged.iter().flat_map(|damage| damage["queues"].as_array().unwrap());
    let mut events =
        queues.filter(|queue| queue["name"] == "events").flat_map(|queue| queue["numbers"].as_array().unwrap());
    assert!(
        events.any(|range| (range[0].as_u64().unwrap()..=range[1].as_u64().unwrap()).contains(&number)),
        "{report:#}"
    );
}

#[test]
fn an_uncheckable_directory_gives_a_reason_and_exit_code_2() {
    if is_given() {
        return;
    }
    let empty = new_directory();
    let (status, out, problem) = text(empty.path());
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(problem.ends_with("is not a data directory: it has no directory `store`\n"), "{problem}");
    let (status, _, problem) = text(&empty.path().join("nothing"));
    assert_eq!(status, 2);
    assert!(problem.contains("No such file or directory"), "{problem}");

    let node = Node::start(Options::new());
    let (status, _, problem) = text(node.directory());
    assert_eq!(status, 2);
    assert!(problem.contains(&format!("is in use by process {}", node.ports().pid)), "{problem}");
    drop(node);

    let newer = unpack(&fixture("data-1/clean"));
    let (name, mut content) =
        files(newer.path()).into_iter().find(|(name, _)| name.starts_with("checkpoint-")).expect("a checkpoint");
    content[4] = 2;
    let crc = crc32c(&content[..92]);
    content[92..96].copy_from_slice(&crc.to_le_bytes());
    put(newer.path(), &name, &content);
    let (status, _, problem) = text(newer.path());
    assert_eq!(status, 2);
    assert!(problem.contains(&format!("{name} has format version 2, this version reads 1")), "{problem}");

    let taken = unpack(&fixture("data-1/clean"));
    let (status, _, problem) =
        run(&["verify", taken.path().to_str().unwrap(), "--repair-to", newer.path().to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(problem.contains("it is there and not empty"), "{problem}");
}

#[test]
fn a_dump_shows_the_requested_records() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, "shown", true);
    wire.declare(1, "other", true);
    wire.confirm_select(1);
    for (queue, body) in [("shown", "first"), ("other", "second"), ("shown", "third")] {
        wire.send(&publish(1, "", queue, body.as_bytes(), true, true));
        wire.confirms(1);
    }
    wire.close();
    assert!(node.terminate().success());
    let all = records(node.directory(), "shown");
    let bodies: Vec<_> =
        all.iter().filter(|record| record["kind"] == "message").map(|record| &record["body"]).collect();
    assert_eq!(bodies, ["first", "third"]);
    let path = node.directory().to_str().expect("a path of text");
    let dump = |more: &[&str]| run(&[&["log", "dump", path], more].concat()).1;
    let from = dump(&["--queue", "shown", "--from", "1"]);
    assert!(from.contains("number=1 ") && !from.contains("number=0 "), "{from}");
    assert!(!from.contains("third"), "bodies are shown when asked for");
    assert_eq!(dump(&["--limit", "1"]).matches(" record ").count(), 1);
    let file = dump(&["wal-0000-0000000000000001"]);
    assert!(file.starts_with("wal-0000-0000000000000001 file "), "{file}");
    let (status, _, problem) = run(&["log", "dump", path, "wal-9"]);
    assert_eq!(status, 2);
    assert!(problem.contains("wal-9"), "{problem}");
}

/// Names with control characters. AMQP 0-9-1 removes line ends from queues' names only.
const UNRULY: &str = "a\r\n\u{1b}[31mb\u{9b}";

#[test]
fn control_characters_in_names_are_never_printed_raw() {
    if is_given() {
        return;
    }
    let mut node = Node::start(Options::new());
    let mut wire = Wire::open(node.amqp());
    wire.declare(1, UNRULY, true);
    wire.confirm_select(1);
    let queue = "a\u{1b}[31mb\u{9b}";
    wire.send(&publish(1, "", queue, UNRULY.as_bytes(), true, true));
    wire.confirms(1);
    wire.close();
    let binding = serde_json::json!({"routing_key": UNRULY, "arguments": {UNRULY: UNRULY}});
    let path = "/api/bindings/%2F/e/amq.direct/q/a%1B%5B31mb%C2%9B";
    assert_eq!(node.http().post(path, &binding).expect("an answer").status, 201);
    let path = node.directory().to_str().expect("a path of text").to_owned();
    let lists = ["list_queues", "list_bindings"].iter().flat_map(|list| {
        ["table", "pretty_table", "csv", "json", "erlang"].map(|formatter| {
            let (status, out, problem) = run(&["ctl", "--data-dir", &path, list, "--formatter", formatter]);
            assert_eq!(status, 0, "{problem}");
            out
        })
    });
    let mut shown: Vec<String> = lists.collect();
    assert!(node.terminate().success());
    for format in ["text", "json"] {
        let dump = ["log", "dump", &path, "--bodies", "--format", format];
        shown.extend([&dump[..], &["verify", &path, "--format", format]].map(|words| run(words).1));
    }
    let (file, at, _) = first_message(node.directory());
    let mut content = files(node.directory()).remove(&file).expect("the file");
    content[at] ^= 0x20;
    put(node.directory(), &file, &content);
    for format in ["text", "json"] {
        shown.push(run(&["verify", &path, "--format", format]).1);
    }
    let named = |text: &String| text.contains(r"\u001b[31mb\u009b");
    assert_eq!(shown.iter().filter(|text| named(text)).count(), 10 + 2 + 2, "{shown:#?}");
    for text in shown {
        let raw = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        assert!(!text.contains(raw), "{text:?}");
        assert!(!text.contains("a\n"), "a name is in one line: {text}");
    }
}

/// The file of the first message of a directory, the end of its record and its number.
fn first_message(directory: &Path) -> (String, usize, u64) {
    let path = directory.to_str().expect("a path of text");
    let (_, lines, _) = run(&["log", "dump", path, "--format", "json"]);
    let mut records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let record = records.find(|record| record["kind"] == "message").expect("a message");
    let number = |key: &str| record[key].as_u64().expect("a number");
    let end = usize::try_from(number("offset") + 12 + number("length") - 1).expect("small");
    (record["file"].as_str().expect("a name").to_owned(), end, number("number"))
}

/// The entries of a checkpoint: log and offset.
fn entries(content: &[u8]) -> Vec<(u64, usize)> {
    let number = |at: usize| u64::from_le_bytes(*content[at..].first_chunk().expect("a number"));
    let [segments, logs] =
        [64, 68].map(|at| u32::from_le_bytes(*content[at..].first_chunk().expect("a number")) as usize);
    let mut at = 96 + 16 * segments;
    let mut entry = || {
        let found = (number(at), at);
        at += 64 + (number(at + 32) + number(at + 40)) as usize;
        found
    };
    (0..logs).map(|_| entry()).collect()
}

#[test]
fn a_wrong_head_of_an_entry_stops_no_queue_with_another_one() {
    if is_given() {
        return;
    }
    let recorded = recorded();
    let (name, content) = files(unpack(&fixture("data-1/clean")).path())
        .into_iter()
        .find(|(name, _)| name.starts_with("checkpoint-"))
        .expect("one");
    let entries = entries(&content);
    let queues_with: Vec<u64> = entries.iter().map(|(log, _)| *log).collect();
    let mut hit = 0;
    for (log, at) in entries.iter().filter(|(log, _)| ![0, u64::MAX].contains(log)) {
        for wrong in [1, 16] {
            let directory = unpack(&fixture("data-1/clean"));
            let mut damaged = content.clone();
            damaged[at + 17..][..wrong].iter_mut().for_each(|byte| *byte ^= 4);
            put(directory.path(), &name, &damaged);
            let parent = new_directory();
            let copy = parent.path().join("copy");
            let (status, report) = verify(directory.path(), &["--repair-to", copy.to_str().expect("a path of text")]);
            assert_eq!((status, &report["start_refused"]), (1, &Value::Null), "{report:#}");
            let found = report["damaged"].as_array().expect("a list");
            let is_named = |damage: &&Value| damage["from_byte"] == *at && damage["file"] == *name;
            let damage = found.iter().find(is_named).unwrap_or_else(|| panic!("{report:#}"));
            // Of a single wrong byte it is known which one it should be. Else it may also be a queue without an entry.
            let queues = damage["queues"].as_array().expect("a list");
            let hits = |queue: &Value| queue["log"] == *log;
            assert_eq!(queues.iter().any(hits), wrong > 1, "{damage:#}");
            assert!(
                queues.iter().all(|queue| hits(queue) || !queues_with.iter().any(|log| queue["log"] == *log)),
                "{damage:#}"
            );
            let is_hit = |name: &str| queues.iter().any(|queue| queue["name"] == name);
            let unattributed = report["shared_messages_unattributed"].as_u64().expect("a number");
            let saved = messages(&directory, &copy);
            for (name, count) in &recorded {
                match is_hit(name) {
                    true => assert!(
                        saved[name] + unattributed >= *count,
                        "{name}: {} and {unattributed} of {count}",
                        saved[name]
                    ),
                    false => assert_eq!(saved[name], *count, "{name}, with log {log} damaged"),
                }
            }
            hit += queues.len();
        }
    }
    assert!(hit >= 3, "{hit}");
}
