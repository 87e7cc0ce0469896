"""Queues and exchanges that drop duplicates, with pika, as `client.py` for the table: the same lines, and one function for each test."""

import time

import pika
from pika import exceptions

import cell
from cell import PATIENCE, Failure, ask, confirming, connect, equal, eventually, http, prefix, refused

ON = {"x-message-deduplication": True}
NUMBERED = {"x-publisher-deduplication": True}
HEADER = "x-deduplication-header"


def queue(channel, name="q", kind="classic", **arguments):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **arguments})
    return name


def publish(channel, exchange, key, body, id_, header=HEADER, mode=2):
    headers = {} if id_ is None else {header: id_}
    channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=mode, headers=headers), mandatory=False)


def publish_numbered(channel, name, body, publisher, sequence, exchange="", mode=2):
    headers = {"x-publisher-id": publisher, "x-publisher-sequence": sequence}
    headers = {key: value for key, value in headers.items() if value is not None}
    channel.basic_publish(exchange, name, body, pika.BasicProperties(delivery_mode=mode, headers=headers))


def take(channel, name, count=None):
    """The bodies of a queue's messages: all that are there, or so many as soon as they come."""
    found, deadline = [], time.monotonic() + PATIENCE
    while count is None or len(found) < count:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is not None:
            found.append(body.decode())
        elif count is None:
            break
        elif time.monotonic() > deadline:
            raise Failure(f"{len(found)} of {count} messages came: {found}")
        else:
            time.sleep(0.003)
    return found


def duplicates(kind, name):
    return http("GET", f"{kind}/%2F/{name}")[1]["messages_deduplicated"]


def queues():
    connection = connect()
    channel = confirming(connection)
    for kind in ("classic", "quorum"):
        name = queue(channel, kind, kind, **ON, **{"x-cache-size": 3})
        for body, id_ in (("1", "a"), ("2", "b"), ("again", "a"), ("3", 1), ("4", "1"), ("5", None), ("6", None), ("again", "b")):
            publish(channel, "", name, body, id_)
        equal(take(channel, name), ["1", "2", "3", "4", "5", "6"], f"a {kind} queue")
        publish(channel, "", name, "again", "1")
        equal((take(channel, name), duplicates("queues", name)), ([], 3), "a duplicate of what was consumed")
        publish(channel, "", name, "forgotten", "a")
        equal(take(channel, name), ["forgotten"], "three ids are known")
        # A transaction.
        publisher = connection.channel()
        publisher.tx_select()
        for body, id_ in (("7", "t"), ("again", "t"), ("8", "u")):
            publish(publisher, "", name, body, id_)
        publisher.tx_commit()
        equal(take(channel, name), ["7", "8"], "a transaction")
        limited = queue(channel, f"{kind}.limited", kind, **ON, **{"x-max-length": 2, "x-overflow": "reject-publish"})
        refusals = 0
        for body, id_ in (("1", "a"), ("2", "b"), ("again", "a"), ("3", "c"), ("3", "c")):
            try:
                publish(channel, "", limited, body, id_)
            except exceptions.NackError:
                refusals += 1
        equal((refusals, take(channel, limited)), (2, ["1", "2"]), "what is refused isn't known")
        publish(channel, "", limited, "3", "c")
        equal(take(channel, limited), ["3"], "it comes later")
    name = queue(channel, "time", **ON, **{"x-cache-ttl": 300, HEADER: "id"})
    for body in ("1", "again"):
        publish(channel, "", name, body, "a", header="id")
    publish(channel, "", name, "other header", "a")
    publish(channel, "", name, "other header", "a")
    equal(take(channel, name), ["1", "other header", "other header"], "another header")
    time.sleep(0.31)
    publish(channel, "", name, "2", "a", header="id")
    equal(take(channel, name), ["2"], "after its time")
    # A rejected message comes back through a dead-letter exchange.
    name = queue(channel, "retry", **ON, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{prefix}.wait"})
    queue(channel, "wait", **{"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name})
    publish(channel, "", name, "retried", "a")
    for _ in range(2):
        method = None
        while method is None:
            method, _, body = channel.basic_get(name)
        channel.basic_reject(method.delivery_tag, requeue=False)
    equal(take(channel, name, 1), ["retried"], "a retry is none")
    publish(channel, "", name, "again", "a")
    equal(take(channel, name), [], "it is still known")


def exchanges():
    connection = connect()
    channel = confirming(connection)
    exchange = f"{prefix}.x"
    channel.exchange_declare(exchange, "direct", durable=True, arguments={**ON, "x-cache-size": 2})
    names = [queue(channel, name) for name in ("a", "b")]
    for name, key in zip(names, "ab"):
        channel.queue_bind(name, exchange, key)
    publish(channel, exchange, "a", "1", "id")
    publish(channel, exchange, "b", "again", "id")
    publish(channel, exchange, "b", "2", "other")
    publish(channel, exchange, "b", "3", None)
    equal((take(channel, names[0], 1), sorted(take(channel, names[1], 2))), (["1"], ["2", "3"]), "routed once")
    equal((duplicates("exchanges", exchange), take(channel, names[0])), (1, []), "counted")
    publish(channel, exchange, "a", "4", "third")
    publish(channel, exchange, "a", "5", "id")
    equal(take(channel, names[0], 2), ["4", "5"], "two ids are known")
    plugin = f"{prefix}.plugin"
    channel.exchange_declare(plugin, "x-message-deduplication", durable=True, arguments={"x-cache-size": 5})
    channel.exchange_bind(exchange, plugin, "")
    for name in names:
        channel.queue_bind(name, plugin, "")
    publish(channel, plugin, "any", "6", "new")
    publish(channel, plugin, "any", "again", "new")
    equal([take(channel, name, 1) for name in names], [["6"], ["6"]], "the plugin's type, to all")
    eventually(lambda: http("GET", f"exchanges/%2F/{plugin}")[1]["messages_delayed"], 0, "none waits")
    equal([take(channel, name) for name in names], [[], []], "nothing else")
    own = f"amq.unique.{exchange}"
    refused(403, f"it holds the new messages of exchange '{exchange}'", lambda channel: channel.basic_get(own))
    document = http("GET", "definitions")[1]
    equal([one for one in document["queues"] if one["name"].startswith("amq.")], [], "its queue isn't exported")
    channel.exchange_delete(exchange)
    equal(http("GET", f"queues/%2F/{own}")[0], 404, "its queue goes with it")
    channel.exchange_declare(exchange, "direct", durable=True, arguments=ON)
    channel.queue_bind(names[0], exchange, "a")
    publish(channel, exchange, "a", "7", "id")
    equal(take(channel, names[0], 1), ["7"], "and its ids")


def kills():
    """Whatever was confirmed is recognised after kills, whether it was consumed or not; each message is there once."""
    channel = confirming(connect())
    exchange = f"{prefix}.x"
    channel.exchange_declare(exchange, "fanout", durable=True, arguments={**ON, "x-cache-size": 500})
    names = [queue(channel, kind, kind, **ON, **{"x-cache-size": 500}) for kind in ("classic", "quorum")]
    behind = queue(channel, "behind")
    channel.queue_bind(behind, exchange, "")
    expected = {name: [] for name in (*names, behind)}
    everywhere = [("", name) for name in names] + [(exchange, "")]
    for round_ in range(4):
        ids = [f"{round_}.{at}" for at in range(40)]
        for exchange_, key in everywhere:
            for id_ in ids:
                publish(channel, exchange_, key, id_, id_)
            expected[key or behind] += ids
        if round_ == 1:
            for name in names:
                equal(take(channel, name), expected[name], "consumed")
                expected[name] = []
        # Settlements are safe with what is published after them.
        for name in names:
            publish(channel, "", name, f"flush.{round_}", f"flush.{round_}")
            expected[name].append(f"flush.{round_}")
        equal(ask("ready kill"), "go", "control")
        channel = confirming(connect())
        for exchange_, key in everywhere:
            for past in range(round_ + 1):
                for at in range(40):
                    publish(channel, exchange_, key, "again", f"{past}.{at}")
    for name in names:
        equal(take(channel, name), expected[name], name)
    equal(take(channel, behind, 160), expected[behind], "behind the exchange")
    eventually(lambda: http("GET", f"exchanges/%2F/{exchange}")[1]["messages_delayed"], 0, "none waits")
    equal(take(channel, behind), [], "nothing twice")


def publishers():
    """Messages of publishers that number them; wrong numbers are refused."""
    connection = connect()
    channel = confirming(connection)
    for kind in ("classic", "quorum"):
        name = queue(channel, kind, kind, **NUMBERED)
        sent = (("1", "web", 1), ("2", "web", 2), ("again", "web", 1), ("3", "till", 0), ("4", "web", 9), ("again", "web", 3), ("5", None, None))
        for body, publisher, sequence in sent:
            publish_numbered(channel, name, body, publisher, sequence)
        equal(take(channel, name), ["1", "2", "3", "4", "5"], f"a {kind} queue")
        publish_numbered(channel, name, "again", "web", 9)
        equal((take(channel, name), duplicates("queues", name)), ([], 3), "sent again after it was consumed")
        publisher = connection.channel()
        publisher.tx_select()
        for body, sequence in (("6", 10), ("again", 10), ("7", 11)):
            publish_numbered(publisher, name, body, "web", sequence)
        publisher.tx_commit()
        equal(take(channel, name), ["6", "7"], "a transaction")
        # Several queues, of which only some compare.
        exchange, other = f"{prefix}.{kind}.x", queue(channel, f"{kind}.other", kind)
        channel.exchange_declare(exchange, "fanout", durable=True)
        for bound in (name, other):
            channel.queue_bind(bound, exchange, "")
        for _ in range(2):
            publish_numbered(channel, "", "8", "web", 12, exchange)
        equal((take(channel, name), take(channel, other)), (["8"], ["8", "8"]), "each queue by itself")
        wrong = (
            ("web", None, "needs 'x-publisher-sequence', too"),
            (None, 1, "needs 'x-publisher-id', too"),
            ("", 1, "must be a string of 1 to 255 bytes"),
            (7, 1, "must be a string of 1 to 255 bytes"),
            ("web", -1, "must be an integer from 0"),
            ("web", "13", "must be an integer from 0"),
        )
        for publisher, sequence, text in wrong:
            refused(406, text, lambda channel: (channel.confirm_delivery(), publish_numbered(channel, name, "", publisher, sequence)))
            publish_numbered(channel, other, "not compared", publisher, sequence)
        equal((take(channel, name), len(take(channel, other))), ([], len(wrong)), "refused by the queue that compares")
    # A message that comes back isn't compared, and a refused one isn't known.
    back = queue(channel, "back", **NUMBERED, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{prefix}.wait"})
    queue(channel, "wait", **{"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back})
    for sequence in (1, 2):
        publish_numbered(channel, back, str(sequence), "web", sequence)
    method, _, _ = channel.basic_get(back)
    channel.basic_reject(method.delivery_tag, requeue=False)
    equal(take(channel, back, 2), ["2", "1"], "it comes back")
    publish_numbered(channel, back, "again", "web", 2)
    equal(take(channel, back), [], "and lowers no number")
    limited = queue(channel, "limited", **NUMBERED, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    publish_numbered(channel, limited, "1", "web", 1)
    try:
        publish_numbered(channel, limited, "2", "web", 2)
        raise Failure("the second message is one too many")
    except exceptions.NackError:
        pass
    equal(take(channel, limited), ["1"], "the limit")
    publish_numbered(channel, limited, "2", "web", 2)
    equal(take(channel, limited), ["2"], "it comes later")
    channel.queue_delete(limited)
    queue(channel, "limited", **NUMBERED)
    publish_numbered(channel, limited, "1", "web", 1)
    equal(take(channel, limited), ["1"], "numbers go with their queue")


def numbered_kills():
    """Publishers that send everything again after a kill: each message is there once."""
    channel = confirming(connect())
    names = [queue(channel, kind, kind, **NUMBERED) for kind in ("classic", "quorum")]
    expected = {name: [] for name in names}
    for round_ in range(4):
        for name in names:
            for at in range(60):
                publish_numbered(channel, name, f"{round_}.{at}", f"p{at % 3}", round_ * 60 + at)
            expected[name] += [f"{round_}.{at}" for at in range(60)]
            if round_ == 1:
                equal(take(channel, name), expected[name], "consumed")
                expected[name] = []
            # Settlements are safe with what is published after them.
            publish_numbered(channel, name, f"flush.{round_}", "flush", round_)
            expected[name].append(f"flush.{round_}")
        equal(ask("ready kill"), "go", "control")
        channel = confirming(connect())
        for name in names:
            for past in range(round_ + 1):
                for at in range(60):
                    publish_numbered(channel, name, "again", f"p{at % 3}", past * 60 + at)
    for name in names:
        equal(take(channel, name), expected[name], name)


def refusals():
    declare = lambda **arguments: lambda channel: channel.queue_declare(f"{prefix}.q", durable=True, arguments=arguments)
    refused(406, "invalid arg 'x-cache-size'", declare(**{**ON, "x-cache-size": 0}))
    refused(406, "x-message-deduplication", declare(**{**ON, "x-queue-type": "stream"}))
    refused(406, "x-publisher-deduplication", declare(**{**NUMBERED, "x-queue-type": "stream"}))
    refused(406, "x-publisher-deduplication", declare(**{"x-publisher-deduplication": "yes"}))
    refused(406, "a queue compares either ids or the numbers of publishers", declare(**ON, **NUMBERED))
    exchange = lambda kind, **arguments: lambda channel: channel.exchange_declare(f"{prefix}.x", kind, arguments=arguments)
    refused(406, "'x-cache-size' must be an integer greater than 0; received '0'", exchange("direct", **{**ON, "x-cache-size": 0}))
    refused(406, "can't be used with 'x-recent-history'", exchange("x-recent-history", **ON))


cell.run(globals())
