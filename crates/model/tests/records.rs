//! Records of queues, byte for byte: records of earlier releases are readable, and those of classic queues are
//! unchanged.

use std::sync::Arc;

use leveret_model::{
    Arguments, Command, DeclareQueue, Home, MemberNumber, Model, Permit, Queue, QueueId, QueueType, Submitted, Value,
};

/// A record of a release without types and homes of queues.
const OLD: &[u8] = b"\x01[{\"queue\":{\"id\":1,\"vhost\":\"/\",\"name\":\"q\",\"durable\":true,\"auto_delete\":false,\
\"arguments\":{\"x-queue-type\":{\"String\":\"classic\"}}}}]";

fn declared(model: &mut Model, arguments: Arguments) -> Submitted {
    let declare = DeclareQueue::durable("/".into(), "q".into(), arguments);
    model.submit(Permit::system(), Command::DeclareQueue(declare)).expect("is taken")
}

fn replayed(record: &[u8]) -> (Model, Arc<Queue>) {
    let mut model = Model::new();
    model.replay(record).expect("is a record");
    let queue = model.topology().queue("/", "q").expect("is there").clone();
    (model, queue)
}

#[test]
fn the_record_of_a_classic_queue_is_unchanged() {
    for arguments in [Arguments::default(), Arguments::from_iter([("x-queue-type", Value::string("classic"))])] {
        let record = declared(&mut Model::new(), arguments).record.expect("is logged");
        assert_eq!(String::from_utf8_lossy(&record), String::from_utf8_lossy(OLD));
    }
}

#[test]
fn a_queue_of_an_old_record_is_classic_and_at_home_on_this_node() {
    let (model, queue) = replayed(OLD);
    assert_eq!((queue.id, queue.queue_type(), queue.home), (QueueId(1), QueueType::Classic, Home::default()));
    assert_eq!(queue.home, Home::Owner(MemberNumber(0)));
    let snapshot = String::from_utf8(model.snapshot()).expect("JSON");
    assert!(!snapshot.contains("\"type\"") && !snapshot.contains("\"home\""), "{snapshot}");
    let restored = Model::restore(snapshot.as_bytes()).expect("is a snapshot");
    assert_eq!(restored.topology().queue("/", "q"), Some(&queue));
}

#[test]
fn type_and_home_survive_a_snapshot() {
    let record = String::from_utf8_lossy(OLD)
        .replace("\"arguments\"", "\"type\":\"quorum\",\"home\":{\"owner\":65535},\"arguments\"");
    let (model, queue) = replayed(record.as_bytes());
    assert_eq!((queue.queue_type(), queue.home), (QueueType::Quorum, Home::Owner(MemberNumber(u16::MAX))));
    assert_eq!(queue.options.queue_type, QueueType::Quorum);
    let restored = Model::restore(&model.snapshot()).expect("is a snapshot");
    assert_eq!(restored.topology().queue("/", "q"), Some(&queue));
}

#[test]
fn a_record_with_an_unknown_type_or_home_is_refused() {
    for unknown in ["\"type\":\"mirrored\"", "\"type\":null", "\"home\":{\"moon\":1}", "\"home\":{\"owner\":65536}"] {
        let record = String::from_utf8_lossy(OLD).replace("\"arguments\"", &format!("{unknown},\"arguments\""));
        assert!(Model::new().replay(record.as_bytes()).is_err(), "{unknown}");
    }
}
