"""What the broker refuses."""

from session import *
from proton import Condition


def exclusive():
    name = f"{prefix}.q"
    peer("declare", queue=name, exclusive=True)
    connection = Connection()
    link = connection.receiver(f"/queues/{name}", connection.begin(), check_open=False)
    connection.refused(link, "amqp:resource-locked", name)


def queue_deleted():
    name, address = queue()
    connection = Connection()
    receiver, sender = connection.receiver(address), connection.sender(address)
    receiver.flow(1)
    connection.flush()
    peer("delete", queue=name)
    connection.refused(receiver, "amqp:resource-deleted")
    connection.refused(sender, "amqp:resource-deleted")
    _, other = queue("other")
    connection.accept_all(connection.sender(other), [text("x")])


def not_found():
    missing = f"{prefix}.missing"
    connection = Connection()
    for link in (connection.receiver(f"/queues/{missing}", check_open=False),
                 connection.sender(f"/queues/{missing}", check_open=False),
                 connection.sender(f"/exchanges/{missing}/k", check_open=False)):
        connection.refused(link, "amqp:not-found", missing)
    _, address = queue()
    connection.accept_all(connection.sender(address), [text("x")])


def bad_address():
    connection = Connection()
    for target in ("/exchanges//k", "/exchanges/amq.default/k", "/queues/", "/nothing/x", "/queues/a%zz"):
        connection.refused(connection.sender(target, connection.begin(), check_open=False), "amqp:invalid-field")
    link = connection.receiver("/exchanges/amq.direct/k", connection.begin(), check_open=False)
    connection.refused(link, "amqp:invalid-field")
    _, address = queue()
    connection.accept_all(connection.sender(address), [text("x")])


def unauthorized():
    _, address = queue()
    connection = Connection()
    link = connection.sender("/exchanges/amq.direct/k", connection.begin(), check_open=False)
    connection.refused(link, "amqp:unauthorized-access", "amq.direct")
    link = connection.receiver(address, connection.begin(), check_open=False)
    connection.refused(link, "amqp:unauthorized-access", prefix)
    connection.begin()


def user_id():
    _, address = queue()
    connection = Connection()
    session = connection.begin()
    sender = connection.sender(address, session)
    connection.wait(lambda: sender.credit > 0, "credit")
    sender.send(text("x", user_id=b"somebody"))
    connection.refused(sender, "amqp:unauthorized-access", "somebody")
    connection.accept_all(connection.sender(address), [text("x", user_id=b"guest")])


def message_too_large():
    name, address = queue()
    connection = Connection()
    sender = connection.sender(address, connection.begin())
    equal(sender.remote_max_message_size, 100_000, "the announced limit")
    connection.wait(lambda: sender.credit > 0, "credit")
    sender.send(text("x" * 100_001))
    connection.refused(sender, "amqp:link:message-size-exceeded")
    connection.accept_all(connection.sender(address), [text("x" * 99_000)])
    equal(count(name), 1, "messages")


def bad_annotation():
    name, address = queue()
    connection = Connection()
    sender = connection.sender(address, connection.begin())
    connection.wait(lambda: sender.credit > 0, "credit")
    sender.send(text("x", annotations={symbol("y"): 1}))
    connection.refused(sender, "amqp:decode-error")
    connection.accept_all(connection.sender(address), [text("x")])
    equal(count(name), 1, "messages")


def settle_mode_second():
    _, address = queue()
    connection = Connection()

    def second(link):
        link.rcv_settle_mode = Link.RCV_SECOND

    link = connection.receiver(address, connection.begin(), check_open=False, prepare=second)
    connection.refused(link, "amqp:not-implemented")


def framing_error():
    connection = Connection()
    equal(ask("inject 0000000302000000"), "done", "control")
    is_condition(connection.await_end(), "amqp:connection:framing-error")
    Connection().close()


def session_errors():
    connection = Connection()
    # transfer: handle 77, delivery-id 0, delivery-tag "t", message-format 0, settled
    transfer = "005314c00905" + "524d" + "43" + "a00174" + "43" + "41"
    equal(ask("inject " + frame(transfer)), "done", "control")
    connection.wait(lambda: ended(connection.session), "the end of the session")
    is_condition(connection.session.remote_condition, "amqp:session:unattached-handle")
    connection = Connection()
    connection.sender(queue()[1])
    # attach: name "again", handle 0, role sender, no more
    attach = "005312c00a03" + "a105616761696e" + "43" + "42"
    equal(ask("inject " + frame(attach)), "done", "control")
    connection.wait(lambda: ended(connection.session), "the end of the session")
    is_condition(connection.session.remote_condition, "amqp:session:handle-in-use")


def frame(performative):
    """A frame on channel 0, in hexadecimal."""
    return f"{8 + len(performative) // 2:08x}02000000{performative}"
