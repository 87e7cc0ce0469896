"""Recent history exchanges with pika, as `client.py` for the table: the same lines, and one function for each test."""

import pika
from pika import exceptions

import cell
from cell import Failure, ask, confirming, connect, equal, eventually, http, prefix, refused

LENGTH = "x-recent-history-length"


def declare(channel, name="x", length=None, **options):
    name = f"{prefix}.{name}"
    options.setdefault("durable", True)
    arguments = {} if length is None else {LENGTH: length}
    channel.exchange_declare(name, "x-recent-history", arguments={**arguments, **options.pop("arguments", {})}, **options)
    return name


def queue(channel, name="q", kind="classic"):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    return name


def publish(channel, exchange, *bodies, key="k", mode=1, **properties):
    for body in bodies:
        channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=mode, **properties))


def take(channel, name):
    """All messages of a queue."""
    found = []
    while True:
        method, properties, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            return found
        found.append((body.decode(), method.exchange, method.routing_key, properties))


def bodies(channel, name):
    return [one[0] for one in take(channel, name)]


def bindings():
    """Queues of every type, further keys, other exchanges, unroutable and unwanted messages."""
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, length=3)
    publish(channel, exchange, "1", "2", "3", "4", headers={"h": 1}, expiration="60000")
    publish(channel, exchange, "5", headers={"x-recent-history-no-store": True})
    for kind in ("classic", "quorum"):
        name = queue(channel, kind, kind)
        # The answer to the bind comes when they are there.
        channel.queue_bind(name, exchange, "a")
        found = take(channel, name)
        equal([one[:3] for one in found], [(body, exchange, "k") for body in "234"], f"a {kind} queue")
        equal((found[0][3].headers, found[0][3].expiration), ({"h": 1}, "60000"), "properties")
        channel.queue_bind(name, exchange, "a")
        equal(bodies(channel, name), [], "the same binding")
        channel.queue_bind(name, exchange, "b")
        equal(bodies(channel, name), ["2", "3", "4"], "another key")
        publish(channel, exchange, "6", headers={"x-recent-history-no-store": True})
        equal(bodies(channel, name), ["6"], "a message comes once")
    stream = queue(channel, "stream", "stream")
    channel.queue_bind(stream, exchange, "")
    eventually(lambda: http("GET", f"queues/%2F/{stream}")[1]["messages"], 3, "a stream")
    last = queue(channel, "last")
    channel.exchange_declare(f"{prefix}.topic", "topic")
    channel.queue_bind(last, f"{prefix}.topic", "k.#")
    channel.exchange_bind(f"{prefix}.topic", exchange, "")
    equal(bodies(channel, last), ["4", "3", "2"], "another exchange, newest first")
    # A binding over HTTP is answered when they are there, too.
    over = queue(channel, "http")
    equal(http("POST", f"bindings/%2F/e/{exchange}/q/{over}", {"routing_key": "h"})[0], 201, "bound over HTTP")
    equal(bodies(channel, over), ["2", "3", "4"], "a queue bound over HTTP")


def kills():
    """Messages that were confirmed survive kills, transient ones included, and queues that are bound after these get them."""
    channel = confirming(connect())
    exchange = declare(channel)
    other = queue(channel, "before")
    channel.queue_bind(other, exchange, "k")
    for round_ in range(3):
        publish(channel, exchange, *(f"{round_}.{at}" for at in range(15)), mode=1 + round_ % 2)
        equal(ask("ready kill"), "go", "control")
        channel = confirming(connect())
        name = queue(channel, f"q{round_}", "quorum")
        channel.queue_bind(name, exchange, "k")
        expected = [f"{of}.{at}" for of in range(round_ + 1) for at in range(15)][-20:]
        equal(bodies(channel, name), expected, f"after kill {round_}")
    equal(ask("ready kill"), "go", "control")
    channel = confirming(connect())
    durable = [f"1.{at}" for at in range(15)]
    equal(bodies(channel, other), durable, "what a classic queue has after that: nothing twice")
    equal(http("GET", f"exchanges/%2F/{exchange}")[1]["messages_kept"], 20, "kept")


def refusals():
    connection = connect()
    channel = connection.channel()
    exchange = declare(channel, length=2)
    must = "'x-recent-history-length' must be a positive integer"
    for value, shown in ((0, "0"), (-1, "-1"), ("20", '<<"20">>')):
        refused(406, f"PRECONDITION_FAILED - Invalid argument {shown}, {must}", lambda channel: declare(channel, "new", value))
    refused(406, "is at most 100000", lambda channel: declare(channel, "new", 100_001))
    declare(channel, length=5)
    equal(http("GET", f"exchanges/%2F/{exchange}")[1]["arguments"], {LENGTH: 2}, "the length stays")
    refused(406, "inequivalent arg 'alternate-exchange'",
            lambda channel: declare(channel, arguments={"alternate-exchange": "amq.fanout"}))
    kept = f"amq.history.{exchange}"
    mine = f"it holds the last messages of exchange '{exchange}'"
    refused(403, mine, lambda channel: channel.basic_get(kept))
    refused(403, mine, lambda channel: channel.basic_consume(kept, lambda *_: None))
    refused(403, mine, lambda channel: channel.queue_bind(kept, "amq.direct", "k"))
    refused(403, mine, lambda channel: channel.queue_delete(kept))
    channel.confirm_delivery()
    try:
        channel.basic_publish("", kept, b"x", mandatory=True)
        raise Failure("published to the queue of an exchange")
    except exceptions.UnroutableError:
        pass


def management():
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel, length=4, arguments={"alternate-exchange": "amq.fanout"})
    kept = f"amq.history.{exchange}"
    equal("x-recent-history" in [one["name"] for one in http("GET", "overview")[1]["exchange_types"]], True, "type")
    # No policy of queues applies to the queue.
    policy = {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 1}}
    equal(http("PUT", f"policies/%2F/{prefix}", policy)[0], 201, "a policy")
    name = queue(channel, "alternate")
    channel.queue_bind(name, "amq.fanout", "")
    publish(channel, exchange, "1", "2", "3", "4", "5")
    equal(http("DELETE", f"policies/%2F/{prefix}")[0], 204, "the policy")
    equal(len(take(channel, name)), 1, "what is kept without a binding goes to the alternate exchange")
    shown = lambda: http("GET", f"exchanges/%2F/{exchange}")[1]["messages_kept"]
    equal(shown(), 4, "kept")
    listed = http("GET", f"queues/%2F/{kept}/browse")[1]
    equal([one["payload"] for one in listed], ["2", "3", "4", "5"], "they are shown")
    equal(http("DELETE", f"queues/%2F/{kept}/contents")[0], 204, "purge")
    equal(shown(), 0, "after a purge")
    publish(channel, exchange, "6")
    document = http("GET", "definitions")[1]
    equal([one for one in document["queues"] if one["name"].startswith("amq.")], [], "the queue isn't exported")
    mine = {"exchanges": [one for one in document["exchanges"] if one["name"] == exchange]}
    channel.exchange_delete(exchange)
    equal(http("GET", f"queues/%2F/{kept}")[0], 404, "the queue goes with its exchange")
    equal(http("POST", "definitions", mine)[0], 204, "import")
    equal(shown(), 0, "nothing of the old one is left")
    vhost = f"{prefix}.v"
    equal(http("PUT", f"vhosts/{vhost}")[0], 201, "a vhost")
    equal(http("PUT", f"exchanges/{vhost}/x", {"type": "x-recent-history"})[0], 201, "in a vhost")
    equal(len(http("GET", f"queues/{vhost}")[1]), 1, "queues")
    equal(http("DELETE", f"vhosts/{vhost}")[0], 204, "without it")
    transient = declare(channel, "transient", durable=False)
    publish(channel, transient, "lost")
    equal(ask("ready kill"), "go", "control")
    eventually(lambda: http("GET", f"queues/%2F/amq.history.{transient}")[0], 404, "the queue of a transient exchange")
    equal(http("GET", f"exchanges/%2F/{exchange}")[1]["messages_kept"], 0, "the other one stays")


def unconfirmed():
    """What a channel publishes without confirms is seen by its next methods: a binding, a declaration, a passive one, a get."""
    channel = connect().channel()
    expected = [str(at) for at in range(20)]
    for round_ in range(5):
        for durable in (False, True):
            for mode in (1, 2):
                exchange = declare(channel, f"x{round_}.{durable}.{mode}", durable=durable)
                name = queue(channel, f"q{round_}.{durable}.{mode}")
                publish(channel, exchange, *expected, mode=mode)
                channel.queue_bind(name, exchange, "k")
                equal(bodies(channel, name), expected, f"bound, {durable}, {mode}")
                for passive, count in ((False, 20), (True, 40)):
                    publish(channel, "", *expected, key=name, mode=mode)
                    again = channel.queue_declare(name, durable=True, passive=passive)
                    equal(again.method.message_count, count, f"declared again, passive: {passive}")
                publish(channel, "", *expected, key=name, mode=mode)
                equal(len(bodies(channel, name)), 60, "got")


def large():
    """Bodies of several sizes, which are kept once for all queues, and more than the exchange keeps."""
    connection = connect()
    channel = confirming(connection)
    exchange = declare(channel)
    sizes = (10, 5_000, 300_000, 3_000_000)
    for round_ in range(2):
        for size in sizes:
            publish(channel, exchange, chr(97 + len(str(size))) * size, mode=2)
        name = queue(channel, f"q{round_}")
        channel.queue_bind(name, exchange, "")
        found = [(len(body), len(set(body))) for body in bodies(channel, name)]
        equal(found, [(size, 1) for size in sizes * (1 + round_)], f"round {round_}")
        equal(ask("ready kill"), "go", "control")
        channel = confirming(connect())
    body = "m" * 15_000_000
    publish(channel, exchange, *[body] * 5)
    eventually(lambda: http("GET", f"exchanges/%2F/{exchange}")[1]["messages_kept"], 4, "64 MiB are kept")


cell.run(globals())
