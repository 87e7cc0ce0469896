"""Senders and the outcomes that they get."""

from urllib.parse import quote

from session import *
from proton import Condition


def publish():
    name, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text(body) for body in texts(0, 100)])
    equal(count(name), 100, "messages")
    receiver = connection.receiver(address)
    receiver.flow(100)
    taken = connection.take(receiver, 100)
    equal(bodies_of(taken), texts(0, 100), "bodies in order")
    check(all(received.message.durable for received in taken), "a durable flag is lost")


def settled_publish():
    _, address = queue()
    connection = Connection()

    def settled(link):
        link.snd_settle_mode = Link.SND_SETTLED

    sender = connection.sender(address, prepare=settled)
    for body in texts(0, 100):
        connection.wait(lambda: sender.credit > 0, "credit to send")
        delivery = sender.send(text(body))
        delivery.settle()
    receiver = connection.receiver(address)
    receiver.flow(102)
    equal(bodies_of(connection.take(receiver, 100)), texts(0, 100), "bodies in order")
    mixed = connection.sender(address)
    equal(mixed.remote_snd_settle_mode, Link.SND_MIXED, "settle mode of the answer")
    first = mixed.send(text("settled"))
    first.settle()
    equal(connection.send(mixed, text("unsettled")), ACCEPTED, "outcome")
    equal(bodies_of(connection.take(receiver, 2)), ["settled", "unsettled"], "mixed")


def exchange_target():
    name, address = queue()
    exchange, fanout = f"{prefix}.x ä/%", f"{prefix}.f"
    peer("exchange", exchange=exchange, type="direct")
    peer("exchange", exchange=fanout, type="fanout")
    peer("bind", queue=name, exchange=exchange, key="k ü/?&")
    peer("bind", queue=name, exchange=fanout, key="")
    connection = Connection()
    direct = f"/exchanges/{quote(exchange, safe='')}/{quote('k ü/?&', safe='')}"
    connection.accept_all(connection.sender(direct), [text("direct")])
    received = connection.get(address)
    annotations = received.message.annotations
    equal((annotations["x-exchange"], annotations["x-routing-key"]), (exchange, "k ü/?&"), "annotations")
    connection.accept_all(connection.sender(f"/exchanges/{fanout}"), [text("fanout")])
    received = connection.get(address)
    equal((bodies_of([received]), received.message.annotations["x-exchange"]), (["fanout"], fanout), "fanout")


def anonymous_terminus():
    name, address = queue()
    peer("bind", queue=name, exchange="amq.direct", key=f"{prefix}.k")
    connection = Connection()
    sender = connection.sender(None)

    def to(target):
        delivery = connection.send_all(sender, [text("x", address=target)])[0]
        return delivery.remote_state, delivery.remote.condition

    equal(to(address)[0], ACCEPTED, "to a queue")
    equal(to(f"/exchanges/amq.direct/{prefix}.k")[0], ACCEPTED, "to an exchange")
    equal(to(f"/exchanges/amq.direct/{prefix}.nowhere")[0], RELEASED, "without a binding")
    equal(to(f"/queues/{prefix}.missing")[0], RELEASED, "to a queue that isn't there")
    state, condition = to(f"/exchanges/{prefix}.missing/k")
    equal(state, REJECTED, "to an exchange that isn't there")
    is_condition(condition, "amqp:not-found", f"{prefix}.missing")
    for target in (None, "/nothing/x"):
        state, condition = to(target)
        equal(state, REJECTED, f"to {target}")
        is_condition(condition, "amqp:precondition-failed")
    equal(to(address)[0], ACCEPTED, "after the refusals")
    equal(count(name), 3, "messages")


def unroutable():
    name, _ = queue()
    connection = Connection()
    sender = connection.sender(f"/exchanges/amq.direct/{prefix}.nowhere")
    equal(connection.send(sender, text("lost")), RELEASED, "outcome")
    peer("bind", queue=name, exchange="amq.direct", key=f"{prefix}.nowhere")
    equal(connection.send(sender, text("found")), ACCEPTED, "outcome once bound")
    equal(count(name), 1, "messages")


def rejected():
    name, address = queue(x_max_length=1, x_overflow="reject-publish")
    connection = Connection()
    sender = connection.sender(address)
    for attempt in range(10):
        delivery = connection.send_all(sender, [text("x")])[0]
        if attempt == 0:
            equal(delivery.remote_state, ACCEPTED, "the first")
        if delivery.remote_state != ACCEPTED:
            break
    equal(delivery.remote_state, REJECTED, "outcome of the full queue")
    condition = delivery.remote.condition
    is_condition(condition, "amqp:resource-limit-exceeded")
    equal(dict(condition.info), {symbol("queue"): name, symbol("reason"): symbol("maxlen")}, "info")


def big_message():
    _, address = queue()
    connection = Connection(max_frame_size=4096)
    body = bytes((i * 7 + i // 251) % 256 for i in range(1024 * 1024))
    sender, receiver = connection.sender(address), connection.receiver(address)
    for _ in range(2):
        receiver.flow(2)
        connection.accept_all(sender, [Message(body=body, inferred=True, durable=True), text("small")])
        big, small = connection.take(receiver, 2)
        check(bytes(big.message.body) == body, "the big body differs")
        equal(bodies_of([small]), ["small"], "the small one")
        big.settle(ACCEPTED)
        small.settle(ACCEPTED)
