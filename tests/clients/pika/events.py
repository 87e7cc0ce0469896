"""The exchanges for events, log lines and traces with pika, as `client.py` for the table: one function for each test."""

import json
import time
import urllib.error
import urllib.request

import pika

import cell
from cell import PATIENCE, Failure, ask, connect, equal, eventually, http, http_uri, prefix

EVENT = "amq.rabbitmq.event"
LOG = "amq.rabbitmq.log"


def bound(channel, exchange, *keys):
    name = channel.queue_declare(f"{prefix}.{exchange}").method.queue
    for key in keys or ("#",):
        channel.queue_bind(name, exchange, key)
    return name


def next_event(channel, queue, key):
    """The headers of the next event with this key; others are skipped."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            time.sleep(0.01)
        elif method.routing_key == key:
            equal((body, properties.delivery_mode), (b"", 2), key)
            equal(properties.headers["timestamp_in_ms"] // 1000, properties.timestamp, f"time of {key}")
            return properties.headers
    raise Failure(f"no {key} came")


def has(event, **expected):
    equal({name: event.get(name) for name in expected}, expected, "event")


def topology():
    """Queues, exchanges and bindings, with who made them."""
    channel = connect().channel()
    events = bound(channel, EVENT)
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
    event = next_event(channel, events, "queue.created")
    has(event, name="q", vhost="/", durable=True, auto_delete=False, exclusive=False, type="rabbit_classic_queue",
        user_who_performed_action="guest", owner_pid="")
    equal('{<<"x-max-length">>,signedint,5}' in event["arguments"], True, event["arguments"])
    channel.exchange_declare("x", "topic", durable=True)
    has(next_event(channel, events, "exchange.created"), name="x", type="topic", durable=True, internal=False, policy="")
    channel.queue_bind("q", "x", "k.*")
    has(next_event(channel, events, "binding.created"), source_name="x", source_kind="exchange", destination_name="q",
        destination_kind="queue", routing_key="k.*", arguments=[], vhost="/")
    channel.queue_unbind("q", "x", "k.*")
    has(next_event(channel, events, "binding.deleted"), source_name="x", destination_name="q", routing_key="k.*")
    channel.queue_delete("q")
    has(next_event(channel, events, "queue.deleted"), name="q", type="rabbit_classic_queue", user_who_performed_action="guest")
    channel.exchange_delete("x")
    has(next_event(channel, events, "exchange.deleted"), name="x", vhost="/")


def clients():
    """Logins, connections, channels and consumers."""
    channel = connect().channel()
    events = bound(channel, EVENT, "user.authentication.*", "connection.*", "channel.*", "consumer.*")
    parameters = pika.URLParameters(cell.uri)
    parameters.client_properties = {"connection_name": "me"}
    other = pika.BlockingConnection(parameters)
    has(next_event(channel, events, "user.authentication.success"), name="guest", auth_mechanism="PLAIN", protocol="{0,9,1}",
        peer_host="{127,0,0,1}", ssl=False)
    opened = next_event(channel, events, "connection.created")
    has(opened, user="guest", vhost="/", user_provided_name="me", protocol="{0,9,1}", type="network", ssl=False)
    own = other.channel(5)
    has(next_event(channel, events, "channel.created"), number=5, connection=opened["pid"], name=f"{opened['name']} (5)")
    queue = own.queue_declare("", exclusive=True).method.queue
    own.basic_consume(queue, lambda *_: None, consumer_tag="t", arguments={"x-priority": 3})
    has(next_event(channel, events, "consumer.created"), consumer_tag="t", queue=queue, ack_required=True, exclusive=False,
        prefetch_count=0, arguments=['{<<"x-priority">>,signedint,3}'])
    own.basic_cancel("t")
    has(next_event(channel, events, "consumer.deleted"), consumer_tag="t", queue=queue)
    own.close()
    has(next_event(channel, events, "channel.closed"), user_who_performed_action="guest")
    other.close()
    has(next_event(channel, events, "connection.closed"), name=opened["name"], pid=opened["pid"], user_provided_name="me")
    parameters.credentials = pika.PlainCredentials("guest", "wrong")
    try:
        pika.BlockingConnection(parameters)
    except pika.exceptions.AMQPConnectionError:
        pass
    has(next_event(channel, events, "user.authentication.failure"), name="guest", auth_mechanism="PLAIN")


def administration():
    """Users, vhosts, permissions, policies, parameters and limits."""
    channel = connect().channel()
    events = bound(channel, EVENT)

    def after(key, method, path, body=None, **expected):
        status = http(method, path, body)[0]
        equal(status in (200, 201, 204), True, f"{method} {path}: {status}")
        has(next_event(channel, events, key), user_who_performed_action="guest", **expected)

    after("user.created", "PUT", "users/u", {"password": "p", "tags": "a"}, name="u")
    after("user.tags.set", "PUT", "users/u", {"password": "p2", "tags": "a,b"}, name="u")
    after("user.password.changed", "PUT", "users/u", {"password": "p3", "tags": "a,b"}, name="u")
    after("vhost.created", "PUT", "vhosts/v", {"description": "d", "tags": "a"}, name="v", description="d", tags=["a"])
    after("vhost.updated", "PUT", "vhosts/v", {"description": "e"}, name="v", description="e")
    permission = {"configure": "a", "write": "b", "read": "c"}
    after("permission.created", "PUT", "permissions/v/u", permission, user="u", vhost="v", **permission)
    topic = {"exchange": "amq.topic", "write": "b", "read": "c"}
    after("topic.permission.created", "PUT", "topic-permissions/v/u", topic, user="u", vhost="v", **topic)
    after("topic.permission.deleted", "DELETE", "topic-permissions/v/u", user="u", vhost="v")
    after("permission.deleted", "DELETE", "permissions/v/u", user="u", vhost="v")
    policy = {"pattern": "^q", "definition": {"max-length": 7}, "priority": 1, "apply-to": "queues"}
    after("policy.set", "PUT", "policies/v/p", policy, name="p", vhost="v", **policy)
    after("policy.cleared", "DELETE", "policies/v/p", name="p", vhost="v")
    after("parameter.set", "PUT", "operator-policies/v/p", policy, component="operator_policy", name="p", value=policy)
    after("operator.policy.cleared", "DELETE", "operator-policies/v/p", name="p", vhost="v")
    after("parameter.set", "PUT", "global-parameters/g", {"value": {"a": 1}}, component="global", name="g", value={"a": 1})
    after("parameter.cleared", "DELETE", "global-parameters/g", component="global", name="g")
    after("vhost.limits.set", "PUT", "vhost-limits/v/max-queues", {"value": 5}, vhost="v", name="limits", **{"max-queues": 5})
    after("vhost.limits.cleared", "DELETE", "vhost-limits/v/max-queues", vhost="v", name="limits")
    after("user.limits.set", "PUT", "user-limits/u/max-channels", {"value": 5}, username="u", **{"max-channels": 5})
    after("user.limits.cleared", "DELETE", "user-limits/u/max-channels", username="u")
    after("vhost.deleted", "DELETE", "vhosts/v", name="v")
    after("user.deleted", "DELETE", "users/u", name="u")


def queue_policies():
    """Policies that come, change and go are events of the queues to which others apply then."""
    channel = connect().channel()
    events = bound(channel, EVENT, "queue.policy.*")
    types = {kind: f"rabbit_{kind}_queue" for kind in ("classic", "quorum", "stream")}
    for kind in types:
        channel.queue_declare(f"{prefix}.p.{kind}", durable=True, arguments={"x-queue-type": kind})
    channel.queue_declare(f"{prefix}.other", durable=True)
    all_types = sorted((f"{prefix}.p.{kind}", type_) for kind, type_ in types.items())

    def expect(key, queues, **expected):
        found = [next_event(channel, events, key) for _ in queues]
        for event in found:
            has(event, vhost="/", user_who_performed_action="guest", **expected)
        equal(sorted((event["name"], event["type"]) for event in found), queues, key)

    low = {"pattern": f"^{prefix}.p", "definition": {"max-length-bytes": 7000}, "priority": 1, "apply-to": "queues"}
    for _ in range(2):
        # The second time, nothing changes.
        http("PUT", f"policies/%2F/{prefix}.low", low)
    expect("queue.policy.updated", all_types, **low)
    low["definition"] = {"max-length-bytes": 8000}
    http("PUT", f"policies/%2F/{prefix}.low", low)
    expect("queue.policy.updated", all_types, **low)
    high = {"pattern": f"^{prefix}.p", "definition": {"max-length": 8}, "priority": 2, "apply-to": "quorum_queues"}
    quorum = [(f"{prefix}.p.quorum", "rabbit_quorum_queue")]
    http("PUT", f"policies/%2F/{prefix}.high", high)
    expect("queue.policy.updated", quorum, **high)
    operator = {**high, "apply-to": "classic_queues"}
    http("PUT", f"operator-policies/%2F/{prefix}.operator", operator)
    expect("queue.policy.updated", [(f"{prefix}.p.classic", "rabbit_classic_queue")], **operator)
    http("DELETE", f"operator-policies/%2F/{prefix}.operator")
    expect("queue.policy.cleared", [(f"{prefix}.p.classic", "rabbit_classic_queue")])
    http("DELETE", f"policies/%2F/{prefix}.high")
    expect("queue.policy.cleared", quorum)
    http("DELETE", f"policies/%2F/{prefix}.low")
    expect("queue.policy.cleared", all_types)
    equal(channel.queue_declare(events, passive=True).method.message_count, 0, "further events")


def alarms():
    channel = connect().channel()
    events = bound(channel, EVENT, "alarm.*")
    node = http("GET", "overview")[1]["node"]
    equal(ask("alarm memory"), "done", "alarm")
    has(next_event(channel, events, "alarm.set"), source="memory", node=node)
    equal(ask("alarm"), "done", "no alarm")
    has(next_event(channel, events, "alarm.cleared"), source="memory", node=node)


def refused():
    """Clients neither publish to the exchange nor delete or declare it."""
    for act in (lambda channel: channel.basic_publish(EVENT, "k", b"x"), lambda channel: channel.exchange_delete(EVENT)):
        channel = connect().channel()
        try:
            act(channel)
            channel.queue_declare("", exclusive=True)
        except pika.exceptions.ChannelClosed as error:
            equal(error.reply_code, 403, error.reply_text)
        else:
            raise Failure("it was accepted")
    shown = http("GET", f"exchanges/%2F/{EVENT}")[1]
    equal([shown[key] for key in ("type", "durable", "internal", "auto_delete")], ["topic", True, True, False], "exchange")


def restart():
    """Bindings of the exchange survive a restart, and events come again."""
    channel = connect().channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_bind("kept", EVENT, "queue.created")
    ask("ready kill")
    channel = connect().channel()
    channel.queue_declare("q")
    has(next_event(channel, "kept", "queue.created"), name="q")


def lines():
    """Log lines by their level, as the log has them; those about their own publishing don't loop."""
    channel = connect().channel()
    lines = bound(channel, LOG, "error")
    other = connect()
    try:
        other.channel().queue_declare("none", passive=True)
    except pika.exceptions.ChannelClosed:
        pass
    eventually(lambda: channel.queue_declare(lines, passive=True).method.message_count, 1, "lines")
    method, properties, body = channel.basic_get(lines, auto_ack=True)
    equal((method.routing_key, properties.content_type), ("error", "text/plain"), "line")
    equal(properties.headers, {"node": http("GET", "overview")[1]["node"]}, "headers")
    equal(b"[error]" in body and b"no queue 'none' in vhost '/'" in body and body.endswith(b"\n"), True, body)
    # All levels, with a queue that rejects what it gets.
    channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_bind("full", LOG, "#")
    for _ in range(20):
        connect().close()
    equal(channel.queue_declare("full", passive=True).method.message_count, 1, "lines in the full queue")


def text(path):
    request = urllib.request.Request(f"{http_uri}/api/{path}", headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    with urllib.request.urlopen(request) as answer:
        return answer.headers["content-type"], answer.read()


def traces():
    """Traces in files, as text and as JSON, with their limits and refusals."""
    channel = connect().channel(3)
    channel.queue_declare("q")
    start = lambda name, **body: http("PUT", f"traces/%2F/{name}", {"pattern": "#", **body})[0]
    equal(http("GET", "traces")[1], [], "no traces")
    equal((start("t", format="text"), start("j", format="json", pattern="publish.#", max_payload_bytes=3)), (201, 201), "started")
    equal(start("t", format="text"), 400, "the same again")
    equal(http("GET", "vhosts/%2F")[1]["tracing"], True, "tracing")
    shown = {one["name"]: one for one in http("GET", "traces/%2F")[1]}
    has(shown["j"], vhost="/", format="json", pattern="publish.#", max_payload_bytes=3)
    node = http("GET", "overview")[1]["node"]
    equal(http("GET", f"traces/node/{node}/%2F/t")[1]["format"], "text", "by node")
    channel.basic_publish("", "q", b"hello", pika.BasicProperties(headers={"a": 1}, delivery_mode=1))
    channel.basic_get("q", auto_ack=True)
    size = lambda: {one["name"]: one["size"] > 0 for one in http("GET", "trace-files")[1]}
    eventually(size, {"t.log": True, "j.log": True}, "files")
    entry = lambda: json.loads(text("trace-files/j.log")[1].splitlines()[0])
    has(entry(), type="published", node=node, vhost="/", user="guest", channel=3, exchange="", queue="none",
        routed_queues=["q"], routing_keys=["q"], payload="aGVs", properties={"headers": {"a": 1}, "delivery_mode": 1})
    eventually(lambda: text("trace-files/t.log")[1].count(b"Message "), 2, "entries")
    kind, body = text(f"trace-files/node/{node}/t.log")
    equal(kind, "text/plain; charset=utf-8", "type")
    for line in (b"Message published\n", b"Message received\n", b"Routing keys: [<<\"q\">>]\n", b"Queue:        q\n", b"\nhello\n"):
        equal(line in body, True, f"{line} in {body}")
    for name, given, status in (
        ("x", {"format": "xml"}, 400), ("x", {}, 400), ("x", {"format": "json", "max_payload_bytes": "3"}, 400),
        ("..%2Fup", {"format": "json"}, 400), (".hidden", {"format": "json"}, 400), ("a%00b", {"format": "json"}, 400),
        ("x" * 200, {"format": "json"}, 400),
        ("x", {"format": "json", "tracer_connection_username": "guest", "tracer_connection_password": "no"}, 400),
    ):
        equal(start(name, **given), status, f"{name} {given}")
    equal(http("PUT", "traces/none/x", {"format": "json", "pattern": "#"})[0], 404, "no such vhost")
    for path in ("trace-files/none.log", "trace-files/..%2Fidentity", "trace-files/%2Fetc%2Fpasswd", "traces/%2F/none"):
        equal(http("GET", path)[0], 404, path)
    equal(http("GET", "traces/node/other@host")[0], 400, "another node")
    equal((http("DELETE", "traces/%2F/t")[0], http("DELETE", "traces/%2F/t")[0]), (204, 404), "stopped")
    equal(http("GET", "vhosts/%2F")[1]["tracing"], True, "the other trace goes on")
    equal(http("DELETE", "traces/%2F/j")[0], 204, "stopped")
    equal((http("GET", "vhosts/%2F")[1]["tracing"], http("GET", "traces")[1]), (False, []), "over")
    equal([one["name"] for one in http("GET", "queues")[1]], ["q"], "queues")
    equal((http("DELETE", "trace-files/t.log")[0], http("DELETE", "trace-files/t.log")[0]), (204, 404), "deleted")
    equal([one["name"] for one in http("GET", "trace-files")[1]], ["j.log"], "files that are left")


def trace_of_a_deleted_vhost():
    equal(http("PUT", "vhosts/gone", {})[0], 201, "a vhost")
    equal(http("PUT", "traces/gone/t", {"format": "text", "pattern": "#"})[0], 201, "a trace")
    equal(http("DELETE", "vhosts/gone")[0], 204, "deleted")
    eventually(lambda: http("GET", "traces")[1], [], "traces")


cell.run(globals())
