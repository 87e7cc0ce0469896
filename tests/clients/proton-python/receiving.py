"""Receivers: outcomes, credit, and what becomes of a message that isn't accepted."""

from session import *
from proton import int32


def counts(received):
    message = received.message
    return bytes(message.body).decode(), message.delivery_count, message.first_acquirer


def outcomes():
    name, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text(body) for body in texts(1, 6)])
    receiver = connection.receiver(address)
    receiver.flow(1)
    one = connection.take(receiver)[0]
    equal(counts(one), ("1", 0, True), "the first")
    one.settle(ACCEPTED)
    receiver.flow(1)
    two = connection.take(receiver)[0]
    two.settle(REJECTED)
    receiver.flow(1)
    three = connection.take(receiver)[0]
    equal(counts(three), ("3", 0, True), "before it is released")
    three.settle(RELEASED)
    connection.flush()
    receiver.flow(1)
    three = connection.take(receiver)[0]
    equal(counts(three), ("3", 0, False), "after it was released")
    three.modify(failed=True)
    connection.flush()
    receiver.flow(1)
    three = connection.take(receiver)[0]
    equal(counts(three), ("3", 1, False), "after a failure")
    three.settle(ACCEPTED)
    receiver.flow(1)
    four = connection.take(receiver)[0]
    equal(counts(four), ("4", 0, True), "the fourth")
    four.modify(failed=True, undeliverable=True)
    receiver.flow(1)
    five = connection.take(receiver)[0]
    equal(counts(five), ("5", 0, True), "the fifth")
    five.settle(ACCEPTED)
    connection.nothing_comes(receiver, "after the last")
    equal(count(name), 0, "messages")


def dead_letter():
    dead, dead_address = queue("dead")
    name, address = queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection = Connection()
    connection.accept_all(connection.sender(address), [text("rejected"), text("undeliverable")])
    receiver = connection.receiver(address)
    receiver.flow(2)
    first, second = connection.take(receiver, 2)
    first.settle(REJECTED)
    second.modify(undeliverable=True)
    for body in ("rejected", "undeliverable"):
        received = connection.get(dead_address)
        equal(bodies_of([received]), [body], "the dead letter")
        dead_lettered(received, name, "rejected")
    equal(count(name), 0, "messages")


def dead_lettered(received, name, reason):
    annotations = received.message.annotations
    deaths = annotations["x-opt-deaths"].elements
    equal(len(deaths), 1, "deaths")
    death = dict(deaths[0])
    equal((death["queue"], death["reason"], death["count"], death["exchange"], list(death["routing-keys"].elements)),
          (name, reason, 1, "", [name]), "death")
    for when in ("first", "last"):
        equal((annotations[f"x-{when}-death-queue"], annotations[f"x-{when}-death-reason"],
               annotations[f"x-{when}-death-exchange"]), (name, reason, ""), f"{when} death")


def ttl():
    dead, dead_address = queue("dead")
    name, address = queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection = Connection()
    sender = connection.sender(address)
    connection.accept_all(sender, [text("short", ttl=0.001)])
    received = connection.get(dead_address)
    dead_lettered(received, name, "expired")
    equal((bodies_of([received]), received.message.ttl), (["short"], 0), "the dead letter has no ttl")
    connection.accept_all(sender, [text("long", ttl=600), text("plain", durable=False), text("high", priority=9)])
    long, plain, high = (connection.get(address).message for _ in range(3))
    check(0 < long.ttl <= 600, f"ttl {long.ttl}")
    equal((long.durable, plain.durable), (True, False), "durable")
    equal((plain.priority, high.priority, plain.ttl), (4, 9, 0), "priority and ttl")


def detach_requeues():
    _, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text(body) for body in texts(0, 10)])

    def ten(connection, session=None):
        receiver = connection.receiver(address, session)
        receiver.flow(10)
        equal(bodies_of(connection.take(receiver, 10)), texts(0, 10), "all ten in order")
        return receiver

    connection.detach(ten(connection))
    receiver = ten(connection)
    receiver.detach()
    connection.wait(lambda: ended(receiver) or receiver.name in connection.detached, "detach without close")
    session = connection.begin()
    ten(connection, session)
    connection.end(session)
    other = Connection()
    ten(other)
    other.close()
    ten(connection)


def credit():
    name, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    connection.accept_all(sender, [text(body) for body in texts(0, 20)])
    receiver = connection.receiver(address)
    receiver.flow(1)
    taken = connection.take(receiver)
    equal(bodies_of(taken), texts(0, 1), "with credit 1")
    taken[0].settle(ACCEPTED)
    # The queue takes this confirmed message in after the settlement: had that granted anything, it would show.
    connection.accept_all(sender, [text("20")])
    equal((len(connection.inbox[receiver.name]), count(name)), (0, 20), "after settling")
    receiver.flow(10)
    taken = connection.take(receiver, 10)
    equal(bodies_of(taken), texts(1, 11), "with credit 10")
    for received in taken:
        received.settle(ACCEPTED)
    connection.accept_all(sender, [text("21")])
    equal((len(connection.inbox[receiver.name]), count(name)), (0, 11), "after settling ten")
    receiver.flow(20)
    equal(bodies_of(connection.take(receiver, 11)), texts(11, 22), "with credit 20")
    connection.accept_all(sender, [text("22")])
    equal(bodies_of(connection.take(receiver)), ["22"], "a new message for credit that is left")


def drain():
    _, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    connection.accept_all(sender, [text(body) for body in texts(0, 3)])
    receiver = connection.receiver(address)
    equal(bodies_of(connection.drain(receiver, 10)), texts(0, 3), "what a drain brings")
    equal(receiver.credit, 0, "credit after a drain")
    equal(connection.drain(receiver, 5), [], "the drain of an empty queue")
    equal(receiver.credit, 0, "credit after the second drain")
    connection.accept_all(sender, [text("3")])
    equal(len(connection.inbox[receiver.name]), 0, "deliveries without credit")
    receiver.drain_mode = False
    receiver.flow(1)
    equal(bodies_of(connection.take(receiver)), ["3"], "with new credit")


def settled_receive():
    name, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text(body) for body in texts(0, 10)])

    def settled(link):
        link.snd_settle_mode = Link.SND_SETTLED

    receiver = connection.receiver(address, prepare=settled)
    equal(receiver.remote_snd_settle_mode, Link.SND_SETTLED, "settle mode of the answer")
    receiver.flow(11)
    taken = connection.take(receiver, 10)
    equal(bodies_of(taken), texts(0, 10), "bodies in order")
    check(all(received.delivery.settled for received in taken), "a delivery isn't settled")
    connection.detach(receiver)
    equal(count(name), 0, "messages")


def two_receivers():
    connection = Connection()
    links = []
    for name in ("a", "b"):
        _, address = queue(name)
        receiver = connection.receiver(address)
        receiver.flow(10)
        links.append((connection.sender(address), receiver))
    for mark, (sender, _) in enumerate(links):
        connection.accept_all(sender, [text(f"{mark} {number}") for number in range(200)])
    for mark, (_, receiver) in enumerate(links):
        for number in range(200):
            check(len(connection.inbox[receiver.name]) <= 10, "more than the credit")
            received = connection.take(receiver)[0]
            equal(bodies_of([received]), [f"{mark} {number}"], "a link's own message")
            received.settle(ACCEPTED)
            receiver.flow(1)
    _, address = queue("both")
    receivers = [connection.receiver(address) for _ in range(2)]
    for receiver in receivers:
        receiver.flow(10)
    connection.accept_all(connection.sender(address), [text(body) for body in texts(0, 20)])
    seen = []
    for receiver in receivers:
        taken = connection.take(receiver, 10)
        seen += bodies_of(taken)
        for received in taken:
            received.settle(ACCEPTED)
    equal(sorted(seen, key=int), texts(0, 20), "shared messages")


def consumer_priority():
    _, address = queue()
    connection = Connection()

    def higher(link):
        link.properties = {symbol("rabbitmq:priority"): int32(5)}

    low, high = connection.receiver(address), connection.receiver(address, prepare=higher)
    low.flow(10)
    high.flow(10)
    sender = connection.sender(address)
    connection.accept_all(sender, [text(body) for body in texts(0, 10)])
    equal(bodies_of(connection.take(high, 10)), texts(0, 10), "the higher priority")
    equal(len(connection.inbox[low.name]), 0, "deliveries to the lower priority")
    connection.accept_all(sender, [text(body) for body in texts(10, 15)])
    equal(bodies_of(connection.take(low, 5)), texts(10, 15), "the lower priority")


def backlog():
    number = 20_000
    name, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    sent = []
    settled = 0
    while settled < number:
        connection.wait(lambda: sender.credit > 0 and len(sent) < number or sent[settled].remote_state != 0, "progress")
        while sender.credit > 0 and len(sent) < number:
            sent.append(sender.send(text(str(len(sent)))))
        while settled < len(sent) and sent[settled].remote_state != 0:
            equal(sent[settled].remote_state, ACCEPTED, "outcome")
            sent[settled].settle()
            settled += 1
    equal(count(name), number, "messages")
    receiver = connection.receiver(address)
    receiver.flow(100)
    seen = 0
    while seen < number:
        taken = connection.take(receiver)
        taken += connection.take(receiver, len(connection.inbox[receiver.name]))
        equal(bodies_of(taken), texts(seen, seen + len(taken)), "in order")
        for received in taken:
            received.settle(ACCEPTED)
        seen += len(taken)
        receiver.flow(len(taken))
    connection.nothing_comes(receiver, "after the last")
    equal(count(name), 0, "messages")
