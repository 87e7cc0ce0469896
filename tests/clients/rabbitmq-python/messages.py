"""Publishing and consuming."""

import uuid

from session import *


def publish():
    name, address = queue()
    connection = connect()
    accepted(connection.publisher(address), *(text(body) for body in texts(0, 100)))
    equal(count(name), 100, "messages")
    receiver = Receiver(connection, address)
    for body in texts(0, 100):
        received = receiver.take()[0]
        equal((bodies([received]), received.message.durable), ([body], True), "the message")
        received.accept()


def many_links():
    connection = connect()
    links = []
    for number in range(50):
        _, address = queue(str(number))
        links.append((connection.publisher(address), Receiver(connection, address)))
    for number, (publisher, _) in enumerate(links):
        accepted(publisher, text(f"for {number}"))
    for number, (_, receiver) in enumerate(links):
        received = receiver.take()[0]
        equal(bodies([received]), [f"for {number}"], "the message of a link")
        received.accept()


def exchange_target():
    name, address = queue()
    exchange, fanout, key = f"{prefix}.x ä/%", f"{prefix}.f", "k ü/?&"
    peer("exchange", exchange=exchange, type="direct")
    peer("exchange", exchange=fanout, type="fanout")
    peer("bind", queue=name, exchange=exchange, key=key)
    peer("bind", queue=name, exchange=fanout, key="")
    connection = connect()
    # The library's own encoding takes characters, not their bytes, so that the umlauts are encoded here.
    target = f"/exchanges/{prefix}.x%20%C3%A4%2F%25/k%20%C3%BC%2F%3F%26"
    accepted(connection.publisher(target), text("direct"))
    annotations = get(connection, address).message.annotations
    equal((annotations["x-exchange"], annotations["x-routing-key"]), (exchange, key), "annotations")
    accepted(connection.publisher(AddressHelper.exchange_address(fanout)), text("fanout"))
    equal(get(connection, address).message.annotations["x-exchange"], fanout, "fanout")


def anonymous_terminus():
    name, address = queue()
    peer("bind", queue=name, exchange="amq.direct", key=f"{prefix}.k")
    publisher = connect().publisher()

    def to(target):
        return AddressHelper.message_to_address_helper(text("x"), target)

    accepted(publisher, to(address), to(AddressHelper.exchange_address("amq.direct", f"{prefix}.k")))
    fails("RELEASED", lambda: publisher.publish(to(AddressHelper.exchange_address("amq.direct", f"{prefix}.no"))))
    fails("RELEASED", lambda: publisher.publish(to(AddressHelper.queue_address(f"{prefix}.missing"))))
    fails(f"no exchange '{prefix}.missing'",
          lambda: publisher.publish(to(AddressHelper.exchange_address(f"{prefix}.missing", "k"))))
    accepted(publisher, to(address))
    equal(count(name), 3, "messages")


def unroutable():
    name, _ = queue()
    publisher = connect().publisher(AddressHelper.exchange_address("amq.direct", f"{prefix}.nowhere"))
    fails("RELEASED", lambda: publisher.publish(text("lost")))
    peer("bind", queue=name, exchange="amq.direct", key=f"{prefix}.nowhere")
    accepted(publisher, text("found"))
    equal(count(name), 1, "messages")


def rejected():
    _, address = queue(x_max_length=1, x_overflow="reject-publish")
    publisher = connect().publisher(address)
    accepted(publisher, text("x"))
    fails("exceeded maximum length", lambda: [publisher.publish(text("x")) for _ in range(9)])


def sections():
    name, address = queue()
    sent = text(
        "inhalt ✓", priority=7, ttl=600, annotations={"x-s": "note ✓"}, id="id ✓", user_id=b"guest", subject="subject",
        reply_to="/queues/answers", correlation_id="correlation ✓", content_type="text/plain",
        content_encoding="utf-8", creation_time=1_700_000_000.0, group_id="group", group_sequence=7,
        reply_to_group_id="back",
        application_properties={"true": True, "int": 5, "double": 2.5, "string ключ": "wert ✓ 𝄞", "uuid": uuid.UUID(int=77)})
    connection = connect()
    accepted(connection.publisher(address), sent)
    got = get(connection, address).message
    for field in ("body", "durable", "priority", "id", "user_id", "subject", "reply_to", "correlation_id",
                  "content_type", "content_encoding", "creation_time", "group_id", "group_sequence",
                  "reply_to_group_id", "application_properties"):
        equal(getattr(got, field), getattr(sent, field), field)
    check(0 < got.ttl <= 600, f"ttl {got.ttl}")
    equal((got.annotations["x-s"], got.annotations["x-exchange"], got.annotations["x-routing-key"]),
          ("note ✓", "", name), "annotations")


def message_ids():
    _, address = queue()
    connection = connect()
    publisher = connection.publisher(address)
    for identifier in ("text ✓", uuid.UUID(int=77), b"\x00\xff"):
        accepted(publisher, text("x", id=identifier, correlation_id=identifier))
        message = get(connection, address).message
        equal((message.id, message.correlation_id), (identifier, identifier), "ids")


def outcomes():
    name, address = queue()
    connection = connect()
    publisher = connection.publisher(address)
    receiver = Receiver(connection, address)
    accepted(publisher, text("1"), text("2"), text("3"))
    first, second, third = receiver.take(3)
    first.accept()
    second.discard()
    third.requeue()
    again = receiver.take()[0]
    equal((bodies([again]), again.message.delivery_count, again.message.first_acquirer), (["3"], 0, False), "released")
    # modified with annotations, which classic queues leave out
    again.context.requeue_with_annotations(again, {symbol("x-opt-a"): "b"})
    again = receiver.take()[0]
    equal(bodies([again]), ["3"], "modified")
    again.context.discard_with_annotations(again, {symbol("x-opt-a"): "b"})
    accepted(publisher, text("4"))
    last = receiver.take()[0]
    equal(bodies([last]), ["4"], "after the discarded one")
    last.accept()
    receiver.close()
    equal(count(name), 0, "messages")


def dead_letter():
    dead, dead_address = queue("dead")
    name, address = queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection = connect()
    accepted(connection.publisher(address), text("rejected"), text("undeliverable"))
    receiver = Receiver(connection, address)
    first, second = receiver.take(2)
    first.discard()
    second.context.discard_with_annotations(second, {symbol("x-opt-a"): "b"})
    for body in ("rejected", "undeliverable"):
        received = get(connection, dead_address)
        equal(bodies([received]), [body], "the dead letter")
        death = received.message.annotations["x-opt-deaths"].elements[0]
        equal((death["queue"], death["reason"], death["count"], death["exchange"]), (name, "rejected", 1, ""), "death")


def ttl():
    dead, dead_address = queue("dead")
    name, address = queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    connection = connect()
    publisher = connection.publisher(address)
    accepted(publisher, text("short", ttl=0.001))
    received = get(connection, dead_address)
    equal(received.message.annotations["x-first-death-reason"], "expired", "reason")
    accepted(publisher, text("long", ttl=600), text("plain", durable=False), text("high", priority=9))
    receiver = Receiver(connection, address)
    long, plain, high = (received.message for received in receiver.take(3))
    check(0 < long.ttl <= 600, f"ttl {long.ttl}")
    equal((long.durable, plain.durable, plain.priority, high.priority), (True, False, 4, 9), "headers")


def detach_requeues():
    _, address = queue()
    connection = connect()
    accepted(connection.publisher(address), *(text(body) for body in texts(0, 10)))
    for _ in range(2):
        receiver = Receiver(connection, address)
        equal(bodies(receiver.take(10)), texts(0, 10), "all ten in order")
        receiver.close()
    other = connect()
    equal(bodies(Receiver(other, address).take(10)), texts(0, 10), "all ten in order")
    other.close()
    equal(bodies(Receiver(connection, address).take(10)), texts(0, 10), "all ten in order")


def settled_receive():
    name, address = queue()
    connection = connect()
    accepted(connection.publisher(address), *(text(body) for body in texts(0, 10)))
    receiver = Receiver(connection, address, ConsumerOptions(settle_strategy=ConsumerSettleStrategy.PreSettled))
    taken = receiver.take(10)
    equal(bodies(taken), texts(0, 10), "bodies in order")
    check(all(received.delivery.settled for received in taken), "a delivery isn't settled")
    receiver.close()
    equal(count(name), 0, "messages")


def two_receivers():
    connection = connect()
    links = []
    for name in ("a", "b"):
        _, address = queue(name)
        links.append((connection.publisher(address), Receiver(connection, address)))
    for number in range(100):
        for mark, (publisher, receiver) in enumerate(links):
            accepted(publisher, text(f"{mark} {number}"))
    for mark, (_, receiver) in enumerate(links):
        for number in range(100):
            received = receiver.take()[0]
            equal(bodies([received]), [f"{mark} {number}"], "a link's own message")
            received.accept()


def direct_reply_to():
    _, requests = queue("requests")
    client, server = connect(), connect()
    answers = Receiver(client, None, ConsumerOptions(settle_strategy=ConsumerSettleStrategy.DirectReplyTo))
    asking, asked, answering = client.publisher(requests), Receiver(server, requests), server.publisher()
    for number in range(3):
        accepted(asking, text(f"question {number}", id=f"m{number}", reply_to=answers.consumer.address))
        question = asked.take()[0]
        accepted(answering, text(f"answer {number}", address=question.message.reply_to,
                                 correlation_id=question.message.id))
        question.accept()
        received = answers.take()[0]
        equal((bodies([received]), received.message.correlation_id), ([f"answer {number}"], f"m{number}"), "the answer")


def from_091():
    name, address = queue()
    peer("sample", queue=name)
    message = get(connect(), address).message
    equal((message.durable, message.priority, message.id, message.correlation_id), (True, 5, "message", "correlation"),
          "header and ids")
    equal((message.content_type, message.content_encoding, message.reply_to, message.group_id, message.user_id),
          ("text/plain", "utf-8", "/queues/answers", "app", b"guest"), "properties")
    equal(message.creation_time, 1_700_000_000, "creation time")
    equal((message.annotations["x-a"], message.annotations["x-basic-type"]), ("note", "kind"), "annotations")
    equal((message.application_properties, bytes(message.body).decode()), ({"b": 7, "c": "ключ"}, "body ✓"), "content")


def to_091():
    name, address = queue()
    properties = {"s": "text ✓", "i": 5, "t": True, "l": 2**40}
    accepted(connect().publisher(address), text(
        "body ✓", priority=5, id="message", correlation_id="correlation", content_type="text/plain",
        creation_time=1_700_000_000.0, reply_to="/queues/answers", group_id="group", user_id=b"guest",
        annotations={"x-a": "note"}, application_properties=properties))
    got = peer("get", queue=name)
    equal((got["body"], got["key"], got["redelivered"]), ("body ✓", name, False), "delivery")
    expected = {"delivery_mode": 2, "priority": 5, "message_id": "message", "correlation_id": "correlation",
                "content_type": "text/plain", "timestamp": 1_700_000_000, "reply_to": "answers", "app_id": "group",
                "user_id": "guest"}
    for key, value in expected.items():
        equal(got["properties"].get(key), value, key)
    for key, value in {**properties, "x-a": "note"}.items():
        equal(got["properties"]["headers"].get(key), value, f"header {key}")


def reconnect():
    name, address = queue()
    connection = connect()
    publisher = connection.publisher(address)
    accepted(publisher, text("before"))
    equal(ask("ready kill"), "go", "control")
    fails("", lambda: publisher.publish(text("lost")))
    connection = connect()
    equal(count(name), 1, "messages after the restart")
    equal(bodies([get(connection, address)]), ["before"], "the message")
    accepted(connection.publisher(address), text("after"))
    equal(bodies([get(connection, address)]), ["after"], "a message of the second life")
