//! Answers to decisions about messages of replicated queues, across changes of the leader.

use leveret_amqp10::{DeliveryState, Role};
use leveret_strict_client::amqp10::Event;
use leveret_tests::amqp10::Amqp10;
use leveret_tests::wire::Wire;

use crate::replicated::{NumberPublisher, known_leader, leader, with_queue};

/// Accepts a message unsettled: the broker settles it once that is for good.
fn accept_unsettled(receiver: &mut Amqp10, id: leveret_amqp10::Serial) {
    receiver.client.dispose(0, id, id, false, Some(DeliveryState::Accepted));
    receiver.flush();
}

fn wait_settled(receiver: &mut Amqp10, id: leveret_amqp10::Serial) {
    // One disposition may settle several.
    while receiver.client.is_unsettled(0, id) {
        receiver.wait("a settled message", |event| {
            matches!(event, Event::Disposition { role: Role::Sender, settled: true, .. })
        });
    }
}

#[test]
fn unsettled_outcomes_are_answered_whoever_leads() {
    let mut cluster = with_queue("q");
    let leader_at = known_leader(&cluster, 0, "q");
    let (one, other) = ((leader_at + 1) % 3, (leader_at + 2) % 3);
    NumberPublisher::open(&cluster, one).publish(0..4);
    let mut receiver = Amqp10::open(cluster.nodes[other].amqp());
    receiver.receiver(1, "/queues/q", 4);
    let ids: Vec<_> = (0..4).map(|_| receiver.receive(1).delivery_id()).collect();
    accept_unsettled(&mut receiver, ids[0]);
    wait_settled(&mut receiver, ids[0]);
    // This one goes to a leader that is about to be gone, or to none.
    accept_unsettled(&mut receiver, ids[1]);
    cluster.nodes[leader_at].kill();
    accept_unsettled(&mut receiver, ids[2]);
    wait_settled(&mut receiver, ids[1]);
    wait_settled(&mut receiver, ids[2]);
    cluster.wait_until("another one leads", |cluster| leader(cluster, other, "q").is_some_and(|at| at != leader_at));
    receiver.close();
    cluster.wait_until("the last message is the only one", |cluster| {
        Wire::open(cluster.nodes[one].amqp()).message_count(1, "q") == 1
    });
}
