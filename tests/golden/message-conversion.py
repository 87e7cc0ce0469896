#!/usr/bin/env python3
"""Messages of one AMQP protocol as a consumer of the other one sees them, and dead letters as both see them.

    message-conversion.py AMQP_PORT > ../../target/conversion.json
        plays all against a RabbitMQ, vhost /, guest/guest, with queues and an exchange of its own
    message-conversion.py AMQP_PORT stamps=true > ../../target/conversion.json
        plays what concerns stamps against one whose rabbitmq.conf has, with `true` or `false`,
            message_interceptors.incoming.set_header_timestamp.overwrite = true
            message_interceptors.incoming.set_header_routing_node.overwrite = true
            message_interceptors.outgoing.timestamp.enabled = true

What it prints becomes the tables in crates/message/tests/conversions by
    CONVERSION_RECORDED=FILE CONVERSION_TABLE=all cargo test -p leveret-message --test conversion -- --ignored write_the_tables
and of stamps with CONVERSION_TABLE=stamps-overwrite or stamps-keep, for `true` or `false`. `make golden` does the first.

Needs python-qpid-proton. Messages are given and recorded as bytes in hexadecimal: for AMQP 0-9-1 property flags and
list of the content header, a colon and the body; for AMQP 1.0 the payload of the transfers.
"""
import datetime, json, socket, struct, sys, uuid
from proton import Endpoint, Handler
from proton.utils import BlockingConnection, LinkDetached

PORT = int(sys.argv[1])
URL = f"127.0.0.1:{PORT}"
SOURCE, TARGET, EXCHANGE = "conversion", "conversion-dead", "conversion-exchange"

# --- AMQP 0-9-1, as few frames as will do -------------------------------------------------------------------------

def short(text): text = text if isinstance(text, bytes) else text.encode(); return bytes([len(text)]) + text
def long(data): data = data if isinstance(data, bytes) else data.encode(); return struct.pack(">I", len(data)) + data
def field(letter, value):
    if letter in "Sx": data = long(value)
    elif letter == "F": data = long(b"".join(short(key) + field(*item) for key, item in value))
    elif letter == "A": data = long(b"".join(field(*item) for item in value))
    elif letter == "V": data = b""
    elif letter == "D": data = struct.pack(">BI", *value)
    else: data = struct.pack(">" + {"t": "?", "b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q",
        "f": "f", "d": "d", "T": "Q"}[letter], value)
    return letter.encode() + data
def table(*pairs): return field("F", pairs)[1:]

PROPERTIES = dict(content_type=15, content_encoding=14, headers=13, delivery_mode=12, priority=11, correlation_id=10,
    reply_to=9, expiration=8, message_id=7, timestamp=6, type=5, user_id=4, app_id=3, cluster_id=2)
def properties(**given):
    flags, out = 0, b""
    for name, bit in PROPERTIES.items():
        if name in given:
            flags |= 1 << bit
            value = given[name]
            out += (value if name == "headers" else bytes([value]) if name in ("delivery_mode", "priority")
                else struct.pack(">Q", value) if name == "timestamp" else short(value))
    return struct.pack(">H", flags) + out

class Closed(Exception): pass
class Amqp091:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT)); self.socket.settimeout(10)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\0\0\x09\x01"); self.method()
        self.send(0, 10, 11, table() + short("PLAIN") + long(b"\0guest\0guest") + short("en_US")); self.method()
        self.send(0, 10, 31, struct.pack(">HIH", 1, 131072, 0)); self.send(0, 10, 40, short("/") + b"\0\0"); self.method()
        self.send(1, 20, 10, b"\0"); self.method()
    def frame(self):
        kind, channel, size = struct.unpack(">BHI", self.file.read(7)); payload = self.file.read(size); self.file.read(1)
        return (kind, payload) if kind != 8 else self.frame()
    def write(self, kind, channel, payload):
        self.socket.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")
    def send(self, channel, class_id, method, arguments): self.write(1, channel, struct.pack(">HH", class_id, method) + arguments)
    def method(self):
        kind, payload = self.frame(); class_id, method = struct.unpack(">HH", payload[:4]); assert kind == 1
        if (class_id, method) in ((10, 50), (20, 40)):
            code, length = struct.unpack(">HB", payload[4:7])
            raise Closed(f"{code} {payload[7:7 + length].decode('utf-8', 'replace')}")
        return (class_id, method), payload[4:]
    def declare(self, queue, arguments=b"\0\0\0\0"):
        self.send(1, 50, 10, b"\0\0" + short(queue) + b"\x02" + arguments); self.method()
    def delete(self, queue): self.send(1, 50, 40, b"\0\0" + short(queue) + b"\0"); self.method()
    def confirms(self): self.send(1, 85, 10, b"\0"); self.method()
    def publish(self, exchange, key, raw_properties, body):
        self.send(1, 60, 40, b"\0\0" + short(exchange) + short(key) + b"\0")
        self.write(2, 1, struct.pack(">HHQ", 60, 0, len(body)) + raw_properties)
        if body: self.write(3, 1, body)
        return self.method()[0][1] == 80
    def get(self, queue):
        """Delivery tag, property flags and list, body."""
        for _ in range(300):
            self.send(1, 60, 70, b"\0\0" + short(queue) + b"\0"); method, arguments = self.method()
            if method == (60, 71): break
        else: raise Closed("nothing came")
        header = self.frame()[1]; size = struct.unpack(">Q", header[4:12])[0]; body = b""
        while len(body) < size: body += self.frame()[1]
        return struct.unpack(">Q", arguments[:8])[0], header[12:], body
    def reject(self, tag): self.send(1, 60, 90, struct.pack(">Q", tag) + b"\0")
    def ack(self, tag): self.send(1, 60, 80, struct.pack(">Q", tag) + b"\0")
    def close(self): self.socket.close()

# --- AMQP 1.0: values and sections ---------------------------------------------------------------------------------

def sized(narrow, wide, data): return bytes([narrow, len(data)]) + data if len(data) < 256 else bytes([wide]) + long(data)
def utf8(text): return sized(0xa1, 0xb1, text if isinstance(text, bytes) else text.encode())
def symbol(text): return sized(0xa3, 0xb3, text if isinstance(text, bytes) else text.encode())
def binary(data): return sized(0xa0, 0xb0, data)
def fixed(code, form, value): return bytes([code]) + struct.pack(">" + form, value)
def ubyte(v): return fixed(0x50, "B", v)
def ushort(v): return fixed(0x60, "H", v)
def uint(v): return fixed(0x70, "I", v)
def ulong(v): return fixed(0x80, "Q", v)
def byte(v): return fixed(0x51, "b", v)
def sshort(v): return fixed(0x61, "h", v)
def sint(v): return fixed(0x71, "i", v)
def slong(v): return fixed(0x81, "q", v)
def single(v): return fixed(0x72, "f", v)
def double(v): return fixed(0x82, "d", v)
def char(v): return fixed(0x73, "I", v)
def timestamp(v): return fixed(0x83, "q", v)
def uuid_value(v): return b"\x98" + v
def compound(code, items):
    data = struct.pack(">I", len(items)) + b"".join(items)
    return bytes([code]) + struct.pack(">I", len(data)) + data
def sequence(*items): return compound(0xd0, items)
def mapping(*items): return compound(0xd1, items)
def array(code, count, data): return b"\xf0" + struct.pack(">II", len(data) + 5, count) + code + data
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
UUID = bytes(range(16, 32))
def section(code, value): return bytes([0, 0x53, code]) + value
def header(*fields): return section(0x70, sequence(*fields))
def delivery_annotations(*items): return section(0x71, mapping(*items))
def annotations(*items): return section(0x72, mapping(*items))
def bare(**given):
    names = ["message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
        "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id"]
    last = max(names.index(name) for name in given) + 1 if given else 0
    return section(0x73, sequence(*(given.get(name, NULL) for name in names[:last])))
def application(*items): return section(0x74, mapping(*items))
def data(content): return section(0x75, binary(content))
def footer(*items): return section(0x78, mapping(*items))
BODY = data(b"body")

class Taking(Handler):
    def __init__(self): super().__init__(); self.payload = None
    def on_delivery(self, event):
        delivery = event.delivery
        if delivery.readable and not delivery.partial and self.payload is None:
            self.payload = event.link.recv(delivery.pending)
            delivery.update(delivery.ACCEPTED); delivery.settle()
class Amqp10:
    def __init__(self): self.connection = BlockingConnection(URL, user="guest", password="guest", allowed_mechs="PLAIN", timeout=10)
    def publish(self, address, payload):
        """The outcome's name, or the error that ended the link."""
        try:
            sender = self.connection.create_sender(address)
            delivery = sender.link.delivery("1"); sender.link.stream(payload); sender.link.advance()
            self.connection.wait(lambda: delivery.settled or delivery.remote_state)
            outcome = {0x24: "ACCEPTED", 0x25: "REJECTED", 0x26: "RELEASED"}.get(int(delivery.remote_state), "none")
            sender.close(); return outcome
        except LinkDetached:
            condition = sender.link.remote_condition
        except Exception:
            condition = self.connection.conn.remote_condition or sender.link.session.remote_condition
        return f"{condition.name}: {condition.description}" if condition else "closed"
    def get(self, address):
        taking = Taking(); receiver = self.connection.create_receiver(address, credit=1, handler=taking)
        self.connection.wait(lambda: taking.payload is not None, timeout=10); receiver.close(); return taking.payload
    def close(self):
        try: self.connection.close()
        except Exception: pass

# --- what is published ---------------------------------------------------------------------------------------------

OLD, NEW = [], []
def old(name, body=b"body", **given): OLD.append((name, properties(**given), body))
def new(name, *sections): NEW.append((name, b"".join(sections)))
def brief(text): return text if len(text) <= 60 else f"{text[:20]}... of {len(text)}"

old("nothing", body=b"")
old("body only")
for name, values in dict(content_type=["text/plain", b"\xff", ""], content_encoding=["gzip"], delivery_mode=[0, 1, 2, 7],
        priority=[0, 4, 5, 255], expiration=["60000", "4294967295", "4294967296"], type=["order", b"\xff", ""],
        correlation_id=["c", "urn:uuid:10111213-1415-1617-1819-1a1b1c1d1e1f", "10111213-1415-1617-1819-1a1b1c1d1e1f",
            "urn:uuid:nonsense", "URN:UUID:10111213-1415-1617-1819-1a1b1c1d1e1f", b"\xff", "", "42"],
        message_id=["m", "urn:uuid:10111213-1415-1617-1819-1A1B1C1D1E1F", "x" * 255],
        reply_to=["q", "/queues/q", "/exchanges/x/k", "a/b c%ü", b"\xff", "", "amq.rabbitmq.reply-to.g1h"],
        timestamp=[0, 1700000000, 2**63 - 1, 2**64 - 1], user_id=["guest"], app_id=["app", b"\xff"], cluster_id=["cluster"]).items():
    for value in values:
        old(f"{name} {brief(repr(value))}", **{name: value})
old("all properties", content_type="text/plain", content_encoding="gzip", headers=table(("h", ("S", "v"))), delivery_mode=2,
    priority=9, correlation_id="c", reply_to="q", expiration="60000", message_id="m", timestamp=1700000000, type="order",
    user_id="guest", app_id="app", cluster_id="cluster")
FIELDS = {"true": ("t", True), "false": ("t", False), "i8": ("b", -8), "u8": ("B", 200), "i16": ("s", -300), "u16": ("u", 60000),
    "i32": ("I", -70000), "u32": ("i", 4000000000), "i64": ("l", -2**40), "i64 small": ("l", 1), "float": ("f", 1.5), "float nan": ("f", float("nan")),
    "float inf": ("f", float("inf")), "double": ("d", -2.5), "double nan": ("d", float("nan")), "double inf": ("d", float("-inf")),
    "decimal": ("D", (2, 314)), "text": ("S", "grün"), "text empty": ("S", ""), "text 255": ("S", "x" * 255),
    "text 256": ("S", "x" * 256), "text not utf-8": ("S", b"\xff\xfe"), "binary": ("x", b"\0\xff"), "timestamp": ("T", 1700000000),
    "timestamp far": ("T", 2**61), "void": ("V", None), "array empty": ("A", []),
    "array": ("A", [("I", 1), ("S", "a"), ("t", True), ("A", [("l", 2)]), ("F", [("k", ("S", "v"))])]),
    "table empty": ("F", []), "table": ("F", [("k", ("S", "v")), ("n", ("F", [("a", ("A", [("V", None)]))]))]),
    "array of decimals": ("A", [("D", (1, 1))]), "table with nan": ("F", [("k", ("d", float("nan")))])}
for name, item in FIELDS.items():
    old(f"header {name}", headers=table(("h", item)))
    old(f"x-header {name}", headers=table(("x-h", item)))
old("headers empty", headers=table())
old("headers several", headers=table(("b", ("I", 2)), ("a", ("S", "1")), ("x-b", ("I", 2)), ("x-a", ("S", "1"))))
old("header twice", headers=table(("h", ("I", 1)), ("h", ("I", 2)), ("x-h", ("I", 1)), ("x-h", ("I", 2))))
old("header with empty name", headers=table(("", ("I", 1))))
old("header name not ascii", headers=table(("ü", ("I", 1)), ("x-ü", ("I", 1))))
old("header name not utf-8", headers=table((b"\xff", ("I", 1)), (b"x-\xff", ("I", 1))))
old("header X-", headers=table(("X-h", ("I", 1)), ("x", ("I", 1)), ("x-", ("I", 1))))
old("CC", headers=table(("CC", ("A", [("S", "conversion-cc"), ("S", "b")]))))
old("BCC", headers=table(("BCC", ("A", [("S", "conversion-cc")])), ("h", ("I", 1))))
old("CC empty", headers=table(("CC", ("A", []))))
for name in ("x-exchange", "x-routing-key", "x-cc", "x-basic-type", "x-basic-priority", "x-opt-deaths", "x-death", "x-first-death-queue",
        "x-message-id", "x-correlation-id", "x-opt-rabbitmq-received-time", "timestamp_in_ms", "x-delivery-count", "x-stream-offset"):
    old(f"header {name} of a client", headers=table((name, ("S", "client"))))
old("header x-death table of a client", headers=table(("x-death", ("A", [("F", [("count", ("l", 1)), ("queue", ("S", "q")), ("reason", ("S", "rejected"))])]))))
old("type amqp-1.0, one value", body=section(0x77, utf8("value")), type="amqp-1.0")
old("type amqp-1.0, sequences", body=section(0x76, sequence(utf8("a"))) + section(0x76, sequence(uint(1))), type="amqp-1.0")
old("type amqp-1.0, data", body=data(b"a") + data(b"b"), type="amqp-1.0")
old("type amqp-1.0, footer", body=data(b"a") + footer(symbol("x-f"), uint(1)), type="amqp-1.0")
old("type amqp-1.0, no sections", body=b"body", type="amqp-1.0")
old("type amqp-1.0, nothing", body=b"", type="amqp-1.0")
old("type amqp-1.0, properties in the body", body=bare(subject=utf8("s")) + BODY, type="amqp-1.0")
old("reply_to long", reply_to="q" * 255)
old("content_type not ascii", content_type="text/grün", content_encoding="x" * 255)
old("CC and x-cc", headers=table(("CC", ("A", [("S", "conversion-cc")])), ("x-cc", ("A", [("S", "other")]))))
old("CC and BCC", headers=table(("CC", ("A", [("S", "conversion-cc")])), ("BCC", ("A", [("S", "b")])), ("x-h", ("I", 1))))
PLAIN_FIELDS = {name: item for name, item in FIELDS.items() if not name.endswith((" nan", " inf", "decimal", "decimals", " far"))}
old("x-header table of all types", headers=table(("x-h", ("F", list(PLAIN_FIELDS.items())))))
old("x-header array of all types", headers=table(("x-h", ("A", list(PLAIN_FIELDS.values())))))
old("x-header table with names", headers=table(("x-h", ("F", [("", ("I", 1)), ("ü", ("I", 2)), ("x" * 255, ("I", 3)), ("twice", ("I", 4)), ("twice", ("I", 5))]))))
DEATH = [("count", ("l", 2)), ("reason", ("S", "expired")), ("queue", ("S", "q")), ("time", ("T", 1600000000)), ("exchange", ("S", "x")), ("routing-keys", ("A", [("S", "k")])),
    ("original-expiration", ("S", "5000"))]
old("header x-death and its family of a client", headers=table(("x-death", ("A", [("F", DEATH)])), ("x-first-death-exchange", ("S", "x")), ("x-first-death-queue", ("S", "q")),
    ("x-first-death-reason", ("S", "expired")), ("x-last-death-exchange", ("S", "x")), ("x-last-death-queue", ("S", "q")), ("x-last-death-reason", ("S", "expired"))))

new("data", BODY)
new("three data, one empty", data(b"one"), data(b""), data(b"three"))
new("two data and footer", data(b"one"), data(b"two"), footer(symbol("x-f"), utf8("v")))
new("sequence and footer", section(0x76, sequence(utf8("a"))), footer(symbol("x-f"), utf8("v")))
new("sequence empty", section(0x76, b"\x45"))
new("value uuid", section(0x77, uuid_value(UUID)))
new("value described", section(0x77, b"\0\xa3\x01d" + utf8("v")))
new("value array", section(0x77, array(b"\x71", 2, struct.pack(">ii", 1, -1))))
new("data and annotation x-basic-type amqp-1.0", annotations(symbol("x-basic-type"), utf8("amqp-1.0")), BODY)
new("data empty", data(b""))
new("two data", data(b"one"), data(b"two"))
new("data wide", section(0x75, b"\xb0\0\0\0\x04body"))
new("value string", section(0x77, utf8("text")))
new("value null", section(0x77, NULL))
new("value binary", section(0x77, binary(b"\0\1")))
new("value map", section(0x77, mapping(utf8("k"), sequence(uint(1), NULL))))
new("value list", section(0x77, sequence(utf8("k"), uint(1))))
new("value uint", section(0x77, uint(7)))
new("sequence", section(0x76, sequence(utf8("a"), uint(1))))
new("two sequences", section(0x76, sequence(utf8("a"))), section(0x76, sequence(uint(1))))
new("data and footer", BODY, footer(symbol("x-f"), utf8("v")))
new("value and footer", section(0x77, utf8("text")), footer(symbol("x-f"), utf8("v")))
new("header empty", header(), BODY)
new("header empty list0", section(0x70, b"\x45"), BODY)
for name, fields in {"durable": [TRUE], "not durable": [FALSE], "durable null": [NULL], "priority 0": [NULL, ubyte(0)],
        "priority 4": [NULL, ubyte(4)], "priority 255": [NULL, ubyte(255)], "ttl": [NULL, NULL, uint(60000)], "ttl max": [NULL, NULL, uint(2**32 - 1)],
        "first-acquirer": [NULL, NULL, NULL, TRUE], "not first-acquirer": [NULL, NULL, NULL, FALSE], "delivery-count": [NULL, NULL, NULL, NULL, uint(3)],
        "all": [TRUE, ubyte(9), uint(60000), TRUE, uint(3)]}.items():
    new(f"header {name}", header(*fields), BODY)
new("delivery annotations", delivery_annotations(symbol("x-d"), utf8("v")), BODY)
IDS = {"text": utf8("id"), "text empty": utf8(""), "text 255": utf8("x" * 255), "text 256": utf8("x" * 256), "text long in utf-8": utf8("ü" * 128), "ulong": b"\x80" + b"\xff" * 8,
    "ulong0": b"\x44", "smallulong": b"\x53\x07", "uuid": uuid_value(UUID), "binary": binary(b"\0\xff"),
    "int": sint(-7), "smallint": b"\x54\xf9", "uint": uint(7), "long": b"\x81" + b"\xff" * 8, "smalllong": b"\x55\x07"}
for name, value in IDS.items():
    new(f"message-id {name}", bare(message_id=value), BODY)
    new(f"correlation-id {name}", bare(correlation_id=value), BODY)
new("both ids binary", bare(message_id=binary(b"m"), correlation_id=binary(b"c")), BODY)
new("properties empty", bare(), BODY)
new("user-id", bare(user_id=binary(b"guest")), BODY)
for name, value in {"to": utf8("/queues/q"), "subject": utf8("s"), "absolute_expiry_time": timestamp(1900000000123), "group_sequence": uint(5), "reply_to_group_id": utf8("g")}.items():
    new(f"properties {name}", bare(**{name: value}), BODY)
for value in ("q", "/queues/q", "/queues/a%2Fb%20c%25%C3%BC", "/queues/", "/exchanges/x/k", "/exchanges/x", "", "/queue/q", "/queues/" + "x" * 255, "/queues/" + "x" * 256, "y" * 256, "/queues/%zz", "/queues/a/b"):
    new(f"reply-to {brief(value)}", bare(reply_to=utf8(value)), BODY)
for name in ("content_type", "content_encoding"):
    for value in ("text/plain", "", "x" * 255, "x" * 256):
        new(f"{name} {brief(value)}", bare(**{name: symbol(value)}), BODY)
for value in (0, 1700000000123, -1, -1500, 2**63 - 1):
    new(f"creation-time {value}", bare(creation_time=timestamp(value)), BODY)
for value in ("g", "", "x" * 255, "x" * 256):
    new(f"group-id {brief(value)}", bare(group_id=utf8(value)), BODY)
new("all properties", header(TRUE, ubyte(9), uint(60000)), annotations(symbol("x-a"), utf8("v"), symbol("x-basic-type"), utf8("order")), bare(message_id=utf8("m"), user_id=binary(b"guest"), to=utf8("/queues/q"),
    subject=utf8("s"), reply_to=utf8("/queues/r"), correlation_id=utf8("c"), content_type=symbol("text/plain"), content_encoding=symbol("gzip"), absolute_expiry_time=timestamp(1900000000123),
    creation_time=timestamp(1700000000123), group_id=utf8("g"), group_sequence=uint(5), reply_to_group_id=utf8("r")), application(utf8("p"), uint(1)), BODY)
VALUES = {"null": NULL, "true": TRUE, "false": FALSE, "boolean 1": b"\x56\x01", "boolean 0": b"\x56\x00", "ubyte": ubyte(200), "ushort": ushort(60000), "uint": uint(4000000000), "uint0": b"\x43",
    "smalluint": b"\x52\x07", "ulong": ulong(7), "ulong 2^63": ulong(2**63), "ulong max": ulong(2**64 - 1), "ulong0": b"\x44", "byte": byte(-8), "short": sshort(-300), "int": sint(-70000), "smallint": b"\x54\xf9", "long": slong(-2**40),
    "smalllong": b"\x55\xf9", "float": single(1.5), "float nan": single(float("nan")), "float inf": single(float("inf")), "double": double(-2.5), "double nan": double(float("nan")),
    "double inf": double(float("-inf")), "char": char(0xfc), "timestamp": timestamp(1700000000123), "timestamp negative": timestamp(-1500), "uuid": uuid_value(UUID), "binary": binary(b"\0\xff"), "string": utf8("grün"), "string empty": utf8(""),
    "string 256": utf8("x" * 256), "symbol": symbol("sym"), "decimal32": b"\x74\0\0\0\1", "decimal64": b"\x84" + bytes(7) + b"\1", "decimal128": b"\x94" + bytes(15) + b"\1"}
COMPLEX = {"list": sequence(uint(1), utf8("a"), NULL, TRUE, sequence(slong(2)), mapping(utf8("k"), utf8("v"))), "list empty": b"\x45", "map": mapping(utf8("k"), utf8("v"), symbol("s"), sequence()),
    "map empty": mapping(), "map with int keys": mapping(sint(1), utf8("v")), "list of uuid": sequence(uuid_value(UUID)), "list of ulong": sequence(ulong(1)), "list of nan": sequence(double(float("nan"))), "array": array(b"\x71", 2, struct.pack(">ii", 1, -1)),
    "array of strings": array(b"\xa1", 2, b"\x01a\x01b"), "array empty": array(b"\xa1", 0, b""), "described": b"\0\xa3\x01d" + utf8("v")}
for name, value in VALUES.items():
    new(f"application property {name}", application(utf8("p"), value), BODY)
for name, value in (VALUES | COMPLEX).items():
    new(f"annotation {name}", annotations(symbol("x-a"), value), BODY)
PLAIN_VALUES = {name: value for name, value in VALUES.items() if not name.endswith((" nan", " inf")) and name not in ("decimal32", "decimal64", "decimal128", "char", "uuid", "timestamp negative")}
new("annotation list of all types", annotations(symbol("x-a"), sequence(*(value for name, value in PLAIN_VALUES.items() if not name.startswith("ulong")))), BODY)
new("annotation map of all types", annotations(symbol("x-a"), mapping(*(item for name, value in PLAIN_VALUES.items() for item in (utf8(name), value)))), BODY)
new("annotation map with names", annotations(symbol("x-a"), mapping(utf8(""), uint(1), symbol("s"), uint(2), utf8("x" * 255), uint(3), utf8("twice"), uint(4), utf8("twice"), uint(5))), BODY)
new("application property nested", application(utf8("p"), sequence(mapping(utf8("k"), sequence(uint(1), NULL)), b"\x45")), BODY)
for name in ("list", "map", "array"):
    new(f"application property {name}", application(utf8("p"), COMPLEX[name]), BODY)
new("application properties empty", application(), BODY)
new("application properties several", application(utf8("b"), uint(2), utf8("a"), utf8("1"), utf8("x-p"), utf8("x")), BODY)
new("application property twice", application(utf8("p"), uint(1), utf8("p"), uint(2)), BODY)
new("application property name empty", application(utf8(""), uint(1)), BODY)
new("application property name long", application(utf8("n" * 255), uint(1), utf8("m" * 256), uint(2)), BODY)
new("application property CC", application(utf8("CC"), utf8("v"), utf8("BCC"), utf8("w")), BODY)
new("annotations empty", annotations(), BODY)
new("annotations several", annotations(symbol("x-b"), uint(2), symbol("x-a"), utf8("1")), BODY)
new("annotation and property of one name", annotations(symbol("x-a"), utf8("annotation")), application(utf8("x-a"), utf8("property")), BODY)
new("annotation name long", annotations(symbol("x-" + "n" * 253), uint(1), symbol("x-" + "m" * 254), uint(2)), BODY)
new("x-cc", annotations(symbol("x-cc"), sequence(utf8("conversion-cc"), utf8("b"))), BODY)
new("x-cc empty", annotations(symbol("x-cc"), sequence()), BODY)
for name in ("x-exchange", "x-routing-key", "x-basic-type", "x-basic-expiration", "x-basic-delivery-mode", "x-basic-priority", "x-death", "x-first-death-queue", "x-opt-delivery-time", "x-opt-rabbitmq-received-time", "x-amqp-1.0-properties", "x-opt-deaths", "x-delivery-count", "x-opt-jms-msg-type"):
    new(f"annotation {name} of a client", annotations(symbol(name), utf8("client")), BODY)
new("annotation x-opt-jms-msg-type byte", annotations(symbol("x-opt-jms-msg-type"), byte(5), symbol("x-opt-jms-dest"), byte(0)), section(0x77, utf8("text")))
new("annotation x-basic-priority ubyte", annotations(symbol("x-basic-priority"), ubyte(3), symbol("x-basic-delivery-mode"), ubyte(2)), BODY)
DEATH_KEYS = array(b"\xb1", 1, long("k"))
DEATH_MAP = mapping(symbol("ttl"), uint(5000), symbol("queue"), utf8("q"), symbol("reason"), symbol("expired"), symbol("count"), ulong(2), symbol("first-time"), timestamp(1600000000123),
    symbol("last-time"), timestamp(1600000000456), symbol("exchange"), utf8("x"), symbol("routing-keys"), DEATH_KEYS)
new("annotation x-opt-deaths array", annotations(symbol("x-opt-deaths"), array(b"\xd1", 1, DEATH_MAP[1:]), symbol("x-first-death-queue"), utf8("q")), BODY)
new("annotation x-opt-deaths list", annotations(symbol("x-opt-deaths"), sequence(DEATH_MAP)), BODY)
new("x-cc and x-exchange", annotations(symbol("x-cc"), sequence(utf8("conversion-cc")), symbol("x-exchange"), utf8("client"), symbol("x-routing-key"), utf8("client")), BODY)
new("annotation x-opt-rabbitmq-received-time timestamp", annotations(symbol("x-opt-rabbitmq-received-time"), timestamp(1700000000123)), BODY)

REFUSED = [
    ("no payload", b""), ("no body", b"".join([header(TRUE), bare(subject=utf8("s"))])), ("header only", header(TRUE)),
    ("annotation key without x-", annotations(symbol("a"), uint(1)) + BODY), ("annotation key string", annotations(utf8("x-a"), uint(1)) + BODY),
    ("annotation key ulong", annotations(ulong(1), uint(1)) + BODY), ("annotation key x", annotations(symbol("x"), uint(1)) + BODY), ("annotation key X-", annotations(symbol("X-a"), uint(1)) + BODY),
    ("annotation key empty", annotations(symbol(""), uint(1)) + BODY), ("second annotation key bad", annotations(symbol("x-a"), uint(1), symbol("b"), uint(1)) + BODY),
    ("delivery annotation key without x-", delivery_annotations(symbol("a"), uint(1)) + BODY), ("footer key without x-", BODY + footer(symbol("a"), uint(1))), ("footer key string", BODY + footer(utf8("x-a"), uint(1))),
    ("x-cc string", annotations(symbol("x-cc"), utf8("k")) + BODY), ("x-cc of ints", annotations(symbol("x-cc"), sequence(uint(1))) + BODY), ("x-cc of symbols", annotations(symbol("x-cc"), sequence(symbol("k"))) + BODY),
    ("x-cc array", annotations(symbol("x-cc"), array(b"\xa1", 1, b"\x01k")) + BODY), ("x-cc null", annotations(symbol("x-cc"), NULL) + BODY), ("x-cc key long", annotations(symbol("x-cc"), sequence(utf8("k" * 256))) + BODY),
    ("user-id of another", bare(user_id=binary(b"other")) + BODY), ("user-id empty", bare(user_id=binary(b"")) + BODY),
    ("nonsense", b"nonsense"), ("cut", BODY[:-1]), ("unknown section", section(0x79, mapping()) + BODY), ("symbolic descriptors", b"\0\xa3\x10amqp:data:binary" + binary(b"body")),
    ("properties after body", BODY + bare(subject=utf8("s"))), ("header after properties", bare(subject=utf8("s")) + header(TRUE) + BODY), ("header twice", header(TRUE) + header(FALSE) + BODY),
    ("annotations before header", annotations(symbol("x-a"), uint(1)) + header(TRUE) + BODY), ("two values", section(0x77, uint(1)) + section(0x77, uint(2))), ("data then value", BODY + section(0x77, uint(2))),
    ("application property key symbol", application(symbol("p"), uint(1)) + BODY), ("application property key int", application(uint(1), uint(1)) + BODY),
    ("application properties list", section(0x74, sequence(utf8("p"), uint(1))) + BODY), ("header map", section(0x70, mapping(utf8("durable"), TRUE)) + BODY), ("header durable string", header(utf8("yes")) + BODY),
    ("header priority uint", header(NULL, uint(4)) + BODY), ("header ttl ulong", header(NULL, NULL, ulong(4)) + BODY), ("header too long", header(NULL, NULL, NULL, NULL, NULL, TRUE) + BODY), ("subject symbol", bare(subject=symbol("s")) + BODY),
    ("data of string", section(0x75, utf8("body"))), ("sequence of string", section(0x76, utf8("body"))), ("map with odd count", section(0x74, compound(0xd1, [utf8("k")])) + BODY), ("string not utf-8", section(0x77, b"\xa1\x01\xff")),
    ("annotations null", section(0x72, NULL) + BODY),
]

# --- the recording -------------------------------------------------------------------------------------------------

def hexed(raw_properties, body): return raw_properties.hex() + ":" + body.hex()
def note(text): print(text, file=sys.stderr)

def declare(target_of_rejected=TARGET, **ttl):
    amqp = Amqp091()
    for queue in (SOURCE, TARGET, "conversion-cc"):
        amqp.delete(queue)
    amqp.declare(SOURCE, table(("x-dead-letter-exchange", ("S", "")), ("x-dead-letter-routing-key", ("S", target_of_rejected)), *ttl.items()))
    amqp.declare(TARGET); amqp.declare("conversion-cc"); amqp.confirms()
    return amqp

def take(amqp, via, queue):
    if via == "amqp091":
        tag, *got = amqp.get(queue); amqp.ack(tag); return hexed(*got)
    new_connection = Amqp10()
    try: return new_connection.get("/queues/" + queue).hex()
    finally: new_connection.close()

def record(publish, result):
    """Publishes four times: seen by both protocols, as it is and after it was rejected."""
    for died in (False, True):
        for via in ("amqp091", "amqp10"):
            key = via + ("_rejected" if died else "")
            amqp = declare()
            try:
                outcome = publish(amqp)
                if outcome is not None: result["outcome"] = outcome; return
                if died: amqp.reject(amqp.get(SOURCE)[0])
                result[key] = take(amqp, via, TARGET if died else SOURCE)
            except Exception as error:
                result[key] = None; note(f"{result['name']}: {key}: {type(error).__name__} {error}")
            finally: amqp.close()

def old_publisher(raw, body):
    def publish(amqp):
        try: amqp.publish("", SOURCE, raw, body)
        except Closed as closed: return str(closed)
    return publish

def new_publisher(payload):
    def publish(_amqp):
        connection = Amqp10()
        try: outcome = connection.publish("/queues/" + SOURCE, payload)
        finally: connection.close()
        return None if outcome == "ACCEPTED" else outcome
    return publish

HISTORIES = [
    ("rejected three times", [(SOURCE, "rejected"), (TARGET, "rejected"), (SOURCE, "rejected")], True, properties(), "conversion-dead"),
    ("expired, then rejected", [(SOURCE, "expired"), (TARGET, "rejected"), (SOURCE, "rejected"), (TARGET, "rejected"), (SOURCE, "rejected")], True,
        properties(expiration="50", headers=table(("h", ("I", 1)))), "conversion-dead"),
    ("by its own keys", [(SOURCE, "rejected")], False, properties(headers=table(("CC", ("A", [("S", "conversion-cc")])), ("BCC", ("A", [("S", "b")])))), "conversion-cc"),
]

def record_history(name, steps, with_key, raw, last):
    result = {"name": name, "published": hexed(raw, b"body"), "steps": steps, "with_key": with_key, "last": last}
    for via in ("amqp091", "amqp10"):
        amqp = Amqp091()
        for queue in (SOURCE, TARGET, "conversion-cc"): amqp.delete(queue)
        for queue, other in ((SOURCE, TARGET), (TARGET, SOURCE)):
            amqp.declare(queue, table(("x-dead-letter-exchange", ("S", "")), *[("x-dead-letter-routing-key", ("S", other))] * with_key))
        amqp.confirms(); amqp.declare("conversion-cc"); amqp.publish("", SOURCE, raw, b"body")
        if not with_key: amqp.ack(amqp.get("conversion-cc")[0])
        for queue, reason in steps:
            if reason == "rejected": amqp.reject(amqp.get(queue)[0])
        result[via] = take(amqp, via, last); amqp.close()
    return result

only = sys.argv[2] if len(sys.argv) > 2 else ""
if only.startswith("stamps="):
    old("stamps= nothing"); old("stamps= its own timestamp", timestamp=1600000000)
    old("stamps= its own header", headers=table(("timestamp_in_ms", ("l", 1600000000123)), ("h", ("I", 1))))
    old("stamps= its own header and timestamp", timestamp=1600000000, headers=table(("timestamp_in_ms", ("l", 1600000000123))))
    old("stamps= its own node", headers=table(("x-routed-by", ("S", "elsewhere")), ("x-opt-rabbitmq-sent-time", ("l", 1))))
    new("stamps= body only", BODY); new("stamps= its own creation-time", bare(creation_time=timestamp(1600000000123)) + BODY)
    new("stamps= its own annotations", annotations(symbol("x-opt-rabbitmq-received-time"), timestamp(1600000000123), symbol("x-routed-by"),
        utf8("elsewhere"), symbol("x-opt-rabbitmq-sent-time"), timestamp(1), symbol("x-other"), TRUE) + BODY)
    only = "stamps="; HISTORIES.clear()
results = {"server": "RabbitMQ 4.3.6", "date": datetime.date.today().isoformat(), "queue": SOURCE, "dead_letter_queue": TARGET, "amqp091": [], "amqp10": [], "refused": [], "histories": []}
for name, raw, body in OLD:
    if only in name:
        entry = {"name": name, "published": hexed(raw, body)}; record(old_publisher(raw, body), entry); results["amqp091"].append(entry)
for name, payload in NEW:
    if only in name:
        entry = {"name": name, "published": payload.hex()}; record(new_publisher(payload), entry); results["amqp10"].append(entry)
for name, payload in REFUSED:
    if only in name:
        entry = {"name": name, "published": payload.hex()}; record(new_publisher(payload), entry); results["refused"].append(entry)
results["histories"] = [record_history(*history) for history in HISTORIES if only in history[0]]
amqp = declare()
for queue in (SOURCE, TARGET, "conversion-cc"): amqp.delete(queue)
json.dump(results, sys.stdout, indent=0); print()
