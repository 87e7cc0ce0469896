"""Priorities of classic queues with pika, as `client.py` for the table: the same lines, and one function for each test."""

import pika
from pika import exceptions

import cell
from cell import Failure, ask, confirming, connect, equal, eventually, http, prefix

PRIORITIES = {"x-max-priority": 10}


def queue(channel, arguments=None, name="q", durable=True):
    name = f"{prefix}.{name}"
    channel.queue_declare(name, durable=durable, exclusive=not durable, arguments={**PRIORITIES, **(arguments or {})})
    return name


def publish(channel, name, *bodies, **properties):
    properties.setdefault("delivery_mode", 2)
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(**properties), mandatory=True)


def got(channel, name):
    """Takes all ready messages: delivery tag, redelivered, body."""
    taken = []
    while (one := channel.basic_get(name))[0] is not None:
        taken.append((one[0].delivery_tag, one[0].redelivered, one[2].decode()))
    return taken


def bodies(taken):
    return [body for *_, body in taken]


def order():
    connection = connect()
    channel = confirming(connection)
    for durable in (True, False):
        name = queue(channel, name=f"q{durable}", durable=durable)
        for body, priority in (("n1", None), ("l1", 1), ("h1", 9), ("z1", 0), ("x1", 10), ("y1", 255), ("h2", 9), ("n2", None)):
            publish(channel, name, body, priority=priority, delivery_mode=2 if body != "h2" else 1)
        taken = got(channel, name)
        equal(bodies(taken), ["x1", "y1", "h1", "h2", "l1", "n1", "z1", "n2"], "order")
        # They go back to their places, whatever the order in which they come back.
        for tag, *_ in (taken[3], taken[0], taken[5], taken[2]):
            channel.basic_nack(tag)
        publish(channel, name, "h3", "h4", priority=9)
        again = got(channel, name)
        equal(bodies(again), ["x1", "h1", "h2", "h3", "h4", "n1"], "order after returns")
        equal([redelivered for _, redelivered, _ in again], [True, True, True, False, False, True], "redelivered")
        channel.basic_ack(0, multiple=True)
        equal(got(channel, name), [], "all settled")
    connection.close()


def consumers():
    """A consumer with a prefetch gets what was published last next, if its priority is higher."""
    connection = connect()
    publisher, channel = confirming(connection), connection.channel()
    name = queue(publisher)
    publish(publisher, name, *map(str, range(20)), priority=1)
    channel.basic_qos(prefetch_count=2)
    seen = []

    def on_message(_, method, properties, body):
        seen.append((properties.priority, body.decode()))
        if len(seen) == 2:
            publish(publisher, name, "urgent", priority=7)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(name, on_message)
    eventually(lambda: connection.process_data_events(time_limit=0.05) or len(seen), 21, "deliveries")
    at = [body for _, body in seen].index("urgent")
    if at > 6:
        raise Failure(f"the urgent one came behind {at} others")
    equal([body for _, body in seen if body != "urgent"], list(map(str, range(20))), "the others in order")
    connection.close()


def restart():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    # Bodies in the log, in files of their own, and, with many targets, in the shared log.
    channel.exchange_declare(f"{prefix}.x", "fanout", durable=True)
    for at in range(9):
        other = queue(channel, name=f"shared{at}")
        channel.queue_bind(other, f"{prefix}.x")
    publish(channel, name, "plain", "plain2")
    publish(channel, name, "low", priority=2)
    publish(channel, name, "h" * 300_000, priority=9)
    publish(channel, name, "high", priority=9)
    publish(channel, name, "transient", priority=10, delivery_mode=1)
    for body, priority in (("s0", None), ("s5", 5), ("s9", 9), ("s255", 255), ("s5b", 5)):
        channel.basic_publish(f"{prefix}.x", "", body, pika.BasicProperties(delivery_mode=2, priority=priority), mandatory=True)
    taken = got(channel, name)
    equal([body[:9] for body in bodies(taken)], ["transient", "h" * 9, "high", "low", "plain", "plain2"], "order")
    equal(ask("ready kill"), "go", "control")
    connection = connect()
    channel = confirming(connection)
    publish(channel, name, "new", priority=9)
    taken = got(channel, name)
    equal([body[:9] for body in bodies(taken)], ["h" * 9, "high", "new", "low", "plain", "plain2"], "order after the kill")
    equal([redelivered for _, redelivered, _ in taken], [True, True, False, True, True, True], "redelivered")
    for at in range(9):
        equal(bodies(got(channel, f"{prefix}.shared{at}")), ["s255", "s9", "s5", "s5b", "s0"], "shared messages")
    channel.basic_ack(0, multiple=True)
    connection.close()


def limits():
    connection = connect()
    channel = confirming(connection)
    dead = f"{prefix}.dead"
    channel.queue_declare(dead, durable=True)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    name = queue(channel, {"x-max-length": 2, **letters}, "head")
    publish(channel, name, "high", priority=9)
    publish(channel, name, "a", "b", priority=1)
    eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1, "dropped")
    equal(channel.basic_get(dead, auto_ack=True)[2], b"high", "the one that would be delivered next is dropped")
    equal(bodies(got(channel, name)), ["a", "b"], "left")
    name = queue(channel, {"x-max-length": 2, "x-overflow": "reject-publish"}, "reject")
    publish(channel, name, "a", "b", priority=1)
    try:
        publish(channel, name, "c", priority=9)
        raise Failure("a full queue accepts a message")
    except exceptions.NackError:
        pass
    equal(bodies(got(channel, name)), ["a", "b"], "reject-publish")
    name = queue(channel, letters, "ttl")
    publish(channel, name, "stays", priority=9)
    publish(channel, name, "goes", priority=1, expiration="100")
    eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1, "expired")
    method, properties, body = channel.basic_get(dead, auto_ack=True)
    equal((body, properties.priority, properties.headers["x-first-death-reason"]), (b"goes", 1, "expired"), "expired one")
    tag = channel.basic_get(name)[0].delivery_tag
    channel.basic_reject(tag, requeue=False)
    eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1, "rejected")
    equal(channel.queue_purge(dead).method.message_count, 1, "purged")
    name = queue(channel, name="purge")
    publish(channel, name, "a", "b", priority=9)
    publish(channel, name, "c")
    tag = channel.basic_get(name)[0].delivery_tag
    equal(channel.queue_purge(name).method.message_count, 2, "purge")
    channel.basic_nack(tag)
    equal(bodies(got(channel, name)), ["a"], "what a consumer had stays")
    equal(channel.queue_delete(name).method.message_count, 0, "deleted")
    connection.close()


def listing():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "a", "b", priority=9)
    publish(channel, name, "c")
    path = f"queues/%2F/{name}"
    wanted = {"arguments": {"x-queue-type": "classic", "x-max-priority": 10}, "messages_ready": 3,
              "messages_by_priority": {"0": 1, "9": 2}}
    eventually(lambda: {key: http("GET", path)[1].get(key) for key in wanted}, wanted, "queue with priorities")
    messages = http("POST", f"{path}/get", {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"})[1]
    equal([one["payload"] for one in messages], ["a", "b", "c"], "what is got over HTTP")
    status, answer = http("PUT", f"queues/%2F/{name}.http", {"durable": True, "arguments": {"x-max-priority": 3}})
    equal(status, 201, f"declared over HTTP: {answer}")
    status, answer = http("PUT", f"queues/%2F/{name}.http", {"durable": True, "arguments": {"x-max-priority": 4}})
    equal((status, "inequivalent arg 'x-max-priority'" in answer["reason"]), (400, True), f"another maximum: {answer}")
    connection.close()


cell.run(globals())
