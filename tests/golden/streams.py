#!/usr/bin/env python3
"""Streams over AMQP 0-9-1 and 1.0: what a broker answers to declarations, consumers, filters and publishers.

    streams.py record AMQP_PORT > streams.json
        plays all against a RabbitMQ, in the vhost /, with guest/guest
    streams.py play AMQP_PORT
        plays the same against any broker

Each message is confirmed before the next one is published, so that it has a chunk of its own. Needs pika.
"""
import collections, datetime, decimal, json, struct, sys, time
import pika
from pika import exceptions
import wire
from wire import NULL, S, Y, B, M, U, Ended, Reader, args, described, encode

PORT = int(sys.argv[2])
Q, TARGET, EXCHANGE = "golden-stream", "golden-stream-target", "golden-stream-exchange"
FILLED = "golden-stream-filled"
STREAM = {"x-queue-type": "stream"}
PATIENCE = 5

# --- scenarios ------------------------------------------------------------------------------------------------------

SCENARIOS = []
def scenario(name, call, *given, **options): SCENARIOS.append((name, lambda: call(*given, **options)))

def compact(value): return json.dumps(value, separators=(",", ":"), default=str)

# --- AMQP 0-9-1 -----------------------------------------------------------------------------------------------------

class Typed:
    """A value of a table with its type's letter, as it is sent. Tables that are received become the same, as a list."""
    def __init__(self, letter, value): self.letter, self.value = letter, value
    def encode(self):
        form = {"b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "f": "f", "d": "d", "T": "Q"}[self.letter]
        return self.letter.encode() + struct.pack(">" + form, self.value)
    def __repr__(self): return f"{self.letter}{self.value}"

class Tables:
    """Types of what comes in tables, while `typed` is set: pika has no use for them, and needs plain values to connect."""
    typed = False
    plain_decode, plain_encode = pika.data.decode_value, pika.data.encode_value
    def decode(encoded, offset):
        value, end = Tables.plain_decode(encoded, offset)
        return ([encoded[offset:offset + 1].decode(), plain(value)] if Tables.typed else value), end
    def encode(pieces, value):
        if not isinstance(value, Typed): return Tables.plain_encode(pieces, value)
        pieces.append(value.encode()); return len(pieces[-1])
pika.data.decode_value, pika.data.encode_value = Tables.decode, Tables.encode

def plain(value):
    if isinstance(value, bytes): return value.hex()
    if isinstance(value, (decimal.Decimal, datetime.datetime)): return str(value)
    return value

class Old:
    """A connection and its channel."""
    def __init__(self, confirms=False):
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT, blocked_connection_timeout=PATIENCE))
        self.channel = self.connection.channel()
        if confirms: self.channel.confirm_delivery()
    def publish(self, queue, *bodies, exchange="", **properties):
        for body in bodies: self.channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties), mandatory=not exchange)
    def close(self):
        Tables.typed = False
        try: self.connection.close()
        except exceptions.AMQPError: pass

def answered(act):
    """What `act` returns, or the error of the broker."""
    try: return act()
    except exceptions.ChannelClosedByBroker as error: return {"scope": "channel", "code": error.reply_code, "text": error.reply_text}
    except exceptions.ConnectionClosedByBroker as error: return {"scope": "connection", "code": error.reply_code, "text": error.reply_text}
    except exceptions.NackError: return "nack"
    except exceptions.UnroutableError as error: return {"returned": error.messages[0].method.reply_code}

def on_channel(*calls):
    """The answer to the last call, or the first refusal."""
    old = Old()
    try:
        for call in calls: result = answered(lambda: call(old.channel))
        return result
    finally: old.close()

def declare(arguments=None, queue=Q, durable=True, type="stream", **properties):
    def call(channel):
        given = {"x-queue-type": type} if type else {}
        channel.queue_declare(queue, durable=durable, arguments={**given, **(arguments or {})}, **properties)
        return "declared"
    return call

# Declarations.
for properties in (dict(durable=False), dict(exclusive=True), dict(auto_delete=True), dict(durable=False, exclusive=True),
        dict(durable=False, auto_delete=True), dict(exclusive=True, auto_delete=True), dict(durable=False, exclusive=True, auto_delete=True)):
    scenario(f"declare {compact(properties)}", on_channel, declare(**properties))
scenario("declare", on_channel, declare())
scenario("declare server-named", on_channel, declare(queue=""))
scenario("declare server-named and not durable", on_channel, declare(queue="", durable=False))
scenario("declare reserved name", on_channel, declare(queue="amq.stream"))
scenario("declare refused argument and not durable", on_channel, declare({"x-max-priority": 5}, durable=False))
scenario("declare wrong value and not durable", on_channel, declare({"x-max-length-bytes": -1}, durable=False))
scenario("declare filter size and not durable", on_channel, declare({"x-stream-filter-size-bytes": 5}, durable=False))
scenario("declare filter size and segment size", on_channel, declare({"x-stream-filter-size-bytes": 5, "x-stream-max-segment-size-bytes": Typed("l", 3 * 10**9 + 1)}))
scenario("declare two wrong values", on_channel, declare({"x-max-age": "x", "x-max-length-bytes": -1}))
VALUES = {
    "x-max-age": ["1Y", "1M", "1D", "7h", "1m", "10s", "0s", "01s", "1000s", "1y", "1d", "1H", "1S", "1W", "1", "s", "", "h1", "1h30m", "1.5h", "-1h", "+1h",
        " 1h", "1h ", "1 h", "1ms", "99999999999999Y", 5, True],
    "x-max-length-bytes": [0, -1, "5", True, None, Typed("d", 1.5), 5000, Typed("l", 2**62), Typed("b", 5), Typed("T", 5)],
    "x-max-length": [5, 0, -1, "x"],
    "x-stream-max-segment-size-bytes": [0, -1, 1, 1000, "5", True, None, Typed("d", 1.5), 500000000, Typed("l", 3 * 10**9), Typed("l", 3 * 10**9 + 1)],
    "x-stream-filter-size-bytes": [15, 16, 17, 255, 256, 0, -1, "16", True, None, Typed("d", 16.5), Typed("b", 16), Typed("l", 16)],
    "x-initial-cluster-size": [0, -1, 1, 3, "3", True, None, Typed("d", 1.5)],
    "x-queue-leader-locator": ["client-local", "balanced", "random", "least-leaders", "min-masters", "none", "", 5],
    "x-queue-type": ["Stream", "rabbit_stream_queue", ""],
    "x-dead-letter-exchange": ["e", "", 5], "x-dead-letter-routing-key": ["k", 5], "x-dead-letter-strategy": ["at-most-once", "none"],
    "x-message-ttl": [1000, -1], "x-expires": [60000, 0], "x-overflow": ["drop-head", "reject-publish", "none"], "x-max-priority": [5],
    "x-single-active-consumer": [True, False, "x"], "x-delivery-limit": [5], "x-queue-mode": ["lazy"], "x-queue-version": [2],
    "x-queue-master-locator": ["min-masters"], "x-quorum-initial-group-size": [1, 0], "x-quorum-target-group-size": [1],
    "x-max-in-memory-length": [5], "x-max-in-memory-bytes": [5], "x-consumer-timeout": [1000, -1], "x-consumer-disconnected-timeout": [1000],
    "x-delayed-retry-type": ["all"], "x-delayed-retry-min": [1000], "x-delayed-retry-max": [1000], "x-super-stream": ["s"],
    "x-stream-offset": ["first"], "x-unknown": ["value", 5],
}
for name, values in VALUES.items():
    for value in values: scenario(f"declare {name}={compact(value)}", on_channel, declare({name: value}))
for name in ("x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size"):
    scenario(f"declare classic with {name}", on_channel, declare({name: "1h" if name == "x-max-age" else 16}, type="classic"))
OTHERS = {"x-max-age": ("1h", "2h"), "x-max-length-bytes": (5000, 6000), "x-stream-max-segment-size-bytes": (1000, 2000),
    "x-stream-filter-size-bytes": (16, 32), "x-initial-cluster-size": (1, 3), "x-queue-leader-locator": ("client-local", "balanced"), "x-unknown": ("a", "b")}
for name, (one, other) in OTHERS.items():
    scenario(f"redeclare {name} missing", on_channel, declare({name: one}), declare())
    scenario(f"redeclare {name} added", on_channel, declare(), declare({name: one}))
    scenario(f"redeclare {name} changed", on_channel, declare({name: one}), declare({name: other}))
scenario("redeclare equal", on_channel, declare({"x-max-length-bytes": 5000}), declare({"x-max-length-bytes": Typed("l", 5000)}))
scenario("redeclare x-max-age in another unit", on_channel, declare({"x-max-age": "1h"}), declare({"x-max-age": "60m"}))
scenario("redeclare two changed", on_channel, declare({"x-max-age": "1h", "x-max-length-bytes": 5}), declare({"x-max-age": "2h", "x-max-length-bytes": 6}))
scenario("redeclare as classic", on_channel, declare(), declare(type="classic"))
scenario("redeclare without a type", on_channel, declare(), declare(type=None))
scenario("redeclare as quorum", on_channel, declare(), declare(type="quorum"))
scenario("redeclare classic as stream", on_channel, declare(type="classic"), declare())
scenario("redeclare not durable", on_channel, declare(), declare(durable=False))
scenario("redeclare exclusive", on_channel, declare(), declare(exclusive=True))
scenario("redeclare auto-delete", on_channel, declare(), declare(auto_delete=True))
scenario("redeclare passive", on_channel, declare(), declare(passive=True, type=None, durable=False))

# Calls on a stream with three messages, by a second channel that consumes or not.
def calls(*calls, messages=3, arguments=None, consumer=False, confirms=False):
    writer = Old(confirms=True)
    declare(arguments)(writer.channel)
    writer.publish(Q, *(f"m{at}" for at in range(messages)))
    if consumer: writer.channel.basic_qos(prefetch_count=5); writer.channel.basic_consume(Q, lambda *_: None)
    try: return [on_channel(*calls), on_channel(declare(passive=True, type=None))]
    finally: writer.close()

scenario("get", calls, lambda channel: channel.basic_get(Q))
scenario("get, acknowledged", calls, lambda channel: channel.basic_get(Q, auto_ack=True))
scenario("get from an empty one", calls, lambda channel: channel.basic_get(Q), messages=0)
scenario("purge", calls, lambda channel: channel.queue_purge(Q))
scenario("purge an empty one", calls, lambda channel: channel.queue_purge(Q), messages=0)
for options in (dict(), dict(if_empty=True), dict(if_unused=True)):
    for consumer in (False, True):
        scenario(f"delete {compact(options)}, {'consumed' if consumer else 'not consumed'}", calls,
            lambda channel, options=options: channel.queue_delete(Q, **options).method.message_count, consumer=consumer)
scenario("delete an empty one, if empty", calls, lambda channel: channel.queue_delete(Q, if_empty=True).method.message_count, messages=0)

# Consumers.
class Consumer:
    """What a consumer gets, each acknowledged unless `settle` does something else; it stops at the body `end`."""
    def __init__(self, old, prefetch=10, settle=None, queue=Q, **options):
        self.old, self.got = old, []
        self.settle = settle or (lambda channel, tag: channel.basic_ack(tag))
        if prefetch is not None: old.channel.basic_qos(prefetch_count=prefetch)
        old.channel.add_on_cancel_callback(lambda frame: self.got.append("cancelled"))
        Tables.typed = True
        self.tag = old.channel.basic_consume(queue, self.take, **options)
    def take(self, channel, deliver, properties, body):
        self.got.append([properties.headers, deliver.redelivered, body.decode()])
        self.settle(channel, deliver.delivery_tag)
    def until(self, done, patience=PATIENCE):
        end = time.monotonic() + patience
        while not done() and time.monotonic() < end: self.old.connection.process_data_events(0.05)
        return done()
    def ended(self):
        done = self.until(lambda: self.got and self.got[-1] == "cancelled" or any(item[2] == "end" for item in self.got), 2)
        return self.got if done else [*self.got, "nothing more"]

def consume(arguments=None, messages=5, end=None, **options):
    """Publishes m0 and so on, opens a consumer, publishes `end`, and returns what came up to that."""
    writer, reader = Old(confirms=True), Old()
    try:
        declare()(writer.channel)
        writer.publish(Q, *(f"m{at}" for at in range(messages)))
        def act():
            consumer = Consumer(reader, arguments=arguments, **options)
            writer.publish(Q, "end", headers=end)
            return consumer.ended()
        return answered(act)
    finally: reader.close(); writer.close()

for prefetch in (None, 0): scenario(f"consume with prefetch {prefetch}", consume, prefetch=prefetch)
scenario("consume with automatic acknowledgement", consume, auto_ack=True)
scenario("consume with automatic acknowledgement and without prefetch", consume, auto_ack=True, prefetch=None)
scenario("consume exclusively", consume, exclusive=True)
scenario("consume with priority", consume, {"x-priority": 5})
scenario("consume with a wrong priority", consume, {"x-priority": "a"})
scenario("consume with an unknown argument", consume, {"x-unknown": 5})
scenario("consume with a timeout", consume, {"x-consumer-timeout": 1000})
for offset in ("first", "last", "next", "First", "", "x", 0, 3, 4, 5, 9, 1000000, Typed("l", 2), Typed("b", 2), Typed("u", 2), Typed("s", 2), -1, Typed("l", -1),
        Typed("l", 2**62), Typed("d", 2.0), True, None, b"first", [1], {"a": 1}, Typed("T", 0), Typed("T", 4102444800), "1h", "10s", "1D", "1Y", "0s", "1h30m", "-1h", "5", "1"):
    scenario(f"consume from {compact(offset)}", consume, {"x-stream-offset": offset})
scenario("consume from first an empty one", consume, {"x-stream-offset": "first"}, messages=0)
scenario("consume from last an empty one", consume, {"x-stream-offset": "last"}, messages=0)
scenario("consume from an interval an empty one", consume, {"x-stream-offset": "1h"}, messages=0)

def timestamps():
    writer, readers = Old(confirms=True), []
    declare()(writer.channel)
    writer.publish(Q, "m0", "m1"); between = int(time.time()) + 2
    time.sleep(between - time.time() + 0.2); writer.publish(Q, "m2", "m3")
    try:
        for offset in (Typed("T", between), Typed("T", between - 60), "1s"):
            reader = Old(); readers.append(reader)
            if offset == "1s": time.sleep(max(0, between + 0.9 - time.time()))
            readers[-1] = Consumer(reader, arguments={"x-stream-offset": offset})
            Tables.typed = False
        writer.publish(Q, "end"); Tables.typed = True
        return [reader.ended() for reader in readers]
    finally:
        for reader in readers: reader.old.close()
        writer.close()
scenario("consume from timestamps", timestamps)

VALUE = "x-stream-filter-value"
def filtered(arguments, end=None, values=("a", "b", None, "a", ""), **options):
    """Each message has a filter value, or none, and is a chunk of its own."""
    writer, reader = Old(confirms=True), Old()
    try:
        declare(options)(writer.channel)
        for at, value in enumerate(values): writer.publish(Q, f"m{at} {value}", headers=None if value is None else {VALUE: value})
        def act():
            consumer = Consumer(reader, arguments={"x-stream-offset": "first", **arguments})
            writer.publish(Q, "end", headers=None if end is None else {VALUE: end})
            return consumer.ended()
        return answered(act)
    finally: reader.close(); writer.close()

for match in (None, True, False, "true", 1):
    more = {} if match is None else {"x-stream-match-unfiltered": match}
    for given in ("a", "b", ["a", "b"], ["b", 5], [5], [], "", 5, True, None, b"a", {"a": 1}, "none"):
        if match in ("true", 1) and given != "a": continue
        scenario(f"consume with filter {compact(given)}, unfiltered {compact(match)}", filtered, {"x-stream-filter": given, **more}, "b" if given in ("b", ["b", 5]) else "a")
scenario("consume with unfiltered True alone", filtered, {"x-stream-match-unfiltered": True})
scenario("consume with a filter of size 255", filtered, {"x-stream-filter": "a"}, "a", **{"x-stream-filter-size-bytes": 255})

def settled(settle):
    """What comes with prefetch 2 if each is settled so, and what a second consumer gets."""
    return consume({"x-stream-offset": "first"}, messages=3, prefetch=2, settle=settle)
scenario("settle with ack", settled, lambda channel, tag: channel.basic_ack(tag))
scenario("settle with nack", settled, lambda channel, tag: channel.basic_nack(tag))
scenario("settle with nack without requeue", settled, lambda channel, tag: channel.basic_nack(tag, requeue=False))
scenario("settle with reject", settled, lambda channel, tag: channel.basic_reject(tag))
scenario("settle with reject without requeue", settled, lambda channel, tag: channel.basic_reject(tag, requeue=False))
scenario("settle with nothing", settled, lambda channel, tag: None)
scenario("settle multiple", settled, lambda channel, tag: tag % 2 or channel.basic_ack(tag, multiple=True))
scenario("settle with recover", settled, lambda channel, tag: tag == 2 and channel.basic_recover(requeue=True))

def global_qos():
    def act(channel):
        channel.basic_qos(prefetch_count=5, global_qos=True)
        return bool(channel.basic_consume(Q, lambda *_: None))
    return on_channel(declare(), act)
scenario("global prefetch", global_qos)

def cancelled(act):
    writer, reader = Old(confirms=True), Old()
    try:
        declare()(writer.channel)
        consumer = Consumer(reader, prefetch=5, arguments={"x-stream-offset": "first"})
        Tables.typed = False
        writer.publish(Q, "m0"); consumer.until(lambda: consumer.got)
        act(writer.channel, consumer)
        return consumer.ended()
    finally: reader.close(); writer.close()
scenario("consumer of a deleted stream", cancelled, lambda channel, consumer: channel.queue_delete(Q))
scenario("consumer cancelled", cancelled, lambda channel, consumer: (consumer.old.channel.basic_cancel(consumer.tag), channel.basic_publish("", Q, b"end")))

# Publishing over AMQP 0-9-1, and what comes back.
T0 = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
ALL = dict(content_type="text/plain", content_encoding="gzip", priority=9, correlation_id="corr", reply_to="a b", expiration="60000", message_id="id",
    timestamp=1700000000, type="kind", user_id="guest", app_id="app", cluster_id="cluster", delivery_mode=2)
HEADERS = {"string": "text", "utf": "\u00e9", "empty": "", "bytes": b"\xff\x00", "true": True, "false": False, "time": T0, "decimal": decimal.Decimal("1.5"), "void": None,
    "double": Typed("d", 0.1), "float": Typed("f", 0.5), "b": Typed("b", -5), "B": Typed("B", 200), "s": Typed("s", -300), "u": Typed("u", 60000), "I": Typed("I", -70000),
    "i": Typed("i", 4000000000), "l": Typed("l", 2**40), "small l": Typed("l", 5), "list": [1, "a", [True], {"k": 1}], "empty list": [], "table": {"a": 1, "b": {"c": "d"}},
    "empty table": {}, "x-opt-a": "annotation", "x-number": 7, "x-list": [1, "a"], "x-table": {"a": 1}, "x-void": None, "x-time": T0, "x-bytes": b"\xff"}

def round_trip(body=b"m", bodies=None, exchange=False, **properties):
    writer, reader = Old(confirms=True), Old()
    try:
        declare()(writer.channel)
        if exchange:
            writer.channel.exchange_declare(EXCHANGE, "topic", durable=True); writer.channel.queue_bind(Q, EXCHANGE, "#")
            writer.publish("some.key", body, exchange=EXCHANGE, **properties)
        else: writer.publish(Q, body, **properties)
        reader.channel.basic_qos(prefetch_count=5); got = []
        Tables.typed = True
        reader.channel.basic_consume(Q, lambda *message: got.append(message[1:]), arguments={"x-stream-offset": "first"})
        end = time.monotonic() + PATIENCE
        while not got and time.monotonic() < end: reader.connection.process_data_events(0.05)
        deliver, properties, body = got[0]
        return {"exchange": deliver.exchange, "key": deliver.routing_key, "redelivered": deliver.redelivered, "body": body.hex(),
            "properties": {key: value for key, value in sorted(vars(properties).items()) if value is not None}}
    finally: reader.close(); writer.close()

scenario("come back, nothing", round_trip)
scenario("come back, empty body", round_trip, b"")
scenario("come back, through an exchange", round_trip, exchange=True)
scenario("come back, all properties", round_trip, **ALL)
for name, value in ALL.items(): scenario(f"come back, {name}", round_trip, **{name: value})
scenario("come back, transient", round_trip, delivery_mode=1)
scenario("come back, priority 0", round_trip, priority=0)
scenario("come back, all headers", round_trip, headers=HEADERS)
for name, value in HEADERS.items(): scenario(f"come back, header {name}", round_trip, headers={name: value})
scenario("come back, empty table of headers", round_trip, headers={})
scenario("come back, filter value", round_trip, headers={VALUE: "a"})
scenario("come back, filter value of another type", round_trip, headers={VALUE: 5})
scenario("come back, CC and BCC", round_trip, headers={"CC": ["golden-none"], "BCC": ["golden-none"]})
scenario("come back, message and correlation as uuid", round_trip, message_id="urn:uuid:00000000-0000-0000-0000-000000000041", correlation_id="00000000-0000-0000-0000-000000000041")
scenario("come back, number as message id", round_trip, message_id="5")
scenario("come back, header with a long key", round_trip, headers={"k" * 128: "v"})
scenario("come back, type amqp-1.0", round_trip, type="amqp-1.0", body=encode(["described", [["ulong", 0x77], S("v")]]))
scenario("come back, x-death", round_trip, headers={"x-death": [{"queue": "q", "reason": "expired", "count": Typed("l", 1), "exchange": "", "routing-keys": ["q"], "time": T0}]})
scenario("come back, x-stream-offset", round_trip, headers={"x-stream-offset": 5})

def published(channel_does):
    """What a publisher sees, and how many messages there are."""
    writer = Old(confirms=True)
    try:
        declare()(writer.channel)
        result = answered(lambda: channel_does(writer))
        return [result, on_channel(declare(passive=True, type=None))]
    finally: writer.close()

scenario("publish mandatory", published, lambda old: old.publish(Q, "m"))
def transaction(commit):
    old, reader = Old(), Old()
    try:
        declare()(old.channel); old.channel.tx_select()
        old.publish(Q, "m0", "m1")
        old.channel.tx_commit() if commit else old.channel.tx_rollback()
        old.publish(Q, "end"); old.channel.tx_commit()
        return Consumer(reader, arguments={"x-stream-offset": "first"}).ended()
    finally: reader.close(); old.close()
scenario("transaction committed", transaction, True)
scenario("transaction rolled back", transaction, False)

def expiring():
    writer = Old(confirms=True)
    try:
        declare()(writer.channel); writer.publish(Q, "gone", expiration="0"); writer.publish(Q, "soon", expiration="1"); time.sleep(0.3)
        reader = Old(); consumer = Consumer(reader, arguments={"x-stream-offset": "first"})
        Tables.typed = False
        writer.publish(Q, "end"); Tables.typed = True
        try: return consumer.ended()
        finally: reader.close()
    finally: writer.close()
scenario("publish with expiration", expiring)

def masked_deaths(got):
    for item in got:
        if isinstance(item, list) and item[0] and "x-death" in item[0]:
            for death in item[0]["x-death"][1]: death[1]["time"] = ["T", "time"]
    return got

def dead_letters():
    writer = Old(confirms=True)
    try:
        declare()(writer.channel)
        writer.channel.queue_declare(TARGET, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": Q})
        writer.publish(TARGET, "dead", content_type="text/plain", headers={"a": "b", VALUE: "a"})
        while (got := writer.channel.basic_get(TARGET))[0] is None: pass
        writer.channel.basic_reject(got[0].delivery_tag, requeue=False)
        while writer.channel.queue_declare(Q, passive=True).method.message_count == 0: time.sleep(0.02)
        reader = Old(); consumer = Consumer(reader, arguments={"x-stream-offset": "first", "x-stream-filter": "a"})
        Tables.typed = False
        writer.publish(Q, "end", headers={VALUE: "a"}); Tables.typed = True
        try: return masked_deaths(consumer.ended())
        finally: reader.close()
    finally: writer.close()
scenario("dead letter of a classic queue", dead_letters)

# --- AMQP 1.0 -------------------------------------------------------------------------------------------------------

SECTIONS = {0x70: "header", 0x71: "delivery-annotations", 0x72: "message-annotations", 0x73: "properties", 0x74: "application-properties",
    0x75: "data", 0x76: "sequence", 0x77: "value", 0x78: "footer"}
def sections(payload):
    reader, out = Reader(payload), []
    while reader.at < len(payload):
        code, value = reader.value()[1]
        # What is left out at the end has its default.
        if code[1] == 0x70: value = ["list", value[1] + [NULL, NULL, NULL, B(False), U(0)][len(value[1]):]]
        if value[0] == "map": value = ["map", sorted(value[1], key=lambda pair: str(pair[0]))]
        out.append([SECTIONS.get(code[1], code[1]), value])
    return out

class Ten(wire.Client):
    def __init__(self): super().__init__(PORT); self.next_in = 0
    def attach(self, handle, receives, source, target, send=0, receive=0, name=None, properties=NULL):
        self.write(described(0x12, S(name or f"link {handle}"), U(handle), B(receives), ["ubyte", send], ["ubyte", receive], source, target, NULL, NULL,
            NULL if receives else U(0), NULL, NULL, NULL, properties))
        fields, _ = self.expect("attach")
        return fields
    def receiver(self, handle, queue, filters=NULL, **options):
        source = described(0x28, S(f"/queues/{queue}"), U(0), NULL, U(0), B(False), NULL, NULL, filters)
        return self.attach(handle, True, source, described(0x29), **options)
    def sender(self, handle, queue):
        fields = self.attach(handle, False, described(0x28), described(0x29, S(f"/queues/{queue}")))
        self.expect("flow")
        return fields
    def publish(self, handle, payload):
        self.send(payload, settled=False, handle=handle)
        fields, _ = self.expect("disposition")
        return fields[4][1][0]
    def grant(self, handle, count, credit, drain=False, echo=False):
        self.write(described(0x13, U(self.next_in), U(2048), U(self.sent), U(2048), U(handle), U(count), U(credit), NULL, B(drain), B(echo)))
    def settle(self, first, last, state, settled=True):
        self.write(described(0x15, B(True), U(first), U(last), B(settled), state))
    def delivery(self, fields, payload):
        while len(fields) > 5 and fields[5] == B(True):
            self.next_in += 1
            more, part = self.expect("transfer"); payload += part; fields = [*fields[:5], *(more[5:] or [B(False)])]
        self.next_in += 1
        return payload
    def drained(self, handle, count=0, credit=100):
        """Everything that there is: each transfer's fields and payload."""
        self.grant(handle, count, credit, drain=True); out = []
        while True:
            what, fields, payload = self.read()
            if what == "transfer": out.append((fields, self.delivery(fields, payload)))
            elif what == "flow" and len(fields) > 6 and fields[4] == U(handle) and fields[6] == U(0): return out
            elif what in ("end", "detach", "close"): raise Ended(refusal(what, fields))
    def close(self):
        try: self.write(described(0x18)); self.expect("close")
        except (Ended, OSError): pass
        super().close()

def refusal(what, fields):
    """An internal error is told without the text, which is a stack trace."""
    error = fields[-1] if fields else NULL
    condition, text = [error[1][1][1][at][1] for at in (0, 1)] if error[0] == "described" else (None, None)
    return [what, condition, None if condition == "amqp:internal-error" else text]

def in_session(act):
    client = Ten()
    try: return act(client)
    except Ended as ended:
        what, condition, text = [*ended.args[0], None, None][:3]
        return [what, condition, None if condition == "amqp:internal-error" else text]
    finally: client.close()

def offset_of(payload):
    """The offset with its type, and the body's bytes or value."""
    offset = body = None
    for name, value in sections(payload):
        if name == "message-annotations": offset = dict((key[1], value) for key, value in value[1]).get("x-stream-offset")
        elif name in ("data", "value", "sequence"): body = bytes.fromhex(value[1]).decode() if name == "data" else value[1]
    return [offset, body]

# Milliseconds of the whole second between m3 and m4.
NOW = [0]
def shifted(value, by):
    """Timestamps near to it are given and recorded relative to it."""
    if not isinstance(value, (list, tuple)): return value
    if len(value) == 2 and value[0] == "timestamp" and abs(value[1] + min(by, 0)) < 10**8: return ["timestamp", value[1] + by]
    return [shifted(item, by) for item in value]

def D(name, value): return ["described", [Y(name), value]]
def OFFSET(value): return [Y("offset"), D("rabbitmq:stream-offset-spec", value)]
FIRST = OFFSET(S("first"))
def FILTER(value): return [Y("filter"), D("rabbitmq:stream-filter", value)]
def UNFILTERED(value): return [Y("unfiltered"), D("rabbitmq:stream-match-unfiltered", value)]
def LIST(*items): return ["list", list(items)]

FILLING = [("m0", "a"), ("m1", "b"), ("m2", None), ("m3", "a"), ("m4", None), ("m5", "b")]
def fill(client):
    """Once: a message for each chunk, the last two later than the others."""
    old = Old(); declare(queue=FILLED)(old.channel)
    old.close()
    client.sender(9, FILLED)
    for at, (body, value) in enumerate(FILLING):
        if at == 4:
            second = int(time.time()) + 2; NOW[0] = second * 1000; time.sleep(second + 0.4 - time.time())
        annotations = b"" if value is None else encode(["described", [["ulong", 0x72], M([Y(VALUE), S(value)])]])
        client.publish(9, annotations + encode(["described", [["ulong", 0x75], ["binary", body.encode()]]]))
    client.write(described(0x16, U(9), B(True))); client.expect("detach")

def attached(filters, queue=FILLED):
    """Filters in the source of the reply, and what comes."""
    def act(client):
        if not NOW[0]: fill(client)
        fields = client.receiver(1, queue, NULL if filters is None else shifted(M(*filters), NOW[0]))
        if fields[5] == NULL: client.expect("flow")
        source = fields[5][1][1][1]
        listed = source[7] if len(source) > 7 else NULL
        if listed[0] == "map": listed = ["map", sorted(listed[1], key=lambda pair: str(pair[0]))]
        return [shifted(listed, -NOW[0]), [offset_of(payload) for _, payload in client.drained(1)]]
    return in_session(act)

# Times are counted from the one between m3 and m4.
for value in (S("first"), S("last"), S("next"), S("First"), S(""), S("x"), S("1h"), S("10m"), S("1Y"), S("0s"), S("1h30m"), S("5"), Y("first"), Y("1h"), ["ubyte", 2],
        ["ushort", 2], U(2), U(0), U(5), U(6), U(100), ["ulong", 2], ["ulong", 2**62], ["ulong", 2**63], ["byte", 2], ["short", 2], ["int", 2], ["long", 2], ["int", -1], ["long", -1],
        ["timestamp", 0], ["timestamp", 200], ["timestamp", 900], ["timestamp", 1000], ["timestamp", -60000], ["timestamp", 60000], ["timestamp", 10**12], ["timestamp", 4102444800000], ["double", 2.0], B(True), NULL, ["binary", b"first"], LIST(S("first")), ["char", 65],
        ["uuid", "00" * 16], M([S("a"), U(1)])):
    scenario(f"1.0 offset {compact(value)}", attached, [OFFSET(value)])
scenario("1.0 without filters", attached, [])
scenario("1.0 with null as filters", attached, None)
scenario("1.0 offset under another key", attached, [[Y("anything"), D("rabbitmq:stream-offset-spec", S("first"))]])
scenario("1.0 offset under a string as key", attached, [[S("offset"), D("rabbitmq:stream-offset-spec", S("first"))]])
scenario("1.0 offset with a string as descriptor", attached, [[Y("offset"), ["described", [S("rabbitmq:stream-offset-spec"), S("first")]]]])
scenario("1.0 offset with an unknown descriptor", attached, [[Y("rabbitmq:stream-offset-spec"), D("other", S("first"))]])
scenario("1.0 offset not described", attached, [[Y("rabbitmq:stream-offset-spec"), S("first")]])
scenario("1.0 offset twice", attached, [[Y("a"), D("rabbitmq:stream-offset-spec", S("first"))], [Y("b"), D("rabbitmq:stream-offset-spec", U(3))]])
scenario("1.0 offset twice, one wrong", attached, [[Y("a"), D("rabbitmq:stream-offset-spec", U(3))], [Y("b"), D("rabbitmq:stream-offset-spec", S("x"))]])
for value in (S("a"), S("b"), S(""), S("none"), Y("a"), LIST(S("a")), LIST(S("a"), S("b")), LIST(S("b"), U(5)), LIST(U(5)), LIST(), ["array", [S("a"), S("b")]], U(5), B(True), NULL, ["binary", b"a"],
        LIST(Y("a"))):
    scenario(f"1.0 filter {compact(value)}", attached, [FIRST, FILTER(value)])
    scenario(f"1.0 filter {compact(value)}, unfiltered", attached, [FIRST, FILTER(value), UNFILTERED(B(True))])
for value in (B(False), S("true"), U(1), NULL, LIST()):
    scenario(f"1.0 filter a, unfiltered {compact(value)}", attached, [FIRST, FILTER(S("a")), UNFILTERED(value)])
for value in (B(True), B(False)): scenario(f"1.0 unfiltered {compact(value)} alone", attached, [FIRST, UNFILTERED(value)])
scenario("1.0 filter twice", attached, [FIRST, FILTER(S("a")), [Y("other"), D("rabbitmq:stream-filter", S("b"))]])
scenario("1.0 filter not described", attached, [FIRST, [Y("rabbitmq:stream-filter"), S("a")]])
scenario("1.0 filter of JMS", attached, [FIRST, [Y("jms-selector"), D("apache.org:selector-filter:string", S("TRUE"))]])
scenario("1.0 filter and SQL", attached, [FIRST, FILTER(S("a")), [Y("sql-filter"), D("amqp:sql-filter", S("TRUE"))]])
scenario("1.0 filter and properties", attached, [FIRST, FILTER(S("a")), [Y("p"), D("amqp:properties-filter", M([Y("subject"), S("x")]))]])
scenario("1.0 properties and SQL", attached, [FIRST, [Y("p"), D("amqp:properties-filter", M([Y("subject"), S("x")]))], [Y("sql-filter"), D("amqp:sql-filter", S("TRUE"))]])
scenario("1.0 properties twice", attached, [FIRST, [Y("p"), D("amqp:properties-filter", M([Y("subject"), S("x")]))], [Y("q"), D("amqp:properties-filter", M([Y("subject"), NULL]))]])
scenario("1.0 SQL under another key", attached, [FIRST, [Y("any"), D("amqp:sql-filter", S("TRUE"))]])
scenario("1.0 SQL with its number", attached, [FIRST, [Y("sql-filter"), ["described", [["ulong", 0x120], S("TRUE")]]]])
scenario("1.0 properties with their numbers", attached, [FIRST, [Y("p"), ["described", [["ulong", 0x173], M([Y("subject"), NULL])]]], [Y("a"), ["described", [["ulong", 0x174], M([S("k"), NULL])]]]])

def terminus(value):
    """Fields with their defaults, and without nulls at the end."""
    fields = [*value[1][1][1], *[NULL] * 5][:max(5, len(value[1][1][1]))]
    fields = [default if field == NULL else field for field, default in zip(fields, [NULL, U(0), Y("session-end"), U(0), B(False)])] + fields[5:]
    while fields[-1] == NULL: fields.pop()
    return fields

def looks(queue=FILLED, send=0, receive=0, mode=NULL, receives=True):
    """The fields of a reply to an attach."""
    def act(client):
        if not NOW[0]: fill(client)
        source = described(0x28, S(f"/queues/{queue}"), U(2), Y("never"), U(5), B(False), NULL, mode, M(FIRST), NULL, ["array", [Y("amqp:accepted:list")]])
        if receives: fields = client.attach(1, True, source, described(0x29, S("mine")), send, receive)
        else: fields = client.attach(1, False, described(0x28, S("mine")), described(0x29, S(f"/queues/{queue}"), U(2), Y("never"), U(5)), send, receive)
        if fields[6 if receives else 5] != NULL and fields[5 if receives else 6] == NULL: client.expect("flow")
        names = ("name", "handle", "role", "snd-settle-mode", "rcv-settle-mode", "source", "target", "unsettled", "incomplete-unsettled", "initial-delivery-count",
            "max-message-size", "offered-capabilities", "desired-capabilities", "properties")
        if fields[10:11] and fields[10][0] == "ulong": fields[10] = ["ulong", "size"]
        found = {name: value for name, value in zip(names, fields) if value != NULL}
        found = {"snd-settle-mode": ["ubyte", 2], "rcv-settle-mode": ["ubyte", 0], **found}
        if receives: found.pop("target", None)
        return {name: terminus(value) if name in ("source", "target") else value for name, value in found.items()}
    return in_session(act)
for send in (0, 1, 2):
    for receive in (0, 1): scenario(f"1.0 attach with settle modes {send} and {receive}", looks, send=send, receive=receive)
for mode in ("copy", "move", "other"): scenario(f"1.0 attach with distribution mode {mode}", looks, mode=Y(mode))
scenario("1.0 sender", looks, receives=False)

OUTCOMES = {"accepted": described(0x24), "rejected": described(0x25), "released": described(0x26), "modified": described(0x27, B(True)),
    "undeliverable here": described(0x27, B(False), B(True)), "nothing": NULL, "received": described(0x23, U(0), ["ulong", 0])}
def disposed(state):
    """Ten credits, of which six are used; another flow shows how much is left. Then the same stream again."""
    def act(client):
        if not NOW[0]: fill(client)
        client.receiver(1, FILLED, M(FIRST)); client.grant(1, 0, 4); ids, flows = [], []
        while len(ids) < 4:
            fields, payload = client.expect("transfer"); ids.append(fields[1][1]); client.delivery(fields, payload)
        client.settle(ids[0], ids[-1], state)
        client.grant(1, 4, 0, echo=True)
        while True:
            what, fields, payload = client.read()
            if what == "transfer": flows.append(offset_of(payload))
            elif what == "flow" and len(fields) > 6 and fields[4] == U(1): flows.append([fields[5], fields[6]]); break
            elif what in ("end", "detach", "close"): return refusal(what, fields)
            elif what == "disposition": flows.append(fields)
        again = client.drained(1, 4)
        return [len(ids), flows, [offset_of(payload) for _, payload in again], [fields[4:5] for fields, _ in again]]
    return in_session(act)
for name, state in OUTCOMES.items(): scenario(f"1.0 settle with {name}", disposed, state)

def pre_settled():
    def act(client):
        client.receiver(1, FILLED, M(FIRST), send=1)
        return [[fields[4:5], offset_of(payload)] for fields, payload in client.drained(1)]
    return in_session(act)
scenario("1.0 settled by the sender", pre_settled)

def deleted():
    def act(client):
        old = Old(); declare()(old.channel); old.close()
        client.receiver(1, Q, M(FIRST)); client.grant(1, 0, 5)
        client.sender(2, Q); client.publish(2, encode(["described", [["ulong", 0x75], ["binary", b"m"]]])); out = []
        on_channel(lambda channel: channel.queue_delete(Q))
        while len(out) < 2:
            what, fields, _ = client.read()
            if what != "transfer": out.append([*refusal(what, fields)[:2], fields[0] if what == "detach" else None])
        return sorted(out, key=str)
    try: return in_session(act)
    except TimeoutError: return "nothing"
scenario("1.0 links of a deleted stream", deleted)

def section(code, value): return encode(["described", [["ulong", code], value]])
def header(*fields): return section(0x70, ["list", list(fields)])
DATA = section(0x75, ["binary", b"m"])
PROPERTIES = ["list", [S("id"), ["binary", b"guest"], S("to"), S("subject"), S("reply"), ["ulong", 789], Y("text/plain"), Y("gzip"), ["timestamp", 1700000001000], ["timestamp", 1700000000000], S("group"), U(9), S("reply group")]]
SIMPLE = M([S("void"), NULL], [S("bool"), B(True)], [S("ubyte"), ["ubyte", 200]], [S("ushort"), ["ushort", 60000]], [S("uint"), U(4000000000)], [S("ulong"), ["ulong", 2**64 - 1]],
    [S("byte"), ["byte", -5]], [S("short"), ["short", -300]], [S("int"), ["int", -70000]], [S("long"), ["long", -2**40]], [S("float"), ["float", 0.5]], [S("double"), ["double", 0.1]],
    [S("char"), ["char", 65]], [S("time"), ["timestamp", 1700000000000]], [S("uuid"), ["uuid", "00" * 15 + "41"]], [S("binary"), ["binary", b"\xff"]], [S("string"), S("\u00e9")], [S("symbol"), Y("sym")])
MESSAGES = {
    "data": DATA, "two data": DATA + DATA, "value": section(0x77, S("v")), "null": section(0x77, NULL), "sequence": section(0x76, LIST(U(1), S("a"))),
    "empty data": section(0x75, ["binary", b""]),
    "header durable": header(B(True)) + DATA, "header not durable": header(B(False)) + DATA, "header all": header(B(True), ["ubyte", 9], U(60000), B(True), U(3)) + DATA,
    "header empty": header() + DATA,
    "header priority": header(NULL, ["ubyte", 7]) + DATA,
    "delivery annotations": section(0x71, M([Y("x-d"), S("a")])) + DATA,
    "annotations": section(0x72, M([Y("x-opt-a"), S("b")], [Y("x-number"), U(5)], [Y(VALUE), S("a")])) + DATA,
    "annotations of the broker": section(0x72, M([Y("x-exchange"), S("mine")], [Y("x-routing-key"), S("mine")], [Y("x-stream-offset"), S("mine")])) + DATA,
    "properties": section(0x73, PROPERTIES) + DATA,
    "application properties": section(0x74, SIMPLE) + DATA, "footer": DATA + section(0x78, M([Y("x-f"), S("a")])),
    "everything": header(B(True), ["ubyte", 9], U(60000)) + section(0x71, M([Y("x-d"), S("a")])) + section(0x72, M([Y("x-opt-a"), S("b")], [Y(VALUE), S("a")])) + section(0x73, PROPERTIES) +
        section(0x74, SIMPLE) + DATA + section(0x78, M([Y("x-f"), S("a")])),
}
for pair in SIMPLE[1]: MESSAGES[f"application property {pair[0][1]}"] = section(0x74, M(pair)) + DATA
for pair in SIMPLE[1]: MESSAGES[f"annotation {pair[0][1]}"] = section(0x72, M([Y(f"x-{pair[0][1]}"), pair[1]])) + DATA
for name, value in (("list", LIST(U(1))), ("map", M([S("a"), U(1)])), ("array", ["array", [S("a")]])): MESSAGES[f"annotation {name}"] = section(0x72, M([Y("x-a"), value])) + DATA
for at, field in enumerate(PROPERTIES[1]): MESSAGES[f"property {at}"] = section(0x73, LIST(*[NULL] * at, field)) + DATA
for kind, value in (("uuid", ["uuid", "00" * 15 + "41"]), ("binary", ["binary", b"\xff"]), ("ulong", ["ulong", 789])):
    MESSAGES[f"message-id {kind}"] = section(0x73, LIST(value)) + DATA; MESSAGES[f"correlation-id {kind}"] = section(0x73, LIST(*[NULL] * 5, value)) + DATA
MESSAGES["reply-to queue"] = section(0x73, LIST(*[NULL] * 4, S("/queues/a%20b"))) + DATA
def came(client):
    client.receiver(1, Q, M(FIRST), name="r")
    return [[{"tag bytes": len(fields[2][1]) // 2, "format": fields[3], "settled": fields[4] if len(fields) > 4 else NULL}, sections(payload)] for fields, payload in client.drained(1)]
def over_ten(payload):
    """A message over 1.0 as it comes over 1.0 and over 0-9-1."""
    def act(client):
        on_channel(declare()); client.sender(0, Q)
        return [client.publish(0, payload), came(client)]
    found = in_session(act)
    reader, got = Old(), []
    def wait():
        Tables.typed = True
        reader.channel.basic_qos(prefetch_count=5)
        reader.channel.basic_consume(Q, lambda *message: got.append(message[2:]), arguments={"x-stream-offset": "first"})
        end = time.monotonic() + 2
        while not got and time.monotonic() < end: reader.connection.process_data_events(0.05)
        return [[body.hex(), {key: value for key, value in sorted(vars(properties).items()) if value is not None}] for properties, body in got]
    try: return [*found, answered(wait)]
    finally: reader.close()
for name, payload in MESSAGES.items(): scenario(f"1.0 message, {name}", over_ten, payload)

def over_both(**properties):
    """A message over 0-9-1 as it comes over 1.0."""
    writer = Old(confirms=True)
    try: declare()(writer.channel); writer.publish(Q, "m", **properties)
    finally: writer.close()
    return in_session(came)
scenario("1.0 of 0-9-1, nothing", over_both)
for name, value in ALL.items(): scenario(f"1.0 of 0-9-1, {name}", over_both, **{name: value})
scenario("1.0 of 0-9-1, transient", over_both, delivery_mode=1)
for name, value in HEADERS.items(): scenario(f"1.0 of 0-9-1, header {name}", over_both, headers={name: value})
scenario("1.0 of 0-9-1, filter value", over_both, headers={VALUE: "a"})

# --- play -----------------------------------------------------------------------------------------------------------

def clean(*names):
    old = Old()
    for name in names or (Q, TARGET, "amq.stream", ""):
        if name: old.channel.queue_delete(name)
    old.channel.exchange_delete(EXCHANGE)
    old.close()

def main():
    only = sys.argv[3:]
    clean(Q, TARGET, FILLED)
    counts = collections.Counter(name for name, _ in SCENARIOS)
    assert max(counts.values()) == 1, counts.most_common(3)
    results = []
    for name, call in SCENARIOS:
        if only and not any(name.startswith(word) for word in only): continue
        result = answered(call)
        Tables.typed = False
        clean()
        results.append({"name": name, "result": result})
    clean(Q, TARGET, FILLED)
    print("{\"scenarios\": [\n" + ",\n".join(json.dumps(result, ensure_ascii=False, default=str) for result in results) + "\n]}")

if __name__ == "__main__": main()
