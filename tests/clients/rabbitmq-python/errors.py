"""What the broker refuses."""

from session import *


def vhost():
    base = uri.rsplit("/", 1)[0]
    name, address = queue()
    accepted(connect(f"{base}/").publisher(address), text("here"))
    equal(count(name), 1, "messages")
    fails("", lambda: connect(f"{base}/no-such"))


def heartbeat_loss():
    connection = connect()
    receiver = Receiver(connection, queue()[1])
    equal(ask("mute"), "closed", "control")
    fails(("amqp:resource-limit-exceeded", "disconnected"), receiver.take)


def shutdown():
    connection = connect()
    receiver = Receiver(connection, queue()[1])
    equal(ask("ready term"), "go", "control")
    fails("Connection forced", receiver.take)


def exclusive():
    name = f"{prefix}.q"
    peer("declare", queue=name, exclusive=True)
    fails(("amqp:resource-locked", "does not match"), lambda: Receiver(connect(), AddressHelper.queue_address(name)))


def queue_deleted():
    name, address = queue()
    connection = connect()
    receiver = Receiver(connection, address)
    peer("delete", queue=name)
    fails("amqp:resource-deleted", receiver.take)
    _, other = queue("other")
    # On a connection of its own: RabbitMQ ends a session whose client goes on using a link that it just lost.
    accepted(connect().publisher(other), text("x"))


def not_found():
    missing = f"{prefix}.missing"
    connection = connect()
    for act in (lambda: connection.publisher(AddressHelper.queue_address(missing)),
                lambda: connection.publisher(AddressHelper.exchange_address(missing, "k")),
                lambda: Receiver(connection, AddressHelper.queue_address(missing))):
        # The library may have compared the address with the refusing attach before it sees the reason.
        fails(("amqp:not-found", "does not match"), act)
    accepted(connect().publisher(queue()[1]), text("x"))


def unauthorized():
    _, address = queue()
    connection = connect()
    fails(("amqp:unauthorized-access", "does not match"),
          lambda: connection.publisher(AddressHelper.exchange_address("amq.direct", "k")))
    fails(("amqp:unauthorized-access", "does not match"), lambda: Receiver(connect(), address))


def user_id():
    name, address = queue()
    fails("amqp:unauthorized-access", lambda: connect().publisher(address).publish(text("x", user_id=b"somebody")))
    accepted(connect().publisher(address), text("x", user_id=b"guest"))
    equal(count(name), 1, "messages")


def message_too_large():
    name, address = queue()
    fails("amqp:link:message-size-exceeded", lambda: connect().publisher(address).publish(text("x" * 100_001)))
    accepted(connect().publisher(address), text("x" * 99_000))
    equal(count(name), 1, "messages")


def bad_annotation():
    name, address = queue()
    fails("amqp:decode-error", lambda: connect().publisher(address).publish(text("x", annotations={"y": 1})))
    accepted(connect().publisher(address), text("x"))
    equal(count(name), 1, "messages")


def framing_error():
    connection = connect()
    receiver = Receiver(connection, queue()[1])
    equal(ask("inject 0000000302000000"), "done", "control")
    fails("amqp:connection:framing-error", receiver.take)
    connect().close()
