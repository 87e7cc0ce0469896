"""Quorum queues with pika, as `client.py` for the table: the same lines, and one function for each test."""

import datetime
import time

import pika
from pika import exceptions

import cell
from cell import PATIENCE, Failure, ask, check_default_type, confirming, connect, equal, eventually, http, prefix, uri

QUORUM = {"x-queue-type": "quorum"}


def refused(connection, code, text, act):
    """`act(channel)` on a channel of its own ends with this code and text."""
    try:
        act(connection.channel())
    except (exceptions.ChannelClosed, exceptions.ConnectionClosed) as error:
        equal((error.reply_code, error.reply_text), (code, text), "refusal")
        return
    raise Failure(f"{code} {text!r} expected, nothing happened")


def queue(channel, arguments=None, name="q"):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=True, arguments={**QUORUM, **(arguments or {})})
    return name


def publish(channel, name, *bodies, **properties):
    properties.setdefault("delivery_mode", 2)
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(**properties), mandatory=True)


def ready(channel, name):
    return channel.queue_declare(name, passive=True).method.message_count


def bodies(channel, name):
    """Takes all ready messages for good."""
    taken = []
    while (got := channel.basic_get(name, auto_ack=True))[0] is not None:
        taken.append(got[2].decode())
    return taken


class Consumer:
    """A consumer on a channel of its own."""

    def __init__(self, connection, name, prefetch, **options):
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.deliveries = []
        self.channel.basic_consume(name, lambda *delivery: self.deliveries.append(delivery[1:]), **options)

    def take(self, count):
        """Waits for so many deliveries: delivery tag, redelivered, headers and body of each."""
        deadline = time.monotonic() + PATIENCE
        while len(self.deliveries) < count:
            if time.monotonic() > deadline:
                raise Failure(f"{len(self.deliveries)} deliveries, expected {count}")
            self.channel.connection.process_data_events(time_limit=0.05)
        taken, self.deliveries = self.deliveries[:count], self.deliveries[count:]
        return [(m.delivery_tag, m.redelivered, p.headers, body.decode()) for m, p, body in taken]

    def bodies(self, count):
        return [body for *_, body in self.take(count)]


def fetch(channel, name):
    """A get: delivery tag, redelivered, headers, body."""
    method, properties, body = channel.basic_get(name)
    if method is None:
        return None
    return method.delivery_tag, method.redelivered, properties.headers, body.decode()


def declaration():
    connection = connect()
    channel = connection.channel()
    name = f"{prefix}.q"
    answer = channel.queue_declare(name, durable=True, arguments=QUORUM).method
    equal((answer.queue, answer.message_count, answer.consumer_count), (name, 0, 0), "declare-ok")
    channel.queue_declare(name, durable=True, arguments=QUORUM)
    place = f"for queue '{name}.x' in vhost '/'"

    def wrong(text, **options):
        options = {"queue": f"{name}.x", "durable": True, "arguments": QUORUM, **options}
        refused(connection, 406, f"PRECONDITION_FAILED - {text}", lambda c: c.queue_declare(**options))

    wrong(f"invalid property 'auto-delete' {place}", auto_delete=True, exclusive=True, durable=False)
    wrong(f"invalid property 'exclusive-owner' {place}", exclusive=True, durable=False)
    wrong(f"invalid property 'non-durable' {place}", durable=False)
    wrong("Cannot declare a server-named queue for type rabbit_quorum_queue", queue="")
    wrong(f"invalid arg 'x-max-priority' {place} of queue type rabbit_quorum_queue",
          arguments={**QUORUM, "x-max-priority": 5}, durable=False)
    wrong(f"invalid arg 'x-overflow' {place}: invalid_overflow", arguments={**QUORUM, "x-overflow": "none"})
    wrong(f"invalid arg 'x-consumer-timeout' {place}: {{value_negative,-1}}",
          arguments={**QUORUM, "x-consumer-timeout": -1})
    wrong(f"invalid arg 'x-return-order' {place}: \"expected returned or position, got 'last'\"",
          arguments={**QUORUM, "x-return-order": "last"})
    wrong(f"invalid arg 'x-quorum-initial-group-size' {place}: {{value_zero,0}}",
          arguments={**QUORUM, "x-quorum-initial-group-size": 0})
    place = f"for queue '{name}' in vhost '/'"
    inequivalent = f"inequivalent arg 'x-queue-type' {place}: received 'classic' but current is 'quorum'"
    wrong(inequivalent, queue=name, arguments=None)
    wrong(f"inequivalent arg 'durable' {place}: received 'false' but current is 'true'", queue=name, durable=False)
    wrong(f"inequivalent arg 'x-delivery-limit' {place}: received the value '3' of type 'signedint' but current is none",
          queue=name, arguments={**QUORUM, "x-delivery-limit": 3})
    wrong(f"inequivalent arg 'x-consumer-timeout' {place}: received the value '1000' of type 'signedint' but current is "
          "none", queue=name, arguments={**QUORUM, "x-consumer-timeout": 1000})
    wrong(f"inequivalent arg 'x-return-order' {place}: received the value 'position' of type 'longstr' but current is "
          "none", queue=name, arguments={**QUORUM, "x-return-order": "position"})
    refused(connection, 403, "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'",
            lambda c: c.queue_declare("amq.q", durable=True, arguments=QUORUM))


def consumer_timeout():
    """Deliveries that come back after a timeout: of a consumer, of its queue, and of the node, as RabbitMQ 4.3.6 does it."""
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    place = f"for queue '{name}' in vhost '/'"
    for value, reason in ((-1, "{value_negative,-1}"), ("x", '"expected integer, got longstr"')):
        refused(connection, 406, f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' {place}: {reason}",
                lambda c: c.basic_consume(name, print, arguments={"x-consumer-timeout": value}))
    publish(channel, name, "one", "two", "three")
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=2)
    got, ended = [], []
    consumer.add_on_cancel_callback(lambda frame: ended.append(frame.method.consumer_tag))

    def take(_, deliver, properties, body):
        got.append((body.decode(), deliver.redelivered, properties.headers, deliver.delivery_tag))

    def consume(**arguments):
        consumer.basic_consume(name, take, consumer_tag="tag", arguments={key.replace("_", "-"): value for key, value in
                                                                           arguments.items()})

    def until(done):
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                raise Failure(f"got {got}, ended {ended}")
            connection.process_data_events(0.1)

    consume(x_consumer_timeout=500)
    until(lambda: ended)
    equal((ended, [body for body, *_ in got]), (["tag"], ["one", "two"]), "a consumer that doesn't acknowledge")
    until(lambda: ready(channel, name) == 3)
    # Settling late has no effect, and the channel goes on: its consumer may have the same name.
    consumer.basic_ack(got[0][3])
    consumer.basic_reject(got[1][3], requeue=False)
    got.clear()
    consume()
    until(lambda: len(got) == 2)
    equal([entry[:3] for entry in got],
          [("one", True, {"x-acquired-count": 1}), ("two", True, {"x-acquired-count": 1})],
          "returned without a failure")
    consumer.basic_ack(got[1][3], multiple=True)
    until(lambda: len(got) == 3)
    consumer.basic_ack(got[2][3])
    equal(ready(channel, name), 0, "ready")
    # The queue's timeout holds for basic.get, too; and a client that doesn't know that consumers end loses its channel.
    name = queue(channel, {"x-consumer-timeout": 500}, "own")
    publish(channel, name, "one")
    getter = connection.channel()
    fetch(getter, name)
    until(lambda: ready(channel, name) == 1)
    parameters = pika.URLParameters(uri)
    parameters.client_properties = {"capabilities": {"consumer_cancel_notify": False}}
    other = pika.BlockingConnection(parameters)
    unaware = other.channel()
    unaware.basic_consume(name, lambda *_: None, consumer_tag="unaware")
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            time.sleep(0.1)
            unaware.basic_qos(prefetch_count=1)
        raise Failure("the channel stays open")
    except exceptions.ChannelClosed as error:
        equal((error.reply_code, error.reply_text),
              (406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 500 ms. "
                    "This timeout value can be configured, see consumers doc guide to learn more"), "close")
    channel.basic_consume(name, lambda *_: None, consumer_tag="shown", arguments={"x-consumer-timeout": 77000})
    _, consumers = http("GET", "consumers/%2F")
    equal([entry["consumer_timeout"] for entry in consumers if entry["consumer_tag"] == "shown"], [77000], "listing")


def return_order():
    """`x-return-order`: returned messages first, or in their old places."""
    connection = connect()
    channel = confirming(connection)
    for order, expected in (("returned", "cbad"), ("position", "abcd")):
        name = queue(channel, {"x-return-order": order}, order)
        publish(channel, name, *"abcd")
        tags = [fetch(channel, name)[0] for _ in range(3)]
        for tag in reversed(tags):
            channel.basic_nack(tag)
        found = [fetch(channel, name) for _ in range(4)]
        equal("".join(body for *_, body in found), expected, order)
        equal([redelivered for _, redelivered, *_ in found].count(True), 3, "redelivered")


def restart():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "persistent")
    publish(channel, name, "low", priority=1)
    publish(channel, name, "transient", delivery_mode=1)
    publish(channel, name, "high", priority=9)
    # Three rejections, a nack, and one left to the end of its connection.
    for _ in range(3):
        tag, _, _, body = fetch(channel, name)
        equal(body, "high", "body")
        channel.basic_reject(tag)
    tag, *_ = fetch(channel, name)
    channel.basic_nack(tag)
    equal(ready(channel, name), 4, "ready before the kill")
    # Counts are flushed at the latest with what is published after them.
    publish(channel, name, "last", priority=0)
    fetch(channel, name)
    equal(ask("ready kill"), "go", "control")
    channel = connect().channel()
    equal(ready(channel, name), 5, "ready after the kill")
    found = {body: (redelivered, headers, tag) for tag, redelivered, headers, body in
             (fetch(channel, name) for _ in range(5))}
    redelivered, headers, _ = found["high"]
    equal(redelivered, True, "redelivered")
    counts = (headers["x-acquired-count"], headers["x-delivery-count"])
    if counts not in ((4, 3), (5, 4)):
        raise Failure(f"counts after the kill: {counts}")
    equal(found["transient"][1], None, "headers of a message that wasn't taken before")
    equal(sorted(found), ["high", "last", "low", "persistent", "transient"], "messages")
    for *_, tag in found.values():
        channel.basic_ack(tag)
    equal(ready(channel, name), 0, "ready")
    channel.connection.close()
    # Acknowledgements are flushed at the latest with what is published after them.
    publish(confirming(connect()), queue(connect().channel(), name="other"), "x")
    equal(ask("ready kill"), "go", "control")
    equal(ready(connect().channel(), name), 0, "acknowledged ones stay gone")


def order():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    for level, priority in (("l", 0), ("d", None), ("h", 9), ("e", 4), ("x", 40), ("y", 255)):
        publish(channel, name, f"{level}1", f"{level}2", priority=priority)
    consumer = Consumer(connection, name, 12)
    expected = ["x1", "x2", "y1", "y2", "h1", "h2", "d1", "d2", "e1", "e2", "l1", "l2"]
    first = consumer.take(12)
    equal([body for *_, body in first], expected, "strict priorities")
    tags = {body: tag for tag, _, _, body in first}
    for body in ("l2", "x1", "d1"):
        consumer.channel.basic_nack(tags[body])
    publish(channel, name, "late", priority=30)
    equal(consumer.bodies(3), ["l2", "x1", "d1"], "the order of returns, before any that is ready")
    consumer.channel.close()
    last = Consumer(connection, name, 20)
    found = last.bodies(13)
    equal((sorted(found), found[-1]), (sorted(expected + ["late"]), "late"), "the end of a channel returns all, first")
    last.channel.basic_ack(0, multiple=True)
    equal(ready(channel, name), 0, "ready")


def counts():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "m")
    other = connection.channel()
    seen = []

    def step(act):
        tag, redelivered, headers, _ = fetch(other, name)
        headers = headers or {}
        seen.append((redelivered, headers.get("x-acquired-count"), headers.get("x-delivery-count")))
        act(tag)

    step(lambda tag: other.basic_nack(tag))
    step(lambda tag: other.basic_reject(tag))
    step(lambda tag: other.basic_recover(requeue=True))
    step(lambda tag: other.basic_reject(tag))
    step(lambda _: other.close())
    other = connection.channel()
    step(lambda tag: other.basic_ack(tag))
    expected = [(False, None, None), (True, 1, None), (True, 2, 1), (True, 3, 1), (True, 4, 2), (True, 5, 3)]
    equal(seen, expected, "redelivered, x-acquired-count, x-delivery-count")
    # A publisher's own headers come through until the queue counts.
    publish(channel, name, "own", headers={"x-acquired-count": 9, "x-delivery-count": 7, "k": "v"})
    tag, _, headers, _ = fetch(other, name)
    equal(headers, {"x-acquired-count": 9, "x-delivery-count": 7, "k": "v"}, "a publisher's headers")
    other.basic_nack(tag)
    tag, _, headers, _ = fetch(other, name)
    equal(headers, {"x-acquired-count": 1, "x-delivery-count": 7, "k": "v"}, "the queue's count replaces one")
    other.basic_ack(tag)


def delivery_limit():
    connection = connect()
    channel = confirming(connection)
    target = f"{prefix}.dead"
    channel.queue_declare(target, durable=True)
    arguments = {"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    name = queue(channel, arguments)
    publish(channel, name, "poison")
    for delivery in range(3):
        eventually(lambda: ready(channel, name), 1, "ready")
        tag, _, headers, _ = fetch(channel, name)
        equal((headers or {}).get("x-delivery-count"), delivery or None, "x-delivery-count")
        channel.basic_reject(tag)
    eventually(lambda: (ready(channel, name), ready(channel, target)), (0, 1), "ready in the queue and in its target")
    method, properties, body = channel.basic_get(target, auto_ack=True)
    equal(body, b"poison", "dead letter")
    death = properties.headers["x-death"][0]
    equal((death["reason"], death["count"], death["queue"], death["exchange"], death["routing-keys"]),
          ("delivery_limit", 1, name, "", [name]), "x-death")
    equal(properties.headers["x-first-death-reason"], "delivery_limit", "x-first-death-reason")
    equal([key for key in properties.headers if key in ("x-acquired-count", "x-delivery-count")], [], "counts")
    # Nacks never come to the limit.
    publish(channel, name, "nacked")
    for _ in range(5):
        channel.basic_nack(fetch(channel, name)[0])
    equal(ready(channel, name), 1, "ready")
    equal(bodies(channel, name), ["nacked"], "kept")


def parking():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-delivery-limit": 0})
    path = f"queues/%2F/{name}"
    publish(channel, name, "one", "two", "three", "four", headers={"k": "v"})
    for _ in range(4):
        channel.basic_reject(fetch(channel, name)[0])
    equal(ready(channel, name), 0, "ready")
    shown = lambda: [http("GET", path)[1][key] for key in ("messages", "parked", "parked_bytes")]
    eventually(shown, [0, 4, 15], "messages, parked and parked_bytes")
    status, listed = http("GET", f"{path}/parked?count=2&truncate=3")
    equal((status, listed["total"], [one["payload"] for one in listed["messages"]]), (200, 4, ["one", "two"]), "a page")
    equal(listed["messages"][0]["properties"]["headers"], {"k": "v"}, "headers")
    numbers = [one["number"] for one in http("GET", f"{path}/parked")[1]["messages"]]
    equal(len(numbers), 4, "numbers")
    equal(http("GET", f"{path}/parked?offset=3&truncate=0")[1]["messages"][0]["payload_bytes"], 4, "bytes of the last")
    # That they are parked is flushed at the latest with what is published after it.
    publish(channel, queue(channel, name="other"), "x")
    equal(ask("ready kill"), "go", "control")
    equal(shown(), [0, 4, 15], "after a kill")
    status, answer = http("DELETE", f"{path}/parked?first={numbers[1]}&last={numbers[2]}")
    equal((status, answer), (200, {"deleted": 2}), "deleted")
    equal(ask("ready kill"), "go", "control")
    listed = http("GET", f"{path}/parked")[1]["messages"]
    equal([one["payload"] for one in listed], ["one", "four"], "left after another kill")
    equal(http("DELETE", f"{path}/parked"), (200, {"deleted": 2}), "all deleted")
    equal(shown(), [0, 0, 0], "at the end")
    equal(http("GET", "queues/%2F/missing/parked")[0], 404, "a queue that isn't there")


def fetch_later(channel, name, since, earliest):
    """A get of a message that is delayed: it has to come, and no sooner than `earliest` seconds after `since`."""
    deadline = time.monotonic() + PATIENCE
    while (found := fetch(channel, name)) is None:
        if time.monotonic() > deadline:
            raise Failure("a delayed message never came")
        time.sleep(0.01)
    if time.monotonic() < since + earliest:
        raise Failure(f"{found!r} after {time.monotonic() - since} s, expected {earliest} s")
    return found


def counts_of(headers):
    return headers.get("x-acquired-count"), headers.get("x-delivery-count")


def delayed_retry():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-delayed-retry-type": "all", "x-delayed-retry-min": 300, "x-delayed-retry-max": 500})
    path = f"queues/%2F/{name}"
    equal(http("GET", path)[1]["delayed_retry"], "all (min: 300ms, max: 500ms)", "delayed_retry")
    publish(channel, name, "again")
    tag, _, headers, _ = fetch(channel, name)
    for failures, delay in [(1, 0.3), (2, 0.5), (3, 0.5)]:
        since = time.monotonic()
        channel.basic_reject(tag)
        tag, redelivered, headers, _ = fetch_later(channel, name, since, delay)
        equal((counts_of(headers), redelivered), ((failures, failures), True), "counts")
    since = time.monotonic()
    channel.basic_nack(tag)
    tag, _, headers, _ = fetch_later(channel, name, since, 0.5)
    equal(counts_of(headers), (4, 3), "a nack waits as long as the last failure")
    channel.basic_ack(tag)


def delayed_messages():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 3_600_000, "x-max-length": 5})
    path = f"queues/%2F/{name}"
    publish(channel, name, "one", "two", "three", "four", "five")
    for _ in range(4):
        channel.basic_reject(fetch(channel, name)[0])
    channel.basic_nack(fetch(channel, name)[0])
    shown = lambda: [http("GET", path)[1][key] for key in ("messages", "messages_ready", "messages_delayed", "delayed_bytes")]
    eventually(shown, [5, 1, 4, 15], "messages, messages_ready, messages_delayed and delayed_bytes")
    before = time.time()
    status, listed = http("GET", f"{path}/delayed?count=2&truncate=3")
    equal((status, listed["total"], [one["payload"] for one in listed["messages"]]), (200, 4, ["one", "two"]), "a page")
    equal([abs(one["delivery_time"] / 1000 - before - 3600) < 60 for one in listed["messages"]], [True] * 2, "an hour")
    numbers = [one["number"] for one in http("GET", f"{path}/delayed")[1]["messages"]]
    publish(channel, name, "six")
    # The oldest ready one is read before it is dropped.
    eventually(lambda: ready(channel, name), 1, "delayed messages count in the length limit")
    # All of that is flushed at the latest with what is published after it.
    publish(channel, queue(channel, name="other"), "x")
    equal(ask("ready kill"), "go", "control")
    eventually(shown, [5, 1, 4, 15], "after a kill")
    status, answer = http("DELETE", f"{path}/delayed?first={numbers[1]}&last={numbers[2]}")
    equal((status, answer), (200, {"deleted": 2}), "deleted")
    listed = http("GET", f"{path}/delayed")[1]["messages"]
    equal([one["payload"] for one in listed], ["one", "four"], "left")
    channel = confirming(connect())
    equal(channel.queue_purge(name).method.message_count, 3, "a purge takes the delayed ones, too")
    equal(shown(), [0, 0, 0, 0], "after a purge")
    equal(http("GET", "queues/%2F/missing/delayed")[0], 404, "a queue that isn't there")


def delayed_publishing():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-max-length": 6, "x-overflow": "reject-publish"})
    classic, dead = f"{prefix}.classic", queue(channel, name="dead")
    channel.queue_declare(classic, durable=True, arguments={
        "x-queue-type": "classic", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    channel.queue_bind(name, "amq.fanout")
    channel.queue_bind(classic, "amq.fanout")
    later = int((time.time() + 3600) * 1000)
    timed = lambda value: {"headers": {"x-opt-delivery-time": value}}
    # pika sends a datetime as a timestamp, in seconds.
    publish(channel, name, "date", **timed(datetime.datetime.fromtimestamp(later // 1000, datetime.timezone.utc)), priority=31)
    channel.basic_publish("amq.fanout", "", "both", pika.BasicProperties(delivery_mode=2, **timed(later)))
    past = int(time.time() * 1000) - 1000
    for value in [past, -1, str(later), True]:
        publish(channel, name, "now", **timed(value))
    eventually(lambda: bodies(channel, name), ["now"] * 4, "past times, and values that are none")
    eventually(lambda: ready(channel, classic), 1, "a classic queue delivers at once")
    channel.basic_reject(fetch(channel, classic)[0], requeue=False)
    shown = lambda name: [http("GET", f"queues/%2F/{name}")[1][key] for key in ("messages", "messages_ready", "messages_delayed")]
    eventually(lambda: shown(dead), [1, 0, 1], "a dead letter is held, too")
    equal(shown(name), [2, 0, 2], "messages, messages_ready and messages_delayed")
    listed = http("GET", f"queues/%2F/{name}/delayed")[1]["messages"]
    times = [(one["payload"], one["delivery_time"]) for one in listed]
    equal(times, [("date", later // 1000 * 1000), ("both", later)], "listed")
    equal(http("GET", "overview")[1]["queue_totals"]["messages"], 3, "the sum of all queues")
    soon = int((time.time() + 1.5) * 1000)
    publish(channel, name, "second", **timed(soon + 1))
    publish(channel, name, "first", **timed(soon))
    publish(channel, name, "ready")
    eventually(lambda: bodies(channel, name), ["ready"], "the only one that is ready")
    try:
        publish(channel, name, "fifth", "sixth", "seventh", **timed(later))
        raise Failure("a publish beyond the limit was confirmed")
    except exceptions.NackError:
        pass
    equal(ask("ready kill"), "go", "control")
    channel = confirming(connect())
    eventually(lambda: ready(channel, name), 2, "what came due")
    if time.time() * 1000 < soon:
        raise Failure("too early after a kill")
    equal(sorted(bodies(channel, name)), ["first", "second"], "due after a kill")
    equal(shown(name), [4, 0, 4], "the others are still delayed")
    equal(http("DELETE", f"queues/%2F/{name}/delayed")[1], {"deleted": 4}, "deleted")
    equal(channel.queue_purge(dead).method.message_count, 1, "purged")


def delayed_order():
    channel = confirming(connect())
    name = queue(channel)
    soon = int((time.time() + 0.7) * 1000)
    publish(channel, name, "second", priority=31, headers={"x-opt-delivery-time": soon + 100})
    publish(channel, name, "first", priority=0, headers={"x-opt-delivery-time": soon})
    eventually(lambda: ready(channel, name), 2, "due")
    publish(channel, name, "third", priority=31)
    taken = [fetch(channel, name)[slice(1, 4, 2)] for _ in range(3)]
    equal(taken, [(False, "first"), (False, "second"), (False, "third")], "in order of their times, whatever their priority")


def dead_letter_counts():
    channel = confirming(connect())
    dead = queue(channel, {"x-delivery-limit": 4, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{prefix}.last"}, "dead")
    last, classic = queue(channel, name="last"), f"{prefix}.classic"
    channel.queue_declare(classic, durable=True, arguments={"x-queue-type": "classic"})
    name = queue(channel, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": 1000})
    seen = lambda of: (lambda got: (got[0], got[1], [(got[2] or {}).get(key) for key in ("x-acquired-count", "x-delivery-count")]))(take(of))

    def take(of):
        eventually(lambda: ready(channel, of) > 0, True, f"a message in {of}")
        return fetch(channel, of)

    publish(channel, name, "m")
    channel.basic_nack(take(name)[0])
    channel.basic_reject(take(name)[0])
    channel.basic_reject(take(name)[0], requeue=False)
    for expected in [[2, 2], [1, 3], [2, 4]]:
        tag, redelivered, counts = seen(dead)
        equal((redelivered, counts), (True, expected), "in the quorum queue that it moved to")
        channel.basic_reject(tag)
    equal(seen(last)[1:], (True, [5, 5]), "beyond the limit there")
    publish(channel, name, "n")
    channel.basic_nack(take(name)[0])
    equal(seen(dead)[1:], (False, [None, None]), "expired, and never failed")
    channel.queue_delete(name)
    name = queue(channel, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": classic})
    publish(channel, name, "c")
    channel.basic_reject(take(name)[0], requeue=False)
    equal(seen(classic)[2], [None, None], "a classic queue doesn't show them")
    channel.queue_purge(classic)


def kept_dead_letters():
    connection = connect()
    channel = confirming(connection)
    exchange = f"{prefix}.dlx"
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-strategy": "at-least-once"}
    name = queue(channel, {**arguments, "x-max-length": 3, "x-overflow": "reject-publish"})
    publish(channel, name, "one", "two", "three")
    # Without its exchange a dead letter goes nowhere.
    for _ in range(2):
        channel.basic_reject(fetch(channel, name)[0], requeue=False)
    keys = ("messages", "messages_ready", "messages_dlx", "message_bytes_dlx")
    shown = lambda: [http("GET", f"queues/%2F/{name}")[1][key] for key in keys]
    eventually(shown, [3, 1, 2, 6], ", ".join(keys))
    try:
        publish(channel, name, "four")
        raise Failure("a publish beyond the limit was confirmed")
    except exceptions.NackError:
        pass
    # What is on disk of it is flushed at the latest with what is published after it.
    publish(channel, queue(channel, name="other"), "x")
    equal(ask("ready kill"), "go", "control")
    eventually(shown, [3, 1, 2, 6], "after a kill")
    # A target with room for one, then for the other.
    channel = confirming(connect())
    target = f"{prefix}.target"
    channel.queue_declare(target, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_bind(target, exchange)
    eventually(lambda: ready(channel, target), 1, "the first dead letter")
    eventually(shown, [2, 1, 1, 3], "one waits")
    tag, _, _, body = fetch(channel, target)
    channel.basic_ack(tag)
    equal(body, "one", "the first dead letter")
    eventually(lambda: ready(channel, target), 1, "the second dead letter")
    tag, _, headers, body = fetch(channel, target)
    channel.basic_ack(tag)
    equal((body, headers["x-first-death-reason"]), ("two", "rejected"), "the second one")
    eventually(shown, [1, 1, 0, 0], "all have moved")
    channel.queue_delete(target)
    channel.basic_reject(fetch(channel, name)[0], requeue=False)
    eventually(shown, [1, 0, 1, 5], "one more waits")
    equal(channel.queue_purge(name).method.message_count, 1, "a purge takes it, too")
    equal(shown(), [0, 0, 0, 0], "after a purge")


def calls():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "1", "2", "3", "4")
    method, _, body = channel.basic_get(name)
    equal((body, method.redelivered, method.message_count), (b"1", False, 3), "get")
    equal(channel.queue_declare(name, passive=True).method.consumer_count, 0, "consumers")
    equal(channel.queue_purge(name).method.message_count, 3, "purged")
    channel.basic_reject(method.delivery_tag)
    eventually(lambda: ready(channel, name), 1, "ready after the return")
    publish(channel, name, "5")
    tag, *_ = fetch(channel, name)
    equal(channel.queue_delete(name).method.message_count, 2, "deleted, with one unacknowledged")
    channel.basic_ack(tag)
    equal(channel.queue_delete(name).method.message_count, 0, "deleted twice")
    # An exclusive consumer isn't exclusive.
    name = queue(channel)
    first = Consumer(connection, name, 1, exclusive=True)
    second = Consumer(connection, name, 1, exclusive=True)
    publish(channel, name, "a", "b")
    equal(sorted(first.bodies(1) + second.bodies(1)), ["a", "b"], "one each")
    first.channel.basic_ack(1)
    second.channel.basic_ack(1)


def listing():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-delivery-limit": 5})
    path = f"queues/%2F/{name}"
    publish(channel, name, "m1", "m2", "m3")
    publish(channel, name, "h", priority=9)
    consumer = Consumer(connection, name, 2)
    tag, *_ = consumer.take(2)[0]
    consumer.channel.basic_cancel(consumer.channel.consumer_tags[0])
    consumer.channel.basic_reject(tag)
    node = http("GET", "overview")[1]["node"]
    wanted = {"type": "quorum", "durable": True, "leader": node, "members": [node], "online": [node], "delivery_limit": 5,
              "messages": 4, "messages_ready": 3, "messages_unacknowledged": 1, "messages_persistent": 4,
              "messages_ready_returned": 1, "messages_active_priorities": 1, "messages_by_priority": {"4": 2},
              "parked": 0, "parked_bytes": 0, "arguments": {**QUORUM, "x-delivery-limit": 5}}
    eventually(lambda: {key: http("GET", path)[1].get(key) for key in wanted}, wanted, "keys of a quorum queue")
    absent = ["exclusive_consumer_tag", "head_message_timestamp", "idle_since", "messages_ready_ram",
              "messages_unacknowledged_ram", "storage_version"]
    equal([key for key in absent if key in http("GET", path)[1]], [], "keys of classic queues")
    status, members = http("GET", f"queues/quorum/%2F/{name}/status")
    equal((status, [(one["Node Name"], one["Raft State"], one["Membership"]) for one in members]),
          (200, [(node, "leader", "voter")]), "members")
    # The returned one is taken first.
    get = lambda mode: http("POST", f"{path}/get", {"count": 1, "ackmode": mode, "encoding": "auto"})[1][0]
    headers = [get(mode)["properties"].get("headers") for mode in
               ("ack_requeue_true", "reject_requeue_true", "ack_requeue_true")]
    counts = lambda acquired, failed: {"x-acquired-count": acquired, "x-delivery-count": failed}
    equal(headers, [counts(1, 1), counts(2, 1), counts(3, 2)], "headers of what is got")
    equal(http("DELETE", path)[0], 204, "deletion")


def limits():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel, {"x-message-ttl": 300}, "ttl")
    publish(channel, name, "gone")
    eventually(lambda: ready(channel, name), 0, "ready past the ttl")
    name = queue(channel, {"x-max-length": 2}, "head")
    publish(channel, name, "a", priority=9)
    publish(channel, name, "b", "c", priority=0)
    equal(bodies(channel, name), ["b", "c"], "drop-head drops the one to be delivered next")
    name = queue(channel, {"x-max-length": 2, "x-overflow": "reject-publish"}, "reject")
    publish(channel, name, "a", "b")
    try:
        publish(channel, name, "c")
        raise Failure("a full queue accepts a message")
    except exceptions.NackError:
        pass
    equal(bodies(channel, name), ["a", "b"], "reject-publish")


def default_type():
    vhost = f"{prefix}.v"
    equal(http("PUT", f"vhosts/{vhost}", {"default_queue_type": "quorum"})[0], 201, "vhost")
    equal(http("GET", f"vhosts/{vhost}")[1]["default_queue_type"], "quorum", "vhost's default")
    connection = connect(vhost)
    channel = connection.channel()
    check_default_type(channel, vhost, "quorum")
    channel.queue_declare("durable", durable=True, arguments=QUORUM)
    refused(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'durable' in vhost "
            f"'{vhost}': received 'classic' but current is 'quorum'",
            lambda c: c.queue_declare("durable", durable=True, arguments={"x-queue-type": "classic"}))
    refused(connection, 406, "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
            lambda c: c.queue_declare("", durable=True))
    refused(connection, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'f' in vhost "
            f"'{vhost}' of queue type rabbit_quorum_queue",
            lambda c: c.queue_declare("f", durable=True, arguments={"x-max-priority": 5}))
    channel.queue_declare("", exclusive=True)
    connection.close()
    equal(http("DELETE", f"vhosts/{vhost}")[0], 204, "vhost deleted")


cell.run(globals())
