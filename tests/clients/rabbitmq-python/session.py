"""What the scenarios share: connections, a handler that keeps what comes, and the lines to the harness."""

import json
import os
import sys

from rabbitmq_amqp_python_client import (
    AddressHelper, AMQPMessagingHandler, ConsumerOptions, ConsumerSettleStrategy, Converter, Environment,
    ExchangeSpecification, ExchangeToQueueBindingSpecification, ExchangeType, Message, ClassicQueueSpecification,
    PosixSslConfigurationContext, RecoveryConfiguration, symbol)

uri, http_uri, control, scenario = sys.argv[1:5]
authority = os.environ.get("LEVERET_TEST_CA")
prefix = f"cell.{scenario}.{os.getpid()}"


class Failure(Exception):
    """A scenario that saw something else than it should."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


def ask(line):
    print(line, flush=True)
    return sys.stdin.readline().strip()


def peer(do, **request):
    answer = json.loads(ask("peer " + json.dumps({"do": do, **request})))
    check("error" not in answer, f"peer {do}: {answer.get('error')}")
    return answer


def queue(name="q", **arguments):
    """A durable queue; its name and its address."""
    name = f"{prefix}.{name}"
    peer("declare", queue=name, arguments={key.replace("_", "-"): value for key, value in arguments.items()})
    return name, AddressHelper.queue_address(name)


def count(name):
    return peer("count", queue=name)["messages"]


def connect(target=uri):
    recovery = RecoveryConfiguration(active_recovery=False)
    tls = PosixSslConfigurationContext(ca_cert=authority) if authority else None
    environment = Environment(target.replace("%2F", ""), ssl_context=tls, recovery_configuration=recovery)
    connection = environment.connection()
    connection.dial()
    return connection


class Inbox(AMQPMessagingHandler):
    """Keeps every delivery unsettled."""

    def __init__(self):
        super().__init__(auto_accept=False, auto_settle=False)
        self.events = []

    def on_amqp_message(self, event):
        self.events.append(Received(event, self.delivery_context))


class Received:
    def __init__(self, event, context):
        self.message, self.delivery, self.context = event.message, event.delivery, context
        self.event = self

    def accept(self):
        self.context.accept(self)

    def discard(self):
        self.context.discard(self)

    def requeue(self):
        self.context.requeue(self)


class Receiver:
    """A consumer whose connection is driven until what is waited for has come; `run` would drive it for good."""

    def __init__(self, connection, address, options=None):
        self.inbox, self.connection = Inbox(), connection
        self.consumer = connection.consumer(address, message_handler=self.inbox, consumer_options=options)

    def take(self, number=1):
        events = self.inbox.events
        link = self.consumer._receiver.link
        self.connection._conn.wait(
            lambda: len(events) >= number or link.remote_condition, timeout=30, msg=f"{number} deliveries")
        check(len(events) >= number, f"the link ended: {link.remote_condition}")
        taken, events[:] = events[:number], events[number:]
        return taken

    def close(self):
        self.consumer.close()


def get(connection, address):
    """Takes and accepts one message over a link of its own; what came more goes back."""
    receiver = Receiver(connection, address)
    received = receiver.take()[0]
    received.accept()
    receiver.close()
    return received


def text(body, durable=True, **fields):
    return Message(body=Converter.string_to_bytes(body), durable=durable, **fields)


def bodies(received):
    return [bytes(one.message.body).decode() for one in received]


def texts(first, last):
    return [str(number) for number in range(first, last)]


def accepted(publisher, *messages):
    for message in messages:
        equal(publisher.publish(message).remote_state.name, "ACCEPTED", "outcome")


def fails(words, act):
    """`act()` raises an exception whose text has one of these words."""
    words = (words,) if isinstance(words, str) else words
    try:
        act()
    except Failure as failure:
        check(any(word in str(failure) for word in words), f"{failure!r} has none of {words}")
        return
    except BaseException as failure:  # some of the library's errors aren't an Exception
        check(any(word in repr(failure) for word in words), f"{failure!r} has none of {words}")
        return
    raise Failure(f"{words} expected, nothing happened")
