"""The firehose with pika, as `client.py` for the table: the same lines, and one function for each test."""

import pika

import cell
from cell import Failure, ask, connect, equal, eventually, http, prefix

TRACE = "amq.rabbitmq.trace"


def tracing(on):
    equal(http("PUT", "vhosts/%2F", {"tracing": on})[0], 204, "PUT tracing")
    equal(http("GET", "vhosts/%2F")[1]["tracing"], on, "tracing as shown")


def traces_of(channel, key="#"):
    channel.queue_declare("traces")
    channel.queue_bind("traces", TRACE, key)
    return "traces"


def taken(channel, name, count):
    """The next traces, as (routing key, headers, body)."""
    eventually(lambda: channel.queue_declare(name, passive=True).method.message_count, count, "traces")
    found = [channel.basic_get(name, auto_ack=True) for _ in range(count)]
    return [(method.routing_key, properties.headers, body) for method, properties, body in found]


def whole():
    """Publish, get and consume, with all properties."""
    connection, watcher = connect(), connect()
    watch, channel = watcher.channel(), connection.channel(7)
    traces = traces_of(watch)
    channel.queue_declare(prefix)
    channel.queue_bind(prefix, "amq.topic", "a.#")
    tracing(True)
    headers = {"s": "x", "i": 5, "big": 2**40, "l": [1, "a"], "t": {"z": True}, "CC": ["cc"], "BCC": ["bcc"]}
    properties = pika.BasicProperties(
        content_type="t/p", content_encoding="gzip", headers=dict(headers), delivery_mode=2, priority=3, correlation_id="co",
        reply_to="rt", expiration="100000", message_id="mi", timestamp=1700000000, type="ty", user_id="guest", app_id="ap",
        cluster_id="cl")
    channel.basic_publish("amq.topic", "a.b", b"body", properties)
    ((key, published, body),) = taken(watch, traces, 1)
    equal((key, body), ("publish.amq.topic", b"body"), "published")
    name = http("GET", "connections")[1]
    equal(published["connection"] in [one["name"] for one in name], True, published["connection"])
    node = http("GET", "overview")[1]["node"]
    equal([published[key] for key in ("exchange_name", "node", "vhost", "channel", "user", "routed_queues")],
          ["amq.topic", node, "/", 7, "guest", [prefix]], "headers")
    equal(published["routing_keys"], ["a.b", "cc", "bcc"], "keys")
    expected = {"content_type": "t/p", "content_encoding": "gzip", "delivery_mode": 2, "priority": 3, "correlation_id": "co",
                "reply_to": "rt", "expiration": "100000", "message_id": "mi", "timestamp": 1700000000, "type": "ty",
                "user_id": "guest", "app_id": "ap", "cluster_id": "cl"}
    shown = dict(published["properties"])
    del headers["BCC"]
    equal(shown.pop("headers"), headers, "the message's headers")
    equal(shown, expected, "properties")
    method, _, _ = channel.basic_get(prefix)
    channel.basic_nack(method.delivery_tag, requeue=True)
    ((key, delivered, _),) = taken(watch, traces, 1)
    equal((key, delivered["redelivered"], "routed_queues" in delivered), (f"deliver.{prefix}", 0, False), "got")
    channel.basic_consume(prefix, lambda *_: None, auto_ack=True)
    connection.process_data_events(0.1)
    ((key, delivered, _),) = taken(watch, traces, 1)
    equal((key, delivered["redelivered"], delivered["channel"]), (f"deliver.{prefix}", 1, 7), "consumed")
    # Neither the traces themselves nor anything after the end is traced.
    tracing(False)
    channel.basic_publish("amq.topic", "a.b", b"after")
    channel.queue_declare(prefix, passive=True)
    equal(watch.queue_declare(traces, passive=True).method.message_count, 0, "traces after the end")


def keys():
    """Bindings pick exchanges and queues, and what reaches no queue is traced too."""
    connection = connect()
    channel = connection.channel()
    for name, key in (("published", "publish.amq.direct"), ("delivered", f"deliver.{prefix}")):
        channel.queue_declare(name)
        channel.queue_bind(name, TRACE, key)
    channel.queue_declare(prefix)
    tracing(True)
    channel.basic_publish("amq.direct", "nowhere", b"lost")
    channel.basic_publish("", prefix, b"there")
    channel.basic_get(prefix, auto_ack=True)
    ((_, headers, body),) = taken(channel, "published", 1)
    equal((body, headers["routed_queues"], headers["routing_keys"]), (b"lost", [], ["nowhere"]), "lost")
    ((_, headers, body),) = taken(channel, "delivered", 1)
    equal((body, headers["exchange_name"]), (b"there", ""), "got")


def vhosts():
    """A vhost is traced alone."""
    equal(http("PUT", "vhosts/other", {})[0], 201, "a vhost")
    one, other = connect(), connect("other")
    channels = [one.channel(), other.channel()]
    for channel in channels:
        traces_of(channel)
    equal(http("PUT", "vhosts/other", {"tracing": True})[0], 204, "PUT tracing")
    # Changing something else leaves it as it is.
    equal(http("PUT", "vhosts/other", {"description": "traced"})[0], 204, "PUT description")
    shown = {vhost["name"]: vhost["tracing"] for vhost in http("GET", "vhosts")[1]}
    equal(shown, {"/": False, "other": True}, "traced vhosts")
    for channel in channels:
        channel.basic_publish("amq.topic", "k", b"x")
    equal(taken(channels[1], "traces", 1)[0][1]["vhost"], "other", "its vhost")
    equal(channels[0].queue_declare("traces", passive=True).method.message_count, 0, "traces of the other")
    try:
        channels[1].basic_publish(TRACE, "k", b"x")
        channels[1].queue_declare("traces", passive=True)
    except pika.exceptions.ChannelClosed as error:
        equal(error.reply_code, 403, error.reply_text)
    else:
        raise Failure("a client published to it")


def restart():
    """As in RabbitMQ, nothing is traced after a restart."""
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("traces", durable=True)
    channel.queue_bind("traces", TRACE, "#")
    tracing(True)
    ask("ready kill")
    connection = connect()
    channel = connection.channel()
    equal(http("GET", "vhosts/%2F")[1]["tracing"], False, "tracing")
    channel.basic_publish("amq.topic", "k", b"x")
    equal(channel.queue_declare("traces", passive=True).method.message_count, 0, "traces")


def large():
    """A body that gets a file of its own is traced whole when it is published."""
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(prefix, durable=True)
    traces_of(channel, "publish.#")
    tracing(True)
    body = bytes(range(256)) * 4096
    channel.basic_publish("", prefix, body, pika.BasicProperties(delivery_mode=2))
    ((_, _, traced),) = taken(channel, "traces", 1)
    equal(traced == body, True, "the traced body")


def http_api():
    """Messages over HTTP are traced too."""
    connection = connect()
    channel = connection.channel()
    channel.queue_declare(prefix)
    traces_of(channel)
    tracing(True)
    message = {"properties": {"headers": {"n": 1}}, "routing_key": prefix, "payload": "h", "payload_encoding": "string"}
    equal(http("POST", "exchanges/%2F/amq.default/publish", message)[0], 200, "publish")
    get = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    equal(http("POST", f"queues/%2F/{prefix}/get", get)[0], 200, "get")
    found = taken(channel, "traces", 2)
    equal([(key, headers["user"], body) for key, headers, body in found],
          [("publish.", "guest", b"h"), (f"deliver.{prefix}", "guest", b"h")], "traces")


cell.run(globals())
