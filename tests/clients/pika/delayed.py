"""Delayed exchanges with pika, as `client.py` for the table: the same lines, and one function for each test."""

import random
import time

import pika
from pika import exceptions

import cell
from cell import PATIENCE, Failure, ask, confirming, connect, equal, eventually, http, prefix, refused

HOUR_MS = 3_600_000


def declare(channel, routing, name="x", **options):
    name = f"{prefix}.{name}"
    options.setdefault("durable", True)
    arguments = {"x-delayed-type": routing, **options.pop("arguments", {})}
    channel.exchange_declare(name, "x-delayed-message", arguments=arguments, **options)
    return name


def queue(channel, exchange, key="", name="q", **arguments):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind(name, exchange, key)
    return name


def publish(channel, exchange, body, delay=None, key="", mandatory=True, **properties):
    headers = {"kept": 1} if delay is None else {"kept": 1, "x-delay": delay}
    properties = pika.BasicProperties(delivery_mode=2, headers=headers, **properties)
    channel.basic_publish(exchange, key, body, properties, mandatory=mandatory)


def waiting(exchange):
    return http("GET", f"queues/%2F/amq.delayed.{exchange}")[1]["messages_delayed"]


def take(channel, name, count):
    """The next messages, as (time, headers, body, routing key)."""
    found, deadline = [], time.monotonic() + PATIENCE
    while len(found) < count:
        method, properties, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            if time.monotonic() > deadline:
                raise Failure(f"{len(found)} of {count} messages came: {[one[2] for one in found]}")
            time.sleep(0.003)
            continue
        found.append((time.time(), properties.headers, body.decode(), method.routing_key))
    return found


def order():
    """Delays in random order: each message comes by its time, and none early."""
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, "direct")
    name = queue(channel, exchange, "k")
    delays = [50 * at for at in range(1, 41)]
    random.Random(7).shuffle(delays)
    due = {}
    for delay in delays:
        due[delay] = time.time() + delay / 1000
        publish(channel, exchange, str(delay), delay, "k")
    for at, headers, body, key in take(channel, name, len(delays)):
        delay = int(body)
        equal((headers, key), ({"kept": 1, "x-delay": -delay}, "k"), "headers and key")
        # The broker reads its clock in milliseconds, and publishes take a moment.
        if not -0.005 <= at - due[delay] < 5:
            raise Failure(f"a message came {at - due[delay]} s after its time")
    # Those that wait longer than it takes to publish all come in order.
    exchange = declare(channel, "fanout", "y")
    name = queue(channel, exchange, name="r")
    for delay in (2900, 2100, 2500, 2300, 2700):
        publish(channel, exchange, str(delay), delay)
    equal([one[2] for one in take(channel, name, 5)], ["2100", "2300", "2500", "2700", "2900"], "order")
    # Integers, floats and strings count; all else is routed at once.
    for delay in (None, 0, -100, "soon", True, 4_294_967_296, [1000]):
        publish(channel, exchange, "now", delay)
        equal(take(channel, name, 1)[0][2], "now", f"with {delay!r}")
    since = time.time()
    publish(channel, exchange, "text", "400")
    found = take(channel, name, 1)[0]
    equal((found[2], found[0] >= since + 0.39, found[1]["x-delay"]), ("text", True, -400), "a delay as a string")
    publish(channel, exchange, "longest", 4_294_967_295)
    equal(waiting(exchange), 1, "the longest delay")


def kills():
    """The node is killed while messages wait, while they come due, and while they are published: what was confirmed comes once."""
    random_delay = random.Random(11).randrange
    confirmed = []
    channel = confirming(connect())
    exchange = declare(channel, "topic")
    names = [queue(channel, exchange, "a.#", "classic"), queue(channel, exchange, "#.z", "quorum", **{"x-queue-type": "quorum"})]
    for round_ in range(4):
        for at in range(60):
            body = f"{round_}.{at}"
            publish(channel, exchange, body, random_delay(1, 1500), "a.b.z")
            confirmed.append(body)
        time.sleep((0, 0.4, 0.8, 1.2)[round_])
        equal(ask("ready kill"), "go", "control")
        channel = confirming(connect())
    for name in names:
        found = sorted(one[2] for one in take(channel, name, len(confirmed)))
        equal(found, sorted(confirmed), f"messages of {name}")
    equal(waiting(exchange), 0, "waiting")
    # The settlements are flushed at the latest with what is published after them.
    queue(channel, "amq.direct", f"{prefix}.flush", "flush")
    publish(channel, "amq.direct", "flush", key=f"{prefix}.flush")
    equal(ask("ready kill"), "go", "control")
    channel = confirming(connect())
    equal(waiting(exchange), 0, "waiting after a kill")
    for name in names:
        equal(channel.queue_declare(name, passive=True).method.message_count, 0, f"twice in {name}")


def routing():
    connection = connect()
    channel = confirming(connection)
    other = queue(channel, "amq.direct", prefix, "other")
    exchange = declare(channel, "topic", arguments={"alternate-exchange": "amq.direct"})
    name = queue(channel, exchange, "a.*")
    publish(channel, exchange, "topic", 300, "a.b")
    publish(channel, exchange, "alternate", 300, prefix)
    publish(channel, exchange, "unbound", 300, "late.x")
    equal((take(channel, name, 1)[0][2], take(channel, other, 1)[0][2]), ("topic", "alternate"), "destinations")
    equal(channel.queue_declare(other, passive=True).method.message_count, 0, "the alternate exchange gets no other")
    # A binding that is made while the message waits counts, and one that goes doesn't.
    publish(channel, exchange, "bound", 800, "b.c")
    publish(channel, exchange, "no more", 800, "a.b")
    channel.queue_bind(name, exchange, "b.#")
    channel.queue_unbind(name, exchange, "a.*")
    equal(take(channel, name, 1)[0][2], "bound", "the binding of its due time")
    eventually(lambda: waiting(exchange), 0, "waiting")
    equal(channel.queue_declare(name, passive=True).method.message_count, 0, "left")
    # An exchange before it, one behind it, and headers.
    channel.exchange_declare(f"{prefix}.before", "fanout")
    exchange = declare(channel, "headers", "h")
    channel.exchange_bind(exchange, f"{prefix}.before", "")
    channel.exchange_declare(f"{prefix}.behind", "fanout")
    channel.exchange_bind(f"{prefix}.behind", exchange, "", {"x-match": "all", "kept": 1})
    end = queue(channel, f"{prefix}.behind", name="end")
    publish(channel, f"{prefix}.before", "through", 200)
    found = take(channel, end, 1)[0]
    equal((found[1], found[2]), ({"kept": 1, "x-delay": -200}, "through"), "a message through three exchanges")
    # Without a delay nothing is there to route it: it comes back.
    try:
        publish(channel, f"{prefix}.x", "back", key="nowhere")
        raise Failure("a message without a binding and a delay was routed")
    except exceptions.UnroutableError:
        pass


def retries():
    """A message that was rejected, waits in a delayed exchange and comes back; its time to live begins when it is routed."""
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, "direct")
    name = queue(channel, exchange, "k", **{"x-dead-letter-exchange": exchange, "x-message-ttl": 100})
    publish(channel, exchange, "b", 200, "k", expiration="100")
    # It expires in its queue, and its negated delay doesn't hold it again: it would cycle, and is dropped.
    eventually(lambda: channel.queue_declare(name, passive=True).method.message_count, 1, "it comes")
    eventually(lambda: channel.queue_declare(name, passive=True).method.message_count, 0, "it expires")
    equal(waiting(exchange), 0, "it isn't held again")
    # Rejected and published again with a longer delay.
    done = queue(channel, exchange, "again", "retried")
    publish(channel, exchange, "retry", 100, "again")
    for delay in (200, 300):
        _, headers, body, _ = take(channel, done, 1)[0]
        since = time.time()
        publish(channel, exchange, body, delay, "again")
        found = take(channel, done, 1)[0]
        equal((found[1]["x-delay"], found[0] >= since + delay / 1000 - 0.01), (-delay, True), "again")
        publish(channel, exchange, body, 1, "again")


def refusals():
    connection = connect()
    channel = connection.channel()
    exchange = declare(channel, "direct")
    must = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    new = lambda **arguments: lambda channel: channel.exchange_declare(
        f"{prefix}.new", "x-delayed-message", arguments={"x-" + key.replace("_", "-"): value for key, value in arguments.items()})
    refused(406, must, new())
    refused(406, must, new(delayed_type=5))
    refused(406, "unknown exchange type 'x-nothing'", new(delayed_type="x-nothing"))
    refused(406, "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'", new(delayed_type="x-delayed-message"))
    declare(channel, "direct")
    refused(406, "inequivalent arg 'x-delayed-type'", lambda channel: declare(channel, "topic"))
    held = f"amq.delayed.{exchange}"
    mine = f"it holds the delayed messages of exchange '{exchange}'"
    refused(403, mine, lambda channel: channel.basic_get(held))
    refused(403, mine, lambda channel: channel.basic_consume(held, lambda *_: None))
    refused(403, mine, lambda channel: channel.queue_bind(held, "amq.direct", "k"))
    refused(403, mine, lambda channel: channel.queue_delete(held))
    refused(403, "reserved prefix", lambda channel: channel.queue_declare(held))
    channel.confirm_delivery()
    try:
        channel.basic_publish("", held, b"x", mandatory=True)
        raise Failure("published to the queue of an exchange")
    except exceptions.UnroutableError:
        pass
    equal(http("PUT", f"exchanges/%2F/{prefix}.new", {"type": "x-delayed-message"})[0], 400, "without a type over HTTP")
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for method, path, body in (("DELETE", "", None), ("POST", "/get", get)):
        status, answer = http(method, f"queues/%2F/{held}{path}", body)
        equal((status, mine in answer["reason"]), (401, True), f"{method} over HTTP: {answer}")


def management():
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, "fanout")
    held = f"amq.delayed.{exchange}"
    name = queue(channel, exchange)
    equal("x-delayed-message" in [one["name"] for one in http("GET", "overview")[1]["exchange_types"]], True, "type")
    for body in ("one", "two", "three", "four"):
        publish(channel, exchange, body, HOUR_MS)
    shown = lambda: http("GET", f"exchanges/%2F/{exchange}")[1]
    equal([shown()[key] for key in ("type", "arguments", "messages_delayed")],
          ["x-delayed-message", {"x-delayed-type": "fanout"}, 4], "the exchange")
    equal([http("GET", f"queues/%2F/{held}")[1][key] for key in ("type", "messages", "messages_ready", "messages_delayed")],
          ["quorum", 4, 0, 4], "its queue")
    listed = http("GET", f"queues/%2F/{held}/delayed")[1]["messages"]
    equal([one["payload"] for one in listed], ["one", "two", "three", "four"], "waiting")
    equal([abs(one["delivery_time"] / 1000 - time.time() - 3600) < 60 for one in listed], [True] * 4, "an hour")
    first = listed[1]["number"]
    equal(http("DELETE", f"queues/%2F/{held}/delayed?first={first}&last={first}"), (200, {"deleted": 1}), "one deleted")
    equal(ask("ready kill"), "go", "control")
    equal(shown()["messages_delayed"], 3, "after a kill")
    equal(http("DELETE", f"queues/%2F/{held}/contents")[0], 204, "purge")
    equal(shown()["messages_delayed"], 0, "after a purge")
    document = http("GET", "definitions")[1]
    equal([one for one in document["queues"] if one["name"].startswith("amq.")], [], "it isn't exported")
    mine = {kind: [one for one in document[kind] if prefix in repr(one)] for kind in ("exchanges", "queues", "bindings")}
    equal(http("DELETE", f"exchanges/%2F/{exchange}")[0], 204, "deleted")
    equal(http("GET", f"queues/%2F/{held}")[0], 404, "its queue goes with it")
    equal(http("POST", "definitions", mine)[0], 204, "import")
    channel = confirming(connect())
    publish(channel, exchange, "again", 100)
    equal(take(channel, name, 1)[0][2], "again", "after an import")
    # It goes with its vhost, too.
    vhost = f"{prefix}.v"
    equal(http("PUT", f"vhosts/{vhost}")[0], 201, "a vhost")
    body = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    equal(http("PUT", f"exchanges/{vhost}/x", body)[0], 201, "in a vhost")
    equal(len(http("GET", f"queues/{vhost}")[1]), 1, "queues")
    equal(http("DELETE", f"vhosts/{vhost}")[0], 204, "without it")


def transient():
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, "fanout", durable=False)
    name = queue(channel, exchange)
    publish(channel, exchange, "soon", 200)
    equal(take(channel, name, 1)[0][2], "soon", "it works")
    publish(channel, exchange, "lost", HOUR_MS)
    for end in ("kill", "kill"):
        equal(ask(f"ready {end}"), "go", "control")
        equal(http("GET", f"exchanges/%2F/{exchange}")[0], 404, "the exchange")
        eventually(lambda: http("GET", f"queues/%2F/amq.delayed.{exchange}")[0], 404, "its queue")
    channel = confirming(connect())
    declare(channel, "fanout", durable=False)
    equal(waiting(exchange), 0, "nothing of the old one is left")


def large():
    """Bodies of several sizes, also to several queues at once."""
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, "fanout")
    names = [queue(channel, exchange, name=f"q{at}") for at in range(3)]
    channel.exchange_declare(f"{prefix}.all", "fanout", durable=True)
    channel.exchange_bind(exchange, f"{prefix}.all")
    direct = queue(channel, f"{prefix}.all", name="direct")
    sizes = (10, 5_000, 300_000, 3_000_000)
    for size in sizes:
        publish(channel, f"{prefix}.all", chr(97 + len(str(size))) * size, 700)
    equal(waiting(exchange), 4, "waiting")
    equal(ask("ready kill"), "go", "control")
    channel = confirming(connect())
    for name in names + [direct]:
        equal([(len(body), len(set(body))) for _, _, body, _ in take(channel, name, 4)], [(size, 1) for size in sizes], name)


cell.run(globals())
