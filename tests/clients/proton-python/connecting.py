"""Connections and sessions."""

from session import *


def login():
    Connection().close()
    Connection(user=None, password=None, allowed_mechs="ANONYMOUS").close()
    refused = Connection(opened=False, password="wrong")
    condition = refused.await_end()
    is_condition(condition, "amqp:unauthorized-access", "uthentication failed")


def vhost():
    name, address = queue()
    connection = Connection(virtual_host="vhost:/")
    connection.accept_all(connection.sender(address), [text("here")])
    equal(count(name), 1, "messages")
    refused = Connection(opened=False, virtual_host="vhost:no such")
    refused.await_end()
    # RabbitMQ breaks the connection without a word.
    if refused.raw.remote_condition is not None and "aborted" not in refused.raw.remote_condition.description:
        is_condition(refused.raw.remote_condition, "amqp:unauthorized-access", "no such")


def sessions():
    connection = Connection()
    ends = []
    for name in ("a", "b"):
        session = connection.begin()
        _, address = queue(name)
        sender, receiver = connection.sender(address, session), connection.receiver(address, session)
        receiver.flow(20)
        ends.append((session, sender, receiver))
    for mark, (_, sender, receiver) in enumerate(ends):
        connection.accept_all(sender, [text(f"{mark} {number}") for number in range(10)])
    for mark, (_, _, receiver) in enumerate(ends):
        taken = connection.take(receiver, 10)
        equal(bodies_of(taken), [f"{mark} {number}" for number in range(10)], "messages of a session")
        for received in taken:
            received.settle(ACCEPTED)
    connection.end(ends[0][0])
    _, sender, receiver = ends[1]
    connection.accept_all(sender, [text(body) for body in texts(10, 20)])
    equal(bodies_of(connection.take(receiver, 10)), texts(10, 20), "messages after the other session's end")


def many_links():
    connection = Connection()
    links = []
    for number in range(50):
        _, address = queue(str(number))
        receiver = connection.receiver(address)
        receiver.flow(5)
        links.append((connection.sender(address), receiver))
    for number, (sender, _) in enumerate(links):
        connection.accept_all(sender, [text(f"for {number}")])
    for number, (_, receiver) in enumerate(links):
        equal(bodies_of(connection.take(receiver)), [f"for {number}"], "the message of a link")
    connection.end(connection.session)


def heartbeats():
    # The library announces half of this, sends empty frames of its own and closes when it misses the broker's.
    connection = Connection(heartbeat=2)
    transport = connection.raw.transport
    before = transport.frames_input
    connection.wait(lambda: transport.frames_input >= before + 2, "two empty frames")
    name, address = queue()
    connection.accept_all(connection.sender(address), [text("awake")])
    equal(count(name), 1, "messages")


def heartbeat_loss():
    connection = Connection()
    equal(ask("mute"), "closed", "control")
    is_condition(connection.await_end(), "amqp:resource-limit-exceeded", "idle")


def reconnect():
    name, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text("before")])
    equal(ask("ready kill"), "go", "control")
    connection.await_end()
    connection = Connection()
    equal(count(name), 1, "messages after the restart")
    received = connection.get(address)
    equal((bodies_of([received]), received.message.durable), (["before"], True), "the message")
    connection.accept_all(connection.sender(address), [text("after")])
    equal(bodies_of([connection.get(address)]), ["after"], "a message of the second life")


def shutdown():
    connection = Connection()
    equal(ask("ready term"), "go", "control")
    condition = connection.await_end()
    check(condition is not None, "closed without an error")
    check(condition.name in ("amqp:connection:forced", "amqp:internal-error"), str(condition))
    check(condition.description.startswith("Connection forced"), condition.description)
