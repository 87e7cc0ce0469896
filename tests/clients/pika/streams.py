"""Streams with pika, as `quorum.py` for quorum queues: the same lines, and one function for each test."""

import datetime
import time

import pika
from pika import exceptions

import cell
from cell import PATIENCE, Failure, ask, check_default_type, confirming, connect, equal, eventually, http, prefix

STREAM = {"x-queue-type": "stream"}
VALUE = "x-stream-filter-value"


def refused(code, text, act):
    """`act(channel)` on a connection of its own ends with this code and a text that begins so."""
    connection = connect()
    try:
        act(connection.channel())
    except (exceptions.ChannelClosed, exceptions.ConnectionClosed) as error:
        equal((error.reply_code, error.reply_text[:len(text)]), (code, text), "refusal")
    else:
        raise Failure(f"{code} {text!r} expected, nothing happened")
    finally:
        if connection.is_open:
            connection.close()


def stream(channel, arguments=None, name="s"):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=True, arguments={**STREAM, **(arguments or {})})
    return name


def publish(channel, name, *bodies, **properties):
    """Each message is confirmed before the next one, so that it is a chunk of its own."""
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(**properties), mandatory=True)


class Consumer:
    """A consumer on a channel of its own; each delivery is acknowledged when it is taken, unless `settle` does otherwise."""

    def __init__(self, connection, name, offset=None, prefetch=10, **options):
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.deliveries, self.cancelled = [], False
        self.channel.add_on_cancel_callback(self.cancel)
        arguments = options.pop("arguments", {})
        if offset is not None:
            arguments = {"x-stream-offset": offset, **arguments}
        self.channel.basic_consume(name, lambda *delivery: self.deliveries.append(delivery[1:]), arguments=arguments, **options)

    def cancel(self, _):
        self.cancelled = True

    def wait(self, done):
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                raise Failure(f"{len(self.deliveries)} deliveries, cancelled: {self.cancelled}")
            self.channel.connection.process_data_events(time_limit=0.05)

    def take(self, count, settle=lambda channel, tag: channel.basic_ack(tag)):
        """Waits for so many deliveries: offset and body of each."""
        taken = []
        while len(taken) < count:
            self.wait(lambda: self.deliveries)
            method, properties, body = self.deliveries.pop(0)
            equal(method.redelivered, False, "redelivered")
            taken.append((properties.headers["x-stream-offset"], body.decode()))
            settle(self.channel, method.delivery_tag)
        return taken

    def quiet(self):
        """Nothing more comes that the broker had to send before it answers."""
        self.channel.queue_declare("", exclusive=True)
        equal([body for *_, body in self.deliveries], [], "further deliveries")


def numbered(start, end):
    return [(number, f"m{number}") for number in range(start, end)]


def filled(connection, count, arguments=None, name="s"):
    """A stream with the messages m0 and so on, and its publisher's channel."""
    channel = confirming(connection)
    name = stream(channel, arguments, name)
    publish(channel, name, *(body for _, body in numbered(0, count)))
    return channel, name


def declaration():
    channel = connect().channel()
    name = stream(channel, {"x-max-age": "1h", "x-max-length-bytes": 1 << 30})
    answer = channel.queue_declare(name, durable=True, arguments={**STREAM, "x-max-age": "60m", "x-max-length-bytes": 1 << 30})
    equal(answer.method.queue, name, "declared again, the age in another unit")
    place = f"for queue '{name}.x' in vhost '/'"

    def wrong(text, arguments=None, **options):
        options = {"queue": f"{name}.x", "durable": True, **options}
        refused(406, f"PRECONDITION_FAILED - {text}", lambda c: c.queue_declare(arguments={**STREAM, **(arguments or {})}, **options))

    wrong(f"invalid property 'auto-delete' {place}", auto_delete=True, exclusive=True, durable=False)
    wrong(f"invalid property 'exclusive-owner' {place}", exclusive=True, durable=False)
    wrong(f"invalid property 'non-durable' {place}", durable=False)
    wrong("Cannot declare a server-named queue for type rabbit_stream_queue", queue="")
    for argument in ("x-max-length", "x-message-ttl", "x-dead-letter-routing-key", "x-single-active-consumer", "x-delivery-limit"):
        wrong(f"invalid arg '{argument}' {place} of queue type rabbit_stream_queue", {argument: 5})
    for age in ("0s", "1d", "1h30m", "5", ""):
        wrong(f"invalid arg 'x-max-age' {place}: invalid_max_age", {"x-max-age": age})
    wrong(f"invalid arg 'x-max-age' {place}: {{unacceptable_type,signedint}}", {"x-max-age": 5})
    wrong("Invalid value for x-stream-filter-size-bytes", {"x-stream-filter-size-bytes": 15})
    wrong("Exceeded max value for x-stream-max-segment-size-bytes", {"x-stream-max-segment-size-bytes": 3_000_000_001})
    place = f"for queue '{name}' in vhost '/'"
    same = {"x-max-age": "1h", "x-max-length-bytes": 1 << 30}
    wrong(f"inequivalent arg 'x-max-age' {place}: received '7200000' but current is '3600000'", {**same, "x-max-age": "2h"}, queue=name)
    wrong(f"inequivalent arg 'x-queue-type' {place}: received 'classic' but current is 'stream'", {**same, "x-queue-type": "classic"},
          queue=name)


def offsets():
    connection = connect()
    started = int(time.time())
    channel, name = filled(connection, 5)
    utc = datetime.timezone.utc
    for offset, begin in (("first", 0), ("last", 4), (3, 3), (5, 5), ("next", 5), (None, 5), ("1h", 0),
                          (datetime.datetime.fromtimestamp(started - 60, utc), 0), (datetime.datetime(2100, 1, 1, tzinfo=utc), 5)):
        consumer = Consumer(connection, name, offset)
        equal(consumer.take(5 - begin), numbered(begin, 5), f"from {offset}")
        consumer.quiet()
        consumer.channel.close()
    # Consumers are independent, and one waits for an offset that isn't there yet.
    consumers = [Consumer(connection, name, offset) for offset in (0, "next", 7)]
    publish(channel, name, *(body for _, body in numbered(5, 9)))
    for consumer, begin in zip(consumers, (0, 5, 7)):
        equal(consumer.take(9 - begin), numbered(begin, 9), f"at the end, from {begin}")
    place = f"for queue '{name}' in vhost '/'"
    for offset in ("First", "0s", "1h30m"):
        refused(406, f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' {place}: "
                f"{{invalid_stream_offset_arg,{{longstr,<<\"{offset}\">>}}}}", lambda c: Consumer(c.connection, name, offset))
    refused(406, f"PRECONDITION_FAILED - consumer prefetch count is not set for stream queue '{name}' in vhost '/'",
            lambda c: c.basic_consume(name, print))
    refused(540, f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queue '{name}' in vhost '/'",
            lambda c: Consumer(c.connection, name, auto_ack=True))
    refused(406, f"PRECONDITION_FAILED - invalid arg 'x-priority' {place} of queue type rabbit_stream_queue",
            lambda c: Consumer(c.connection, name, arguments={"x-priority": 5}))


def credit():
    connection = connect()
    channel, name = filled(connection, 12)
    consumer = Consumer(connection, name, "first", prefetch=2)
    settlements = {
        "ack": lambda c, tag: c.basic_ack(tag),
        "nack": lambda c, tag: c.basic_nack(tag),
        "nack without requeue": lambda c, tag: c.basic_nack(tag, requeue=False),
        "reject": lambda c, tag: c.basic_reject(tag),
        "reject without requeue": lambda c, tag: c.basic_reject(tag, requeue=False),
    }
    for at, (what, settle) in enumerate(settlements.items()):
        equal(consumer.take(2, settle), numbered(2 * at, 2 * at + 2), what)
    # Two that nobody settles use the credit up.
    publish(channel, name, "m12")
    equal(consumer.take(2, lambda *_: None), numbered(10, 12), "unsettled")
    consumer.quiet()
    consumer.channel.basic_ack(0, multiple=True)
    equal(consumer.take(1), numbered(12, 13), "after one acknowledgement of all")
    # Nothing was lost by it.
    equal(Consumer(connection, name, "first", prefetch=20).take(13), numbered(0, 13), "another consumer")


def filters():
    connection = connect()
    channel = confirming(connection)
    name = stream(channel, {"x-stream-filter-size-bytes": 32})
    for at, value in enumerate(("a", "b", None, "a", "")):
        publish(channel, name, f"m{at}", headers=None if value is None else {VALUE: value})
    for given, unfiltered, found in (("a", None, [0, 3]), (["a", "b"], False, [0, 1, 3]), ("b", True, [1, 2, 4]), ("c", None, []),
                                     (["a", "b"], True, [0, 1, 2, 3, 4])):
        arguments = {"x-stream-filter": given, **({} if unfiltered is None else {"x-stream-match-unfiltered": unfiltered})}
        consumer = Consumer(connection, name, "first", arguments=arguments)
        equal([offset for offset, _ in consumer.take(len(found))], found, f"{given}, unfiltered: {unfiltered}")
        consumer.quiet()
    late = Consumer(connection, name, "next", arguments={"x-stream-filter": "b"})
    publish(channel, name, "m5", headers={VALUE: "a"})
    publish(channel, name, "m6", headers={VALUE: "b", "other": 1})
    late.wait(lambda: late.deliveries)
    equal(late.deliveries[0][1].headers, {VALUE: "b", "other": 1, "x-stream-offset": 6}, "headers")


def calls():
    connection = connect()
    channel, name = filled(connection, 3)
    text = f"queues queue '{name}' in vhost '/'"
    refused(540, f"NOT_IMPLEMENTED - basic.get not supported by stream {text}", lambda c: c.basic_get(name))
    refused(540, f"NOT_IMPLEMENTED - queue.purge not supported by stream {text}", lambda c: c.queue_purge(name))
    # Consumers are never exclusive.
    consumers = [Consumer(connection, name, "first", exclusive=exclusive) for exclusive in (True, False, True)]
    for consumer in consumers:
        equal(consumer.take(3), numbered(0, 3), "each has all")
    # RabbitMQ ignores these conditions.
    refused(406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use", lambda c: c.queue_delete(name, if_unused=True))
    refused(406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty", lambda c: c.queue_delete(name, if_empty=True))
    channel.queue_delete(name)
    for consumer in consumers:
        consumer.wait(lambda: consumer.cancelled)
    refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'", lambda c: c.queue_declare(name, passive=True))


def properties():
    connection = connect()
    channel = confirming(connection)
    name = stream(channel)
    time_sent = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.timezone.utc)
    kept = dict(content_type="text/plain", content_encoding="gzip", priority=9, correlation_id="corr", reply_to="a b", message_id="id",
                expiration="60000", timestamp=1700000000, type="kind", user_id="guest", app_id="app", delivery_mode=2)
    headers = {"text": "t\u00e9xt", "true": True, "number": 5, "wide": 1 << 40, "void": None, "time": time_sent.replace(tzinfo=None),
               "x-number": 7, "x-list": [1, "a"], "x-table": {"a": 1}, "CC": ["nowhere"]}
    lost = {"list": [1], "table": {"a": 1}, "BCC": ["nowhere"], "x-stream-offset": 9}
    publish(channel, name, "all", headers={**headers, **lost}, cluster_id="lost", **kept)
    publish(channel, name, "none")
    consumer = Consumer(connection, name, "first")
    consumer.wait(lambda: len(consumer.deliveries) == 2)
    (method, found, body), (_, bare, _) = consumer.deliveries
    equal((method.exchange, method.routing_key, body), ("", name, b"all"), "method and body")
    found_time = found.headers["time"]
    found.headers["time"] = found_time.replace(tzinfo=None)
    equal(found.headers, {**headers, "x-stream-offset": 0}, "headers")
    equal({key: getattr(found, key) for key in [*kept, "cluster_id"]}, {**kept, "cluster_id": None}, "properties")
    equal({key: value for key, value in vars(bare).items() if value is not None}, {"delivery_mode": 1, "headers": {"x-stream-offset": 1}},
          "a message without properties")


def publishing():
    connection = connect()
    channel, name = filled(connection, 1)
    transactional = connection.channel()
    transactional.tx_select()
    transactional.basic_publish("", name, "rolled back")
    transactional.tx_rollback()
    transactional.basic_publish("", name, "m1")
    transactional.basic_publish("", name, "m2")
    transactional.tx_commit()
    # A stream knows no expiry.
    publish(channel, name, "m3", expiration="0")
    exchange = f"{prefix}.x"
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(name, exchange)
    channel.basic_publish(exchange, "key", "m4", mandatory=True)
    channel.exchange_delete(exchange)
    classic = f"{prefix}.classic"
    channel.queue_declare(classic, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name})
    publish(channel, classic, "m5", headers={"own": 1})
    tag = channel.basic_get(classic)[0].delivery_tag
    channel.basic_reject(tag, requeue=False)
    consumer = Consumer(connection, name, "first")
    consumer.wait(lambda: len(consumer.deliveries) == 6)
    headers = consumer.deliveries[5][1].headers
    equal((headers["own"], headers["x-first-death-reason"], headers["x-death"][0]["queue"]), (1, "rejected", classic), "a dead letter")
    equal(consumer.take(6), numbered(0, 6), "messages")
    channel.queue_delete(classic)


def listing():
    connection = connect()
    channel, name = filled(connection, 5, {"x-max-age": "1h"})
    path = f"queues/%2F/{name}"
    consumer = Consumer(connection, name, "first", prefetch=3, arguments={"x-stream-filter": ["a"], "x-stream-match-unfiltered": True},
                        consumer_tag="tag")
    consumer.wait(lambda: len(consumer.deliveries) == 3)
    node = http("GET", "overview")[1]["node"]
    wanted = {"type": "stream", "durable": True, "exclusive": False, "auto_delete": False, "leader": node, "members": [node],
              "online": [node], "readers": {node: 1}, "consumers": 1, "messages": 5, "messages_ready": 5,
              "messages_unacknowledged": 0, "arguments": {**STREAM, "x-max-age": "1h"}, "state": "running"}
    eventually(lambda: {key: http("GET", path)[1].get(key) for key in wanted}, wanted, "keys of a stream")
    shown = http("GET", path)[1]
    absent = ["exclusive_consumer_tag", "head_message_timestamp", "idle_since", "messages_ready_ram", "message_bytes", "storage_version",
              "delivery_limit"]
    equal([key for key in absent if key in shown], [], "keys of other queues")
    equal(shown["segments"] >= 1, True, "segments")
    [entry] = shown["consumer_details"]
    equal({key: entry[key] for key in ("arguments", "ack_required", "active", "consumer_tag", "prefetch_count", "exclusive")},
          {"arguments": {"x-stream-filter": ["a"], "x-stream-match-unfiltered": True, "x-stream-offset": "first"}, "ack_required": True,
           "active": True, "consumer_tag": "tag", "prefetch_count": 3, "exclusive": False}, "a consumer")
    text = f"not supported by stream queues queue '{name}' in vhost '/'"
    equal(http("POST", f"{path}/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
          (400, {"error": "bad_request", "reason": f"540 basic.get {text}"}), "get")
    equal(http("DELETE", f"{path}/contents"), (400, {"error": "bad_request", "reason": f"queue.purge {text}"}), "purge")
    status, answer = http("PUT", f"{path}.x", {"durable": False, "arguments": STREAM})
    equal((status, answer["reason"]), (400, f"invalid property 'non-durable' for queue '{name}.x' in vhost '/'"), "declaration")
    definitions = [queue for queue in http("GET", "definitions/%2F")[1]["queues"] if queue["name"] == name]
    equal(definitions, [{"name": name, "durable": True, "auto_delete": False, "type": "stream",
                         "arguments": {**STREAM, "x-max-age": "1h"}}], "definitions")
    equal(http("DELETE", path)[0], 204, "deletion")


BIG = 100_000


def first(connection, name):
    """The offset of the first message that is there."""
    consumer = Consumer(connection, name, 0, prefetch=1)
    consumer.wait(lambda: consumer.deliveries)
    consumer.channel.close()
    return consumer.deliveries[0][1].headers["x-stream-offset"]


def grown(channel, name, count):
    for _ in range(count):
        publish(channel, name, b"." * BIG)


def retention():
    connection = connect()
    channel = confirming(connection)
    name = stream(channel, {"x-max-length-bytes": 4_000_000, "x-stream-max-segment-size-bytes": 1_000_000})
    grown(channel, name, 30)
    equal(first(connection, name), 0, "the first one below the limit")
    grown(channel, name, 50)
    # What is kept is at most the limit, and at least it without a segment, whose size is a wish.
    eventually(lambda: 35 <= first(connection, name) <= 65, True, "the first of 80 within the limit")
    name = stream(channel, {"x-max-age": "1s", "x-stream-max-segment-size-bytes": 1_000_000}, "age")
    grown(channel, name, 20)
    # Nothing but their age tells when they go, and a stream without publishers may keep them.
    time.sleep(1.5)
    grown(channel, name, 20)
    eventually(lambda: 8 <= first(connection, name) <= 22, True, "the first of 40, the last 20 of which are young")


def kept_offsets():
    connection = connect()
    _, name = filled(connection, 12)
    kept = {"x-stream-automatic-offset-tracking": True}
    reader = lambda tag="reader": Consumer(connect(), name, "first", prefetch=4, arguments=kept, consumer_tag=tag)
    first = reader()
    equal(first.take(3), numbered(0, 3), "a new name")
    # A message that is given back isn't settled.
    equal(first.take(1, lambda channel, tag: channel.basic_nack(tag)), numbered(3, 4), "given back")
    equal(first.take(2), numbered(4, 6), "behind it")
    first.channel.connection.close()
    equal(reader().take(9), numbered(3, 12), "it goes on at the first one that isn't settled")
    equal(reader("another").take(1), numbered(0, 1), "another name")


def restart():
    connection = connect()
    channel, name = filled(connection, 6)
    publish(channel, name, "m6", headers={VALUE: "a", "x-list": [1]}, priority=3)
    equal(ask("ready kill"), "go", "control")
    connection = connect()
    consumer = Consumer(connection, name, 4)
    equal(consumer.take(2), numbered(4, 6), "from an offset")
    consumer.wait(lambda: consumer.deliveries)
    _, found, _ = consumer.deliveries[0]
    equal((found.headers, found.priority), ({VALUE: "a", "x-list": [1], "x-stream-offset": 6}, 3), "headers")
    equal(Consumer(connection, name, "first", arguments={"x-stream-filter": "a"}).take(1), numbered(6, 7), "by a filter")
    publish(confirming(connection), name, "m7")
    equal(Consumer(connection, name, "first").take(8), numbered(0, 8), "numbers go on")


def default_type():
    vhost = f"{prefix}.v"
    equal(http("PUT", f"vhosts/{vhost}", {"default_queue_type": "stream"})[0], 201, "vhost")
    http("PUT", f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = connect(vhost)
    channel = connection.channel()
    check_default_type(channel, vhost, "stream")
    connection.close()
    equal(http("DELETE", f"vhosts/{vhost}")[0], 204, "vhost deleted")


cell.run(globals())
