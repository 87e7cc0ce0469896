#!/usr/bin/env python3
"""Requests of stream clients and what a broker answers to them, its refusals among them.

    stream-protocol.py record STREAM_PORT HTTP_PORT > stream-protocol.json
        plays all against a RabbitMQ, in vhosts and with users of its own; guest/guest is an administrator
    stream-protocol.py play STREAM_PORT HTTP_PORT
        plays the same against any broker
    stream-protocol.py frames STREAM_PORT HTTP_PORT > frames.txt
        plays the same, and prints one frame of each command, version and code as it is on the wire

A step is what was sent, with its bytes, or what was received. Answers are without what changes each time. What comes before
a login isn't noted, peer properties and a SASL handshake, nor is the login of connections whose first correlation id is 5.
"""
import base64, json, sys, urllib.error, urllib.parse, urllib.request
import stream_wire
from stream_wire import Connection, KEYS, frame, listed, message, pairs, spec, sub_batch, text, texts

PORT, HTTP = int(sys.argv[2]), int(sys.argv[3])
VHOST, FORBIDDEN = "golden-stream-protocol", "golden-stream-forbidden"
S, T, SUPER, CLASSIC = "s", "t", "p", "classic"
LONG = "r" * 255

# --- what is there beforehand -------------------------------------------------------------------------------------

def http(method, path, body=None):
    call = urllib.request.Request(f"http://127.0.0.1:{HTTP}/api/{path}", method=method, data=None if body is None else json.dumps(body).encode())
    call.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    call.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(call) as got: return json.loads(got.read() or b"null")
    except urllib.error.HTTPError as error:
        if error.code != 404: raise
def set_up():
    for vhost in (VHOST, FORBIDDEN): http("DELETE", f"vhosts/{vhost}"); http("PUT", f"vhosts/{vhost}", {})
    for user, permissions in {"golden-owner": (".*",) * 3, "golden-configure": (".*", "^$", "^$"), "golden-write": ("^$", ".*", "^$"), "golden-read": ("^$", "^$", ".*")}.items():
        http("PUT", f"users/{user}", {"password": "secret", "tags": ""})
        http("PUT", f"permissions/{VHOST}/{user}", dict(zip(("configure", "write", "read"), permissions)))
    http("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    http("PUT", f"queues/{VHOST}/{CLASSIC}", {"durable": True, "arguments": {"x-queue-type": "classic"}})
def clean():
    http("PUT", f"exchanges/{VHOST}/exchange", {"type": "direct", "durable": True})
    for queue in http("GET", f"queues/{VHOST}"):
        if queue["name"] != CLASSIC: http("DELETE", f"queues/{VHOST}/" + urllib.parse.quote(queue["name"], safe=""))
    for exchange in http("GET", f"exchanges/{VHOST}"):
        if exchange["name"] and not exchange["name"].startswith("amq.") and exchange["name"] != "exchange":
            http("DELETE", f"exchanges/{VHOST}/" + urllib.parse.quote(exchange["name"], safe=""))
def tear_down():
    for vhost in (VHOST, FORBIDDEN): http("DELETE", f"vhosts/{vhost}")
    for user in ("owner", "configure", "write", "read"): http("DELETE", f"users/golden-{user}")

# --- scenarios ----------------------------------------------------------------------------------------------------

class Play:
    """The connections of a scenario and its steps."""
    def __init__(self): self.steps, self.connections = [], []
    def connect(self):
        self.connections.append(Connection(PORT, self.steps, len(self.connections) + 1))
        return self.connections[-1]
    def logged_in(self, user="golden-owner", vhost=VHOST):
        """A connection in the vhost. Its handshake isn't noted."""
        client = self.connect(); noted = len(self.steps)
        log_in(client, user); tune(client)
        client.call("open", vhost=vhost)
        del self.steps[noted:]
        return client

def plain(user, password): return f"\0{user}\0{password}"
def greet(client):
    """What comes before a login. It isn't noted."""
    noted = len(client.steps)
    client.call("peer_properties", properties={"product": "golden"}); client.call("sasl_handshake")
    del client.steps[noted:]
def log_in(client, user="golden-owner", password="secret"):
    greet(client); client.send("sasl_authenticate", mechanism="PLAIN", response=plain(user, password)); client.until("sasl_authenticate")
def tune(client, frame_max=1 << 20, heartbeat=0):
    client.until("tune"); client.send("tune", frame_max=frame_max, heartbeat=heartbeat)

HELLO = ("peer_properties", dict(properties={"product": "golden"}))
SCENARIOS = []
def scenario(name, call): SCENARIOS.append((name, call))
def requests(name, *given, user="golden-owner"):
    """Requests on one connection, each after the answer to the one before."""
    def call(play):
        client = play.logged_in(user)
        for request, arguments in given: client.call(request, **arguments)
    scenario(name, call)
def before(name, *given, ends=False):
    """Requests on a connection that did nothing yet."""
    def call(play):
        client = play.connect()
        for request, arguments in given: client.call(request, **arguments)
        if ends: client.receive()
    scenario(name, call)
def greeted(name, *given):
    def call(play):
        client = play.connect(); greet(client)
        for request, arguments in given: client.call(request, **arguments)
        client.receive()
    scenario(name, call)
def made(name, *given):
    """Requests on a connection whose stream `s` is there."""
    requests(name, create(), *given)

def create(stream=S, **arguments): return ("create", dict(stream=stream, arguments={key.replace("_", "-"): value for key, value in arguments.items()}))
def delete(stream=S): return ("delete", dict(stream=stream))
def publisher(id=1, reference="", stream=S): return ("declare_publisher", dict(id=id, reference=reference, stream=stream))
def no_publisher(id=1): return ("delete_publisher", dict(id=id))
def subscribe(id=1, stream=S, start="first", credit=10, properties=None): return ("subscribe", dict(id=id, stream=stream, start=start, credit=credit, properties=properties))
def unsubscribe(id=1): return ("unsubscribe", dict(id=id))
def sequence(reference="r", stream=S): return ("query_publisher_sequence", dict(reference=reference, stream=stream))
def query(reference="r", stream=S): return ("query_offset", dict(reference=reference, stream=stream))
def metadata(*streams): return ("metadata", dict(streams=list(streams)))
def route(key="k", super_stream=SUPER): return ("route", dict(routing_key=key, super_stream=super_stream))
def partitions(super_stream=SUPER): return ("partitions", dict(super_stream=super_stream))
def super_stream(name=SUPER, partitions=("p-0", "p-1"), keys=("0", "1"), **arguments):
    return ("create_super_stream", dict(name=name, partitions=list(partitions), binding_keys=list(keys), arguments={key.replace("_", "-"): value for key, value in arguments.items()}))
def no_super_stream(name=SUPER): return ("delete_super_stream", dict(name=name))
def stats(stream=S): return ("stream_stats", dict(stream=stream))
def resolve(start, stream=S, properties=None): return ("resolve_offset_spec", dict(stream=stream, start=start, properties=properties))
def versions(*given): return ("exchange_command_versions", dict(versions=[list(version) for version in given]))
def authenticate(mechanism="PLAIN", response=None): return ("sasl_authenticate", dict(mechanism=mechanism, response=response))
def opened(vhost=VHOST): return ("open", dict(vhost=vhost))
def goodbye(code=1, reason="done"): return ("close", dict(code=code, reason=reason))

# Before a connection is open.
def whole(play):
    client = play.connect()
    log_in(client); tune(client)
    for request, arguments in (opened(), goodbye()): client.call(request, **arguments)
    client.receive()
scenario("login and close", whole)
def tuned(frame_max, heartbeat):
    def call(play):
        client = play.connect(); log_in(client); tune(client, frame_max, heartbeat)
        client.call("open", vhost=VHOST); client.barrier()
    return call
for frame_max, heartbeat in ((0, 0), (1, 0), (65_536, 60), (1 << 20, 3600), (1 << 21, 0), (2**32 - 1, 60)):
    scenario(f"tune {frame_max} {heartbeat}", tuned(frame_max, heartbeat))
def tuned_as_request(play):
    client = play.connect(); log_in(client); client.until("tune")
    client.raw(bytes.fromhex("0000000c00140001000100000000003c"), "tune as a request"); client.call("open", vhost=VHOST)
scenario("tune as a request", tuned_as_request)
before("handshake twice", HELLO, HELLO, ("sasl_handshake", {}), ("sasl_handshake", {}))
before("authenticate at once", authenticate(response=plain("golden-owner", "secret")), ends=True)
before("authenticate without a handshake", HELLO, authenticate(response=plain("golden-owner", "secret")), ends=True)
before("handshake", HELLO, ("sasl_handshake", {}))
before("handshake at once", ("sasl_handshake", {}))
greeted("authenticate with a wrong password", authenticate(response=plain("golden-owner", "wrong")), authenticate(response=plain("golden-owner", "secret")))
greeted("authenticate as an unknown user", authenticate(response=plain("golden-nobody", "secret")))
greeted("authenticate by an unknown mechanism", authenticate("UNKNOWN", "x"), authenticate(response=plain("golden-owner", "secret")))
greeted("authenticate by AMQPLAIN", authenticate("AMQPLAIN", "\x05LOGINS\0\0\0\x0cgolden-owner\x08PASSWORDS\0\0\0\x06secret"))
greeted("authenticate by ANONYMOUS", authenticate("ANONYMOUS", "x"))
greeted("authenticate by EXTERNAL", authenticate("EXTERNAL", "x"))
greeted("authenticate with a null response", authenticate())
greeted("authenticate with an empty response", authenticate(response=""))
greeted("authenticate with a malformed response", authenticate(response="golden-owner"))
for name, request in (("create", create()), ("metadata", metadata()), ("open", opened()), ("close", goodbye()), ("versions", versions()), ("publisher", publisher())):
    before(f"{name} before authentication", request)
def after_authentication(request, tuned=False):
    def call(play):
        client = play.connect(); log_in(client); client.until("tune")
        if tuned: client.send("tune", frame_max=1 << 20, heartbeat=0)
        client.call(request[0], **request[1])
        if request[1].get("vhost") != VHOST: client.receive()
    return call
scenario("open before tune", after_authentication(opened()))
scenario("create before tune", after_authentication(create()))
scenario("create before open", after_authentication(create(), tuned=True))
scenario("close before open", after_authentication(goodbye(), tuned=True))
scenario("open of an unknown vhost", after_authentication(opened("golden-none"), tuned=True))
scenario("open of an empty vhost", after_authentication(opened(""), tuned=True))
scenario("open of a forbidden vhost", after_authentication(opened(FORBIDDEN), tuned=True))
requests("open twice", opened())
requests("peer properties when open", HELLO)
requests("authenticate again", authenticate(response=plain("golden-owner", "secret")), metadata())
requests("authenticate again with a wrong password", authenticate(response=plain("golden-owner", "wrong")), metadata())
requests("authenticate again as another user", authenticate(response=plain("golden-read", "secret")), metadata())
requests("authenticate again by another mechanism", authenticate("AMQPLAIN", "x"), metadata())
requests("authenticate again by an unknown mechanism", authenticate("UNKNOWN", "x"), metadata())
requests("sasl handshake when open", ("sasl_handshake", {}))
requests("close with a reason", goodbye(1, "OK"))
requests("close with an unknown code", goodbye(4711, "ü" * 100))

# Frames that aren't well-formed, or that a client doesn't send.
def bytes_sent(data, label, opens=True, end=False):
    def call(play):
        client = play.logged_in() if opens else play.connect()
        if opens: client.call("create", stream=S, arguments={})
        client.raw(data, label)
        if end: client.receive()
        elif opens: client.barrier()
        else: client.call("sasl_handshake")
    scenario(label if opens else f"{label} before authentication", call)
def with_correlation(key, body=b"", version=1): return frame(key, b"\0\0\0\x63" + body, version)
for opens in (True, False):
    bytes_sent(with_correlation(99), "unknown key 99", opens)
    bytes_sent(with_correlation(0), "unknown key 0", opens)
    bytes_sent(frame(KEYS["heartbeat"], b""), "heartbeat", opens)
    bytes_sent(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http", opens, end=True)
    bytes_sent(b"\0\0\0\0", "frame of size 0", opens)
    bytes_sent(b"\0\0\0\x03\0\x11\0", "frame of size 3", opens)
def unpublished(size): return size.to_bytes(4, "big") + b"\0\2\0\1\7\0\0\0\1" + bytes(7) + b"\1" + (size - 21).to_bytes(4, "big") + bytes(size - 21)
bytes_sent(unpublished(2**20), "publish in a frame of 1 MiB")
bytes_sent(unpublished(2**20 + 1), "publish in a frame of 1 MiB and a byte")
bytes_sent(b"\0\x10\0\5\0\2\0\1", "head of a frame of 1 MiB and five bytes", end=True)
bytes_sent(b"\0\0\x20\1\0\x11\0\1", "head of a frame of 8 KiB and a byte", opens=False, end=True)
def hello(size): return size.to_bytes(4, "big") + b"\0\x11\0\1\0\0\0\1\0\0\0\1\0\1a" + (size - 17).to_bytes(2, "big") + bytes(size - 17)
bytes_sent(hello(8192), "frame of 8 KiB", opens=False)
bytes_sent(hello(8193), "frame of 8 KiB and a byte", opens=False)
for name in ("publish_confirm", "deliver", "metadata_update", "consumer_update"): bytes_sent(with_correlation(KEYS[name]), f"{name} of a client")
for name in ("create", "heartbeat", "deliver"): bytes_sent(with_correlation(KEYS[name] | 0x8000, b"\0\1"), f"response {name} of a client")
for name, body in (("delete", text(S)), ("publish", b""), ("heartbeat", None)):
    for version in (0, 2, 3):
        if (name, version) != ("publish", 2):
            bytes_sent(frame(KEYS[name], b"", version) if body is None else with_correlation(KEYS[name], body, version), f"{name} of version {version}")
bytes_sent(with_correlation(KEYS["delete"], text(S) + b"\0"), "delete with a byte too many")
bytes_sent(with_correlation(KEYS["delete"], text(S)[:-1]), "delete with a byte too few")
bytes_sent(with_correlation(KEYS["delete"]), "delete without a name")
bytes_sent(with_correlation(KEYS["delete"], text(None)), "delete of a null name")
bytes_sent(with_correlation(KEYS["delete"], text(b"\xff\xfe")), "delete of a name that is not UTF-8")
bytes_sent(frame(KEYS["heartbeat"], b"\0"), "heartbeat with a byte too many")
bytes_sent(frame(KEYS["credit"], b"\1\0"), "credit with a byte too few")
bytes_sent(frame(KEYS["delete"], b"\0\0\0"), "correlation id cut")
bytes_sent(with_correlation(KEYS["create"], text("t") + b"\0\0\0\x05" + pairs({"max-age": "1h"})[4:]), "create with a count too high")
bytes_sent(with_correlation(KEYS["create"], text("t") + b"\0\0\0\0" + pairs({"max-age": "1h"})[4:]), "create with a count too low")
bytes_sent(with_correlation(KEYS["create"], text("t") + b"\0\0\0\1" + text("max-age")), "create with half a pair")
bytes_sent(with_correlation(KEYS["create"], text("t")), "create without arguments")
bytes_sent(with_correlation(KEYS["create"], text("t") + pairs({"max-age": "1h"})[:-2] + b"\xff\xff"), "create with a null value")
bytes_sent(with_correlation(KEYS["metadata"], b"\0\0\0\7" + text(S)), "metadata with a count too high")
bytes_sent(with_correlation(KEYS["subscribe"], b"\1" + text(S) + spec(["type", 9]) + b"\0\1"), "subscribe with an unknown offset type")
bytes_sent(with_correlation(KEYS["subscribe"], b"\1" + text(S) + spec("none") + b"\0\1"), "subscribe with offset type none")
bytes_sent(with_correlation(KEYS["subscribe"], b"\1" + text(S) + spec("next") + b"\0\1\0\0"), "subscribe with half a count of properties")
bytes_sent(with_correlation(KEYS["sasl_authenticate"], text("PLAIN")), "authenticate without a response", opens=False)
bytes_sent(with_correlation(KEYS["sasl_handshake"], text("PLAIN")), "sasl handshake with a mechanism", opens=False)

# Streams.
made("create twice", create(), create(max_age="1h"))
made("create after delete", delete(), delete(), create())
requests("create with arguments, twice", *[create(max_length_bytes="20000000", max_age="2h", stream_max_segment_size_bytes="500000", initial_cluster_size="1", queue_leader_locator="client-local")] * 2, create(max_age="2h"), create(max_age="3h"))
for key, values in {"max-age": ("1h", "1x", "", "1"), "max-length-bytes": ("5", "x", "-1", "0", "1.5", ""), "stream-max-segment-size-bytes": ("1000", "x", "-1", "3000000001"),
        "initial-cluster-size": ("1", "0", "x"), "queue-leader-locator": ("balanced", "least-leaders", "nowhere"), "stream-filter-size-bytes": ("16", "15", "256", "x"),
        "unknown": ("x",), "x-max-age": ("1h",), "max-length": ("5",), "x-queue-type": ("classic",), "queue-type": ("classic",)}.items():
    for value in values: requests(f"create with {key}={value!r}", ("create", dict(stream=S, arguments={key: value})), metadata(S))
for name in ("", "amq.s", "a\nb", "\n", "ü", "a/b"): requests(f"create {name!r}", create(name), metadata(name), delete(name))
# RabbitMQ has no folder for such a name, so that its metadata are chance.
for length in (255, 256): requests(f"create a name of {length} bytes", create("n" * length), delete("n" * length))
requests("create a stream named like a classic queue", create(CLASSIC), metadata(CLASSIC), delete(CLASSIC), delete("none"))
requests("delete a stream with an empty name", delete(""))
made("metadata", metadata(S), metadata(S, "none", CLASSIC), metadata(S, S), metadata(""))
for user in ("golden-configure", "golden-write", "golden-read"):
    def permissions(play, user=user):
        play.logged_in().call("create", stream=S, arguments={})
        client = play.logged_in(user)
        for request, arguments in (create("t"), delete("none"), metadata(S), publisher(), publisher(2, "r"), sequence(), subscribe(), unsubscribe(), query(), stats(), resolve("first"),
                super_stream(), no_super_stream(), partitions(), route()): client.call(request, **arguments)
        client.send("store_offset", reference="r", stream=S, offset=5); client.barrier()
        if user != "golden-write": client.publish(1, message(1, b"m")); client.barrier()
        client.call("delete", stream=S)
    scenario(f"permissions of {user}", permissions)

# Publishers.
made("publisher declared twice", publisher(), publisher(), publisher(2), no_publisher(), no_publisher(), no_publisher(9))
made("publisher reference twice", publisher(1, "r"), publisher(2, "r"), publisher(2, "q"), no_publisher(), publisher(3, "r"))
requests("publisher of an unknown stream", publisher(stream="none"), publisher(reference="r", stream="none"), publisher(stream=CLASSIC), publisher(stream=""))
made("publisher references by length", publisher(1, LONG), publisher(2, LONG + "r"), publisher(3, LONG + "rr"), sequence(LONG), sequence(LONG + "r"), sequence(LONG + "rr"))
made("publisher with a null reference", publisher(1, None))
made("sequence of unknown references", sequence(), sequence(""), sequence(stream="none"), sequence(stream=CLASSIC))
def two_connections(play):
    first = play.logged_in(); first.call("create", stream=S, arguments={})
    first.call("declare_publisher", id=1, reference="r", stream=S)
    play.logged_in().call("declare_publisher", id=1, reference="r", stream=S)
scenario("publisher reference on two connections", two_connections)
def published(play, *batches, reference="", version=1, counts=None):
    client = play.logged_in(); client.call("create", stream=S, arguments={}); client.call("declare_publisher", id=1, reference=reference, stream=S)
    for at, batch in enumerate(batches):
        client.publish(1, *batch, version=version, count=counts and counts[at]); client.confirmed(len(batch))
    return client
def all_received(client, count, **options):
    """Subscribes and notes the chunks up to `count` messages."""
    client.send("subscribe", **{**subscribe()[1], **options}); client.until("subscribe")
    client.delivered(count)
def simple(play): all_received(published(play, [message(1, b"a"), message(2, b"")], [message(3, b"c" * 300)]), 3)
scenario("publish and deliver", simple)
def deduplicated(play):
    client = published(play, [message(5, b"a")], [message(5, b"b"), message(4, b"c"), message(6, b"d")], reference="r")
    client.call("query_publisher_sequence", reference="r", stream=S); all_received(client, 2)
scenario("publish with a reference and old ids", deduplicated)
def batches(play): all_received(published(play, [sub_batch(1, [b"a", b"b"]), message(2, b"c")]), 3)
scenario("publish a sub-batch", batches)
def filters(play):
    client = published(play, [message(1, b"a", "eu"), message(2, b"b", None)], version=2)
    all_received(client, 2, properties={"filter.0": "eu", "match-unfiltered": "true"})
scenario("publish with filter values", filters)
def empty_filter(play): all_received(published(play, [message(1, b"a", "")], version=2), 1)
scenario("publish with an empty filter value", empty_filter)
def filtered_batch(play):
    client = published(play, version=2); client.publish(1, sub_batch(1, [b"a"], None), version=2); client.barrier()
scenario("publish a sub-batch in version 2", filtered_batch)
def filtered_batch_value(play):
    client = published(play, version=2); client.publish(1, sub_batch(1, [b"a"], "eu"), version=2); client.barrier()
scenario("publish a sub-batch with a filter value", filtered_batch_value)
def miscounted(play): all_received(published(play, [message(1, b"a"), message(2, b"b")], [message(3, b"c")], counts=[1, 1]), 3)
scenario("publish with a count too low", miscounted)
def overcounted(play):
    client = published(play); client.publish(1, message(1, b"a"), count=2); client.until("publish_confirm"); client.barrier()
scenario("publish with a count too high", overcounted)
def cut(play):
    client = published(play); client.publish(1, message(1, b"abc")[:-1]); client.barrier()
scenario("publish a message that is cut", cut)
def nothing(play):
    client = published(play); client.publish(1); client.barrier()
scenario("publish nothing", nothing)
def unknown_publisher(play):
    client = play.logged_in(); client.publish(7, message(1, b"a"), message(2, b"b")); client.barrier()
    client.publish(7, message(1, b"a", None), version=2); client.barrier()
    client.publish(7, sub_batch(3, [b"a", b"b"])); client.barrier()
scenario("publish by an unknown publisher", unknown_publisher)

# Subscriptions.
made("subscribe twice", subscribe(), subscribe(), subscribe(2), unsubscribe(), unsubscribe(), unsubscribe(9))
requests("subscribe to an unknown stream", subscribe(stream="none"), subscribe(stream=CLASSIC), subscribe(stream=""))
def credits(play):
    client = play.logged_in(); client.call("create", stream=S, arguments={})
    client.send("credit", id=9, credit=1); client.until("credit")
    client.call("subscribe", id=1, stream=S, start="first", credit=0, properties=None)
    client.send("credit", id=1, credit=0); client.send("credit", id=1, credit=65_535); client.barrier()
    client.call("unsubscribe", id=1); client.send("credit", id=1, credit=1); client.until("credit")
scenario("credit", credits)
for start in ("first", "last", "next", 0, 1, 2, 3, 100, ["timestamp", 0], ["timestamp", 2**60]):
    def started(play, start=start):
        client = published(play, [sub_batch(1, [b"a", b"b"])], [message(3, b"c")])
        client.call("subscribe", id=1, stream=S, start=start, credit=10, properties=None)
        client.publish(1, message(4, b"d")); client.until("publish_confirm", "deliver"); client.barrier()
    if start not in ("first", 0, 1, 2, "last"): scenario(f"subscribe at {start} and publish", started)
    def there(play, start=start):
        client = published(play, [sub_batch(1, [b"a", b"b"])], [message(3, b"c")])
        all_received(client, 1 if start in ("last", 2) else 3, start=start)
    if start in ("first", 0, 1, 2, "last") or start == ["timestamp", 0]: scenario(f"subscribe at {start}", there)
for properties in ({"unknown": "x"}, {"name": "n"}, {"single-active-consumer": "true"}, {"single-active-consumer": "true", "name": ""}, {"single-active-consumer": "false"},
        {"single-active-consumer": "x", "name": "n"}, {"single-active-consumer": "true", "name": LONG + "r"}, {"single-active-consumer": "true", "name": LONG + "rr"},
        {"single-active-consumer": "true", "name": "n", "super-stream": "none"}, {"name": LONG + "rr"}, {"filter.0": "a"}, {"filter.0": ""}, {"filter.x": "a"},
        {"filter.0": "a", "match-unfiltered": "x"}, {"match-unfiltered": "true"}, {}):
    shown = json.dumps({key: value if len(value) < 20 else f"{len(value)} bytes" for key, value in properties.items()})
    made(f"subscribe with {shown}", subscribe(properties=properties), unsubscribe())

# Groups with a single active consumer.
GROUP = {"single-active-consumer": "true", "name": "group"}
def group(play):
    first, second = play.logged_in(), play.logged_in()
    first.call("create", stream=S, arguments={})
    first.send("subscribe", id=1, stream=S, start="next", credit=10, properties=GROUP); first.until("subscribe", "consumer_update")
    return first, second
def updated(client, code=1, start="next"): client.send("consumer_updated", correlation=client.asked, code=code, start=start)
def promoted(play):
    first, second = group(play); updated(first); first.barrier()
    second.call("subscribe", id=2, stream=S, start="next", credit=10, properties=GROUP); second.barrier()
    first.call("unsubscribe", id=1); second.until("consumer_update"); updated(second, start=0); second.barrier()
    first.call("declare_publisher", id=1, reference="", stream=S); first.publish(1, message(1, b"a")); first.until("publish_confirm"); second.until("deliver")
scenario("group whose active consumer leaves", promoted)
def disconnected(play):
    first, second = group(play); updated(first); first.barrier()
    second.call("subscribe", id=2, stream=S, start="next", credit=10, properties=GROUP)
    first.finish(); second.until("consumer_update")
scenario("group whose active consumer disconnects", disconnected)
def same_connection(play):
    first, _ = group(play); updated(first)
    first.call("subscribe", id=2, stream=S, start="next", credit=10, properties=GROUP); first.barrier()
    first.send("unsubscribe", id=1); first.until("unsubscribe", "consumer_update"); updated(first, start="none"); first.barrier()
scenario("group on one connection", same_connection)
for code, start in ((1, None), (1, "none"), (1, "first"), (1, ["timestamp", 5]), (2, "none"), (15, None)):
    def answered(play, code=code, start=start):
        first, _ = group(play); updated(first, code, start); first.barrier()
    scenario(f"group update answered by {code} and {start}", answered)
def unasked(play):
    client = play.logged_in(); client.send("consumer_updated", correlation=77, code=1, start="first"); client.barrier()
scenario("group update answered without a question", unasked)
def of_partition(play):
    first, second = play.logged_in(), play.logged_in()
    first.call("create_super_stream", **super_stream()[1])
    properties = {**GROUP, "super-stream": SUPER}
    first.send("subscribe", id=1, stream="p-1", start="next", credit=10, properties=properties); first.until("subscribe", "consumer_update"); updated(first); first.barrier()
    second.call("subscribe", id=2, stream="p-1", start="next", credit=10, properties=properties); first.until("consumer_update"); updated(first, start=0); first.barrier()
    second.until("consumer_update"); updated(second); second.barrier()
scenario("group of a partition of a super stream", of_partition)
def two_subscriptions(play):
    first, second = group(play)
    second.call("subscribe", id=2, stream=S, start="next", credit=10, properties={"name": "group"}); second.call("metadata", streams=[S])
scenario("group and a consumer outside of it", two_subscriptions)

# Super streams.
requests("super stream", super_stream(), partitions(), route("0"), route("1"), route("2"), route(""), metadata(SUPER, "p-0"), super_stream(), no_super_stream(), no_super_stream(), partitions(), metadata("p-0"))
requests("super stream with arguments", super_stream(max_age="1h"), super_stream("p2", ["q-0"], ["0"], max_age="1x"), super_stream("p3", ["q-1"], ["0"], unknown="x"), metadata("q-0", "q-1"), partitions("p2"))
requests("super stream with one partition there", create("p-1"), super_stream(), metadata("p-0", "p-1"), partitions())
requests("super stream named like an exchange", super_stream("exchange"), super_stream("amq.direct"), super_stream(""), super_stream("amq.p"), metadata("p-0"))
requests("super stream with more partitions than keys", super_stream(keys=["0"]), metadata("p-0"))
requests("super stream with fewer partitions than keys", super_stream(keys=["0", "1", "2"]), metadata("p-0"))
requests("super stream without partitions", super_stream(partitions=[], keys=[]), partitions(), no_super_stream())
requests("super stream with a partition twice", super_stream(partitions=["p-0", "p-0"]), partitions())
requests("super stream with a key twice", super_stream(keys=["k", "k"]), route("k"), partitions())
requests("super stream with a partition without a name", super_stream(partitions=["", "p-1"]), metadata("p-1"))
requests("super stream with a classic queue", super_stream(partitions=[CLASSIC, "p-1"]), metadata("p-1"))
requests("super stream of 1001 partitions", super_stream(partitions=[f"p-{at}" for at in range(1001)], keys=[str(at) for at in range(1001)]), metadata("p-0"))
requests("route and partitions of what is no super stream", route(), partitions(), route(super_stream="exchange"), partitions("exchange"), route(super_stream=""), partitions(""), no_super_stream("exchange"), no_super_stream(""), create(), partitions(S), no_super_stream(S), delete(SUPER))
requests("super stream with a partition deleted", super_stream(), delete("p-0"), partitions(), route("0"), no_super_stream())

# Offsets.
def offsets(play):
    client = published(play, [message(1, b"a")])
    for reference, stream in (("r", S), ("", S), (LONG, S), (LONG + "r", S), (LONG + "rr", S), ("r", "none"), ("r", CLASSIC), ("r", "")):
        client.call("query_offset", reference=reference, stream=stream)
        client.send("store_offset", reference=reference, stream=stream, offset=5); client.barrier()
        client.call("query_offset", reference=reference, stream=stream)
    for offset in (3, 2**64 - 1):
        client.send("store_offset", reference="r", stream=S, offset=offset); client.call("query_offset", reference="r", stream=S)
    client.call("delete", stream=S); client.barrier()
    client.send("store_offset", reference="r", stream=S, offset=7); client.call("query_offset", reference="r", stream=S)
scenario("offsets", offsets)
requests("stats of unknown streams", stats("none"), stats(CLASSIC), stats(""))
made("stats of an empty stream", stats())
def filled(play):
    client = published(play, [sub_batch(1, [b"a", b"b"])], [message(3, b"c")]); client.call("stream_stats", stream=S)
scenario("stats of a stream with two chunks", filled)
SPECS = ("first", "last", "next", 0, 1, 2, 3, 1000, ["timestamp", 0], ["timestamp", 2**60])
for start in SPECS + ("none", ["type", 9]): made(f"resolve {start} in an empty stream", resolve(start), metadata())
for start in SPECS:
    def resolved(play, start=start):
        client = published(play, [sub_batch(1, [b"a", b"b"])], [message(3, b"c")]); client.call("resolve_offset_spec", stream=S, start=start)
    scenario(f"resolve {start} in a stream with two chunks", resolved)
requests("resolve in unknown streams", resolve("first", "none"), resolve("first", CLASSIC), resolve("first", ""))
made("resolve with properties", resolve("first", properties={"name": "n"}))
bytes_sent(with_correlation(KEYS["resolve_offset_spec"], text(S) + spec("first")), "resolve without properties")

# Versions of commands.
requests("command versions", versions((KEYS["deliver"], 1, 2), (KEYS["publish"], 1, 2)), versions(), versions((KEYS["publish"], 5, 3)))
requests("command versions with an unknown key", versions((99, 1, 1)))
for high in (1, 2, 3):
    def delivered(play, high=high):
        client = published(play, [message(1, b"a")]); client.call("exchange_command_versions", versions=[[KEYS["deliver"], 1, high]]); all_received(client, 1)
    scenario(f"deliver where the client speaks versions up to {high}", delivered)

# Streams that go away.
def deleted(play):
    client, other = play.logged_in(), play.logged_in()
    for stream in (S, T): client.call("create", stream=stream, arguments={})
    client.call("declare_publisher", id=1, reference="r", stream=S); client.call("declare_publisher", id=2, reference="", stream=S)
    client.call("subscribe", id=1, stream=S, start="next", credit=10, properties=None); client.call("subscribe", id=2, stream=T, start="next", credit=10, properties=None)
    other.call("delete", stream=S); client.until("metadata_update"); client.barrier(); other.barrier()
    client.publish(1, message(1, b"a")); client.barrier()
    client.send("credit", id=1, credit=1); client.until("credit")
    for request, arguments in (no_publisher(), unsubscribe(), unsubscribe(2), publisher(), create(), publisher()): client.call(request, **arguments)
scenario("delete with publishers and subscribers", deleted)
def deleted_by_itself(play):
    client = play.logged_in(); client.call("create", stream=S, arguments={}); client.call("declare_publisher", id=1, reference="", stream=S)
    client.send("delete", stream=S); client.until("delete", "metadata_update"); client.barrier()
scenario("delete by its publisher", deleted_by_itself)
def super_deleted(play):
    client = play.logged_in(); client.call("create_super_stream", **super_stream()[1]); client.call("subscribe", id=1, stream="p-0", start="next", credit=10, properties=None)
    client.send("delete_super_stream", name=SUPER); client.until("delete_super_stream", "metadata_update"); client.barrier()
scenario("delete a super stream with a subscriber", super_deleted)

def played(call):
    clean()
    play = Play()
    call(play)
    for connection in play.connections: connection.finish()
    return play.steps

def frames():
    """One frame of each direction, key, version and code, as it is on the wire: the longest of up to 200 bytes."""
    client = Play().connect(); log_in(client); tune(client, heartbeat=1); client.call("open", vhost=VHOST)
    client.send("heartbeat"); client.frame(); client.finish()
    kinds = {}
    for direction, data in Connection.log:
        key, version = int.from_bytes(data[4:6], "big"), int.from_bytes(data[6:8], "big")
        code = b""
        if key == 0x0004: code = data[-2:]
        elif key in (0x8009, 0x0010): code = data[8:10]
        elif key & 0x8000 and key not in (0x8014, 0x800f, 0x801a): code = data[12:14]
        kind = (key & 0x7fff, key >> 15, direction, version, code)
        if kind not in kinds or len(kinds[kind]) < len(data) <= 200: kinds[kind] = data
    for (key, is_response, direction, version, code), data in sorted(kinds.items()):
        name = stream_wire.NAMES[key] + (" response" if is_response else "")
        print(direction, data.hex(), name, *([f"version {version}"] if version > 1 else []), *([f"code {int.from_bytes(code, 'big')}"] if code else []))

if __name__ == "__main__":
    set_up()
    only = sys.argv[4:]
    results = []
    for name, call in SCENARIOS:
        if not only or any(part in name for part in only): results.append({"name": name, "result": played(call)})
    clean(); tear_down()
    if sys.argv[1] == "frames": frames()
    else: print("{\"scenarios\": [\n" + ",\n".join(json.dumps(result, ensure_ascii=False) for result in results) + "\n]}")
