"""Exchange types beyond those of the specification with pika, as `client.py` for the table: the same lines, and one function
for each test."""

import pika
from pika import exceptions

import cell
from cell import Failure, ask, confirming, connect, equal, eventually, http, prefix

KEYS = 2000


def declare(channel, name, kind, **arguments):
    name = f"{prefix}.{name}"
    channel.exchange_declare(name, kind, durable=True, arguments={key.replace("_", "-"): value for key, value in arguments.items()})
    return name


def queues(channel, exchange, *weights, key=None):
    names = []
    for at, weight in enumerate(weights):
        name = f"{exchange}.q{at}"
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, exchange, str(weight) if key is None else key)
        names.append(name)
    return names


def publish(channel, exchange, count=KEYS, **properties):
    """One message for each key; `properties` may be functions of its number."""
    for at in range(count):
        own = {name: value(at) if callable(value) else value for name, value in properties.items()}
        key = own.pop("key", f"key-{at}")
        channel.basic_publish(exchange, key, str(at), pika.BasicProperties(**own))


def taken(channel, names):
    """The numbers of the messages that each queue has, all taken out."""
    found = []
    for name in names:
        channel.queue_declare(name, passive=True)
        numbers = set()
        while (one := channel.basic_get(name, auto_ack=True))[0] is not None:
            numbers.add(int(one[2]))
        found.append(numbers)
    return found


def spread(found, weights, what):
    """Each queue has its share, within five standard deviations."""
    total = sum(len(numbers) for numbers in found)
    for numbers, weight in zip(found, weights):
        share = weight / sum(weights)
        deviation = (total * share * (1 - share)) ** 0.5
        if abs(len(numbers) - total * share) > 5 * deviation + 1:
            raise Failure(f"{what}: {[len(numbers) for numbers in found]} of {total} for the weights {weights}")


def consistent_hash():
    connection = connect()
    channel = connection.channel()
    exchange = declare(channel, "x", "x-consistent-hash")
    names = queues(channel, exchange, 1, 1, 2)
    publish(channel, exchange)
    before = taken(channel, names)
    equal(sum(map(len, before)), KEYS, "messages")
    spread(before, [1, 1, 2], "shares")
    # A fourth queue takes its share, and nothing else moves.
    channel.queue_declare(f"{exchange}.q3", durable=True)
    channel.queue_bind(f"{exchange}.q3", exchange, "2")
    publish(channel, exchange)
    after = taken(channel, names + [f"{exchange}.q3"])
    spread(after, [1, 1, 2, 2], "shares with a fourth queue")
    for old, new in zip(before, after):
        equal(new <= old, True, "no queue gets keys of another one")
    # It goes, and all is as it was, also after a restart.
    channel.queue_unbind(f"{exchange}.q3", exchange, "2")
    publish(channel, exchange)
    equal(taken(channel, names), before, "shares without the fourth queue")
    same_after_kill(connection, exchange, names, before)


def same_after_kill(connection, exchange, names, before):
    connection.close()
    equal(ask("ready kill"), "go", "control")
    channel = connect().channel()
    publish(channel, exchange)
    equal(taken(channel, names), before, "shares after a restart")


def hashed_values():
    """A header or a property decides, whatever the key."""
    connection = connect()
    channel = connection.channel()
    by = {
        "header": (dict(hash_header="customer"), dict(key="k", headers=lambda at: {"customer": f"c{at // 2}"})),
        "id": (dict(hash_property="message_id"), dict(key="k", message_id=lambda at: f"c{at // 2}")),
        "correlation": (dict(hash_property="correlation_id"), dict(key="k", correlation_id=lambda at: f"c{at // 2}")),
        "time": (dict(hash_property="timestamp"), dict(key="k", timestamp=lambda at: 1_700_000_000 + at // 2)),
    }
    for name, (arguments, properties) in by.items():
        exchange = declare(channel, name, "x-consistent-hash", **arguments)
        names = queues(channel, exchange, 1, 1, 1)
        publish(channel, exchange, **properties)
        found = taken(channel, names)
        equal(sum(map(len, found)), KEYS, f"messages by {name}")
        spread([{at // 2 for at in numbers} for numbers in found], [1, 1, 1], f"shares by {name}")
        for numbers in found:
            equal({at ^ 1 for at in numbers}, numbers, f"messages with the same {name} stay together")
        # Without the value they all go the same way.
        publish(channel, exchange, 20)
        equal(sorted(map(len, taken(channel, names))), [0, 0, 20], f"messages without {name}")
    connection.close()


def modulus_hash():
    connection = connect()
    channel = connection.channel()
    exchange = declare(channel, "x", "x-modulus-hash")
    names = queues(channel, exchange, "any", "key", "")
    publish(channel, exchange)
    before = taken(channel, names)
    spread(before, [1, 1, 1], "shares")
    same_after_kill(connection, exchange, names, before)


def chance():
    connection = connect()
    channel = connection.channel()
    for kind, key in (("x-random", "any"), ("x-local-random", "")):
        exchange = declare(channel, kind, kind)
        names = queues(channel, exchange, 1, 1, 1, key=key)
        publish(channel, exchange, key="the same")
        first = taken(channel, names)
        equal(sum(map(len, first)), KEYS, f"messages of {kind}")
        spread(first, [1, 1, 1], kind)
        publish(channel, exchange, key="the same")
        if taken(channel, names) == first:
            raise Failure(f"{kind} repeats itself")
    connection.close()


def nowhere():
    """Without a binding a message goes to the alternate exchange, or back; another exchange may be bound."""
    connection = connect()
    channel = confirming(connection)
    other = f"{prefix}.other"
    channel.queue_declare(other, durable=True)
    channel.queue_bind(other, "amq.direct", prefix)
    for kind in ("x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"):
        exchange = declare(channel, f"{kind}.alternate", kind, alternate_exchange="amq.direct")
        publish(channel, exchange, 1, key=prefix)
        equal(taken(channel, [other]), [{0}], f"alternate exchange of {kind}")
        exchange = declare(channel, f"{kind}.none", kind)
        try:
            channel.basic_publish(exchange, "k", b"", mandatory=True)
            raise Failure(f"{kind} routed a message")
        except exceptions.UnroutableError:
            pass
        if kind != "x-local-random":
            channel.exchange_bind("amq.direct", exchange, "1")
            publish(channel, exchange, 1, key=prefix)
            equal(taken(channel, [other]), [{0}], f"an exchange behind {kind}")
    connection.close()


def listing():
    connection = connect()
    channel = connection.channel()
    types = {one["name"]: one["description"] for one in http("GET", "overview")[1]["exchange_types"]}
    for kind in ("x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"):
        equal(kind in types, True, f"{kind} among the types {types}")
        name = f"{prefix}.http.{kind}"
        equal(http("PUT", f"exchanges/%2F/{name}", {"type": kind, "durable": True})[0], 201, f"declared over HTTP: {kind}")
        equal(http("GET", f"exchanges/%2F/{name}")[1]["type"], kind, "type")
        channel.exchange_declare(name, kind, durable=True)
    channel.queue_declare(f"{prefix}.q", durable=True)
    status, answer = http("POST", f"bindings/%2F/e/{prefix}.http.x-consistent-hash/q/{prefix}.q", {"routing_key": "heavy"})
    equal((status, "The binding key must be an integer" in answer["reason"]), (400, True), f"wrong weight: {answer}")
    document = http("GET", "definitions")[1]
    names = lambda one: one["name"].startswith(f"{prefix}.http")
    exchanges = [one for one in document["exchanges"] if names(one)]
    equal(len(exchanges), 4, "exported exchanges")
    for one in exchanges:
        equal(http("DELETE", f"exchanges/%2F/{one['name']}")[0], 204, "deleted")
    equal(http("POST", "definitions", {"exchanges": exchanges})[0], 204, "import")
    equal(sorted(one["type"] for one in http("GET", "exchanges/%2F")[1] if names(one)),
          sorted(one["type"] for one in exchanges), "imported exchanges")
    connection.close()


cell.run(globals())
