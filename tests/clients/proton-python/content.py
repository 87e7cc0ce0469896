"""What a message carries."""

import uuid

from session import *
from proton import AnnotationDict, char, byte, float32, int32, short, timestamp, ubyte, uint, ushort

DATA, SEQUENCE, VALUE = b"\x00\x53\x75", b"\x00\x53\x76", b"\x00\x53\x77"


def sections():
    name, address = queue()
    properties = {
        "null": None, "true": True, "false": False,
        "ubyte": ubyte(255), "ushort": ushort(65535), "uint": uint(2**32 - 1), "ulong": ulong(2**64 - 1),
        "byte": byte(-128), "short": short(-32768), "int": int32(-(2**31)), "long": -(2**63),
        "float": float32(1.5), "double": 2.5, "char": char("ä"), "timestamp": timestamp(1_700_000_000_123),
        "uuid": uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF), "binary": bytes(range(256)),
        "string ключ": "wert ✓ 𝄞", "symbol": symbol("sym"), "empty": "", "long string": "x" * 70_000,
    }
    sent = Message(
        body="inhalt ✓".encode(), inferred=True, durable=True, priority=7, ttl=600,
        annotations=AnnotationDict({"x-s": "note ✓", "x-i": int32(-5)}), properties=properties,
        id="id ✓", user_id=b"guest", address="to", subject="subject", reply_to="/queues/answers",
        correlation_id="correlation ✓", content_type=symbol("text/plain"), content_encoding=symbol("utf-8"),
        expiry_time=4_000_000_000.0, creation_time=1_700_000_000.0, group_id="group", group_sequence=7,
        reply_to_group_id="back")
    connection = Connection()
    connection.accept_all(connection.sender(address), [sent])
    received = connection.get(address)
    got = received.message
    for field in ("body", "durable", "priority", "id", "user_id", "address", "subject", "reply_to", "correlation_id",
                  "content_type", "content_encoding", "expiry_time", "creation_time", "group_id", "group_sequence",
                  "reply_to_group_id"):
        equal(getattr(got, field), getattr(sent, field), field)
    equal((got.first_acquirer, got.delivery_count), (True, 0), "first-acquirer, delivery-count")
    check(0 < got.ttl <= 600, f"ttl {got.ttl}")
    for key, value in properties.items():
        if isinstance(value, bytes):
            equal(bytes(got.properties[key]), value, f"property {key}")
        else:
            equal((type(got.properties[key]), got.properties[key]), (type(value), value), f"property {key}")
    equal(len(got.properties), len(properties), "number of application properties")
    annotations = dict(got.annotations)
    equal((annotations["x-s"], annotations["x-i"]), ("note ✓", -5), "annotations")
    equal((annotations["x-exchange"], annotations["x-routing-key"]), ("", name), "address annotations")
    # The bare message, byte for byte: it follows the message annotations in what was sent and what came. A footer
    # comes with it.
    bare = b"\x00\x53\x73" + sent.encode().split(b"\x00\x53\x73", 1)[1] + b"\x00\x53\x78" + amqp_map()
    connection.accept_all(connection.sender(address), [bare])
    received = connection.get(address)
    check(received.data.endswith(bare), "the bare message differs")


def amqp_map():
    """A map of one entry, x-f = "y"."""
    return b"\xc1\x09\x02\xa3\x03x-f\xa1\x01y"


def message_ids():
    _, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    for identifier in ("text ✓", ulong(2**64 - 1), uuid.UUID(int=77), b"\x00\xff"):
        connection.accept_all(sender, [text("x", id=identifier, correlation_id=identifier)])
        message = connection.get(address).message
        # The library tells the types apart but for the names that it gives to numbers and binaries.
        kind = {ulong: int, bytes: memoryview}.get(type(identifier), type(identifier))
        equal((type(message.id), message.id), (kind, identifier), "message-id")
        equal((type(message.correlation_id), message.correlation_id), (kind, identifier), "correlation-id")


def bodies():
    _, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    for value in ("", "text ✓", 5, True, [1, "zwei", [b"\x00"]], {"a": {"b": {"c": [1]}}}, b"binary", 2.5):
        connection.accept_all(sender, [Message(body=value, inferred=False)])
        received = connection.get(address)
        equal((received.message.body, received.message.inferred), (value, False), "value")
    for value in (b"", b"data"):
        connection.accept_all(sender, [Message(body=value, inferred=True)])
        received = connection.get(address)
        equal((bytes(received.message.body), received.message.inferred), (value, True), "data")
    connection.accept_all(sender, [Message(body=[1, "two"], inferred=True)])
    received = connection.get(address)
    equal((received.message.body, received.message.inferred), ([1, "two"], True), "sequence")
    # A null, and several sections, which the library's message leaves out.
    one, two = b"\xa0\x03one", b"\xa0\x03two"
    lists = b"\xc0\x03\x01\xa1\x00", b"\xc0\x04\x01\xa1\x01x"
    for raw in (VALUE + b"\x40", DATA + one + DATA + two, SEQUENCE + lists[0] + SEQUENCE + lists[1]):
        connection.accept_all(sender, [raw])
        check(connection.get(address).data.endswith(raw), "raw sections")
