"""Streams; tests/tests/clients/streams.rs runs these scenarios."""

from datetime import datetime, timedelta

from rabbitmq_amqp_python_client import (
    MessageProperties, OffsetSpecification, StreamConsumerOptions, StreamFilterOptions, StreamSpecification)

from session import *

MESSAGES = 30
COLOURS = ("red", "green", "blue")


def filled(connection):
    """A stream of messages "0" to "29": red, green and blue in turns, each one with its number as a property."""
    name = f"{prefix}.s"
    manage = connection.management()
    manage.declare_queue(StreamSpecification(name=name, max_age=timedelta(days=1)))
    address = AddressHelper.queue_address(name)
    publisher = connection.publisher(address)
    accepted(publisher, *(message(number) for number in range(MESSAGES)))
    publisher.close()
    info = manage.queue_info(name)
    equal((info.queue_type.value, info.message_count), ("stream", MESSAGES), "queue info")
    return name, address


def message(number):
    colour = COLOURS[number % len(COLOURS)]
    return text(str(number), subject=colour, annotations={symbol("x-stream-filter-value"): colour},
                application_properties={"number": number})


def read(connection, address, offset, filters=None):
    return Receiver(connection, address, StreamConsumerOptions(offset_specification=offset, filter_options=filters))


def reads(connection, address, expected, offset, filters=None):
    receiver = read(connection, address, offset, filters)
    received = receiver.take(len(expected))
    equal(bodies(received), expected, f"messages from {offset}")
    for one in received:
        one.accept()
    receiver.close()
    return received


def stream_offsets():
    connection = connect()
    name, address = filled(connection)
    everything = texts(0, MESSAGES)
    reads(connection, address, everything, OffsetSpecification.first)
    reads(connection, address, everything, 0)
    reads(connection, address, texts(20, MESSAGES), 20)
    reads(connection, address, everything, datetime.now() - timedelta(hours=1))
    reads(connection, address, [str(MESSAGES - 1)], OffsetSpecification.last)
    # The library names a link by its address, so that a second one needs a connection of its own.
    following = read(connect(), address, OffsetSpecification.next)
    accepted(connection.publisher(address), message(MESSAGES))
    received = following.take()
    equal(bodies(received), [str(MESSAGES)], "the next one")
    equal(received[0].message.annotations["x-stream-offset"], MESSAGES, "its offset")
    # A read takes nothing away.
    reads(connection, address, texts(0, MESSAGES + 1), OffsetSpecification.first)
    connection.management().delete_queue(name)


def stream_filters():
    connection = connect()
    name, address = filled(connection)
    green = [body for body in texts(0, MESSAGES) if int(body) % 3 == 1]

    def filtered(expected, **options):
        reads(connection, address, expected, 0, StreamFilterOptions(**options))

    # Whole chunks are skipped by value, and single messages by properties.
    filtered(green, values=["green"], message_properties=MessageProperties(subject="green"))
    filtered(green, message_properties=MessageProperties(subject="&p:gre"))
    filtered(["7"], application_properties={"number": 7})
    filtered([body for body in green if int(body) > 10],
             sql="properties.subject IN ('green', 'black') AND number > 10")
    # As by RabbitMQ, a wrong expression isn't echoed and has no effect; the library doesn't look.
    filtered(texts(0, MESSAGES), sql="number >")
    connection.management().delete_queue(name)
