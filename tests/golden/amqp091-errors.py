#!/usr/bin/env python3
"""Scripts of AMQP 0-9-1 calls, most of which end in an error, and what a broker answers to them.

    amqp091-errors.py record AMQP_PORT HTTP_PORT > amqp091-errors.json
        plays all against a RabbitMQ, in a vhost of its own, with guest/guest as administrator
    amqp091-errors.py play AMQP_PORT
        plays those that need no other user or vhost against any broker, in the vhost /, and prints answers in
        which that vhost has the name of the recording's

Needs pika.
"""
import base64, json, sys, urllib.request, datetime
import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, AMQPError

RECORD = sys.argv[1] == "record"
amqp_port, http_port = int(sys.argv[2]), int(sys.argv[3]) if RECORD else 0
RECORDED_VHOST = "golden"
VHOST = RECORDED_VHOST if RECORD else "/"

def http(method, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{http_port}/api/{path}", method=method,
        data=None if body is None else json.dumps(body).encode(), headers={
            "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(), "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode()}

QD, XD, QB, QU, XB, XU = "queue_declare", "exchange_declare", "queue_bind", "queue_unbind", "exchange_bind", "exchange_unbind"
def compact(value): return json.dumps(value, separators=(",", ":"))
def call(name, **args): return {"call": name, "args": args}
def queue(**args): return call(QD, **args)
Q = dict(queue="q", durable=True)
X = dict(exchange="x", exchange_type="direct", durable=True)

S = []
def scenario(name, *script, permissions=None): S.append({"name": name, "script": list(script), **({"permissions": permissions} if permissions else {})})

scenario("queue passive missing", queue(queue="q", passive=True))
scenario("queue redeclare equal", queue(**Q), queue(**Q))
for other in (dict(durable=False, exclusive=True), dict(auto_delete=True), dict(exclusive=True), dict(durable=False)):
    scenario(f"queue redeclare {other}", queue(**Q), queue(**{**Q, **other}))
scenario("queue redeclare argument missing", queue(**Q, arguments={"x-max-length": 5}), queue(**Q))
scenario("queue redeclare argument added", queue(**Q), queue(**Q, arguments={"x-max-length": 5}))
scenario("queue redeclare argument changed", queue(**Q, arguments={"x-max-length": 5}), queue(**Q, arguments={"x-max-length": 6}))
scenario("queue redeclare argument wider integer", queue(**Q, arguments={"x-max-length": 5}), queue(**Q, arguments={"x-max-length": {"long": 5}}))
scenario("queue redeclare unknown argument changed", queue(**Q, arguments={"foo": "a"}), queue(**Q, arguments={"foo": "b"}))
scenario("queue redeclare overflow changed", queue(**Q, arguments={"x-overflow": "drop-head"}), queue(**Q, arguments={"x-overflow": "reject-publish"}))
scenario("queue redeclare passive ignores arguments", queue(**Q, arguments={"x-max-length": 5}), queue(queue="q", passive=True, durable=False))
scenario("queue redeclare type classic explicit", queue(**Q), queue(**Q, arguments={"x-queue-type": "classic"}))
scenario("queue redeclare type quorum", queue(**Q), queue(**Q, arguments={"x-queue-type": "quorum"}))
scenario("queue transient not exclusive", queue(queue="q"))
scenario("queue reserved name", queue(queue="amq.x", durable=True))
scenario("queue reserved name passive", queue(queue="amq.x", passive=True))
scenario("queue delete missing", call("queue_delete", queue="q"))
scenario("queue purge missing", call("queue_purge", queue="q"))
scenario("queue delete in use", queue(**Q), call("basic_consume", queue="q"), call("queue_delete", queue="q", if_unused=True))
scenario("queue delete not empty", queue(**Q), call("basic_publish", exchange="", routing_key="q", body="m"), call("queue_delete", queue="q", if_empty=True))
scenario("queue declare without name at first use", call("queue_purge", queue=""))
scenario("queue bind without last queue", call(QB, queue="", exchange="amq.direct", routing_key=""))
scenario("get missing", call("basic_get", queue="q"))
scenario("consume missing", call("basic_consume", queue="q"))
scenario("consume tag twice", queue(**Q), call("basic_consume", queue="q", consumer_tag="t"), call("basic_consume", queue="q", consumer_tag="t"))
scenario("consume exclusive then another", queue(**Q), call("basic_consume", queue="q", consumer_tag="a", exclusive=True), call("basic_consume", queue="q", consumer_tag="b"))
scenario("consume then exclusive", queue(**Q), call("basic_consume", queue="q", consumer_tag="a"), call("basic_consume", queue="q", consumer_tag="b", exclusive=True))
scenario("ack unknown tag", call("basic_ack", delivery_tag=7), queue(**Q))
scenario("nack unknown tag", call("basic_nack", delivery_tag=7), queue(**Q))
scenario("reject unknown tag", call("basic_reject", delivery_tag=7), queue(**Q))
scenario("publish missing exchange", call("basic_publish", exchange="x", routing_key="", body=""), queue(**Q))
scenario("publish internal exchange", call("basic_publish", exchange="amq.rabbitmq.trace", routing_key="", body=""), queue(**Q))
scenario("publish bad expiration", call("basic_publish", exchange="", routing_key="q", body="", properties={"expiration": "-1"}), queue(**Q))
scenario("publish expiration not a number", call("basic_publish", exchange="", routing_key="q", body="", properties={"expiration": "one"}), queue(**Q))
scenario("publish user_id of another", call("basic_publish", exchange="", routing_key="q", body="", properties={"user_id": "other"}), queue(**Q))
scenario("publish delivery mode 3", call("basic_publish", exchange="", routing_key="q", body="", properties={"delivery_mode": 3}), queue(**Q))
scenario("publish CC not an array", call("basic_publish", exchange="", routing_key="q", body="", properties={"headers": {"CC": "q"}}), queue(**Q))
scenario("prefetch global", call("basic_qos", prefetch_count=10, global_qos=True))
scenario("prefetch size", call("basic_qos", prefetch_size=10))
scenario("recover no requeue", call("basic_recover", requeue=False))
scenario("tx select", call("tx_select"))
scenario("tx commit without select", call("tx_commit"))
scenario("tx after confirm", call("confirm_delivery"), call("tx_select"))
scenario("confirm after tx", call("tx_select"), call("confirm_delivery"))
scenario("channel 0 class", call("cancel_unknown"))
scenario("exclusive queue of another connection, passive", call("other:queue_declare", queue="q", exclusive=True), queue(queue="q", passive=True))
for m, args in (("queue_declare", dict(durable=True)), ("basic_get", {}), ("basic_consume", {}), ("queue_purge", {}), ("queue_delete", {}), (QB, dict(exchange="amq.direct", routing_key="k")), (QU, dict(exchange="amq.direct", routing_key="k"))):
    scenario(f"exclusive queue of another connection, {m}", call("other:queue_declare", queue="q", exclusive=True), call(m, queue="q", **args))
scenario("exchange passive missing", call(XD, exchange="x", passive=True))
scenario("exchange redeclare equal", call(XD, **X), call(XD, **X))
for other in (dict(durable=False), dict(auto_delete=True), dict(internal=True), dict(exchange_type="fanout"), dict(arguments={"alternate-exchange": "amq.fanout"}), dict(arguments={"foo": 1})):
    scenario(f"exchange redeclare {other}", call(XD, **X), call(XD, **{**X, **other}))
scenario("exchange unknown type", call(XD, **{**X, "exchange_type": "x-none"}))
scenario("exchange empty type", call(XD, **{**X, "exchange_type": ""}))
scenario("exchange reserved name", call(XD, **{**X, "exchange": "amq.x"}))
scenario("exchange predeclared redeclare", call(XD, exchange="amq.direct", exchange_type="direct", durable=True))
scenario("exchange predeclared other type", call(XD, exchange="amq.direct", exchange_type="fanout", durable=True))
scenario("exchange default declare", call(XD, exchange="", exchange_type="direct", durable=True))
scenario("exchange default declare passive", call(XD, exchange="", exchange_type="direct", passive=True))
scenario("exchange default delete", call("exchange_delete", exchange=""))
scenario("exchange amq delete", call("exchange_delete", exchange="amq.direct"))
scenario("exchange delete missing", call("exchange_delete", exchange="x"))
scenario("exchange delete in use", call(XD, **X), queue(**Q), call(QB, queue="q", exchange="x", routing_key="k"), call("exchange_delete", exchange="x", if_unused=True))
scenario("exchange delete in use as destination", call(XD, **X), call(XB, destination="x", source="amq.direct", routing_key="k"), call("exchange_delete", exchange="x", if_unused=True))
scenario("exchange alternate wrong type", call(XD, **X, arguments={"alternate-exchange": 5}))
scenario("exchange alternate missing exchange", call(XD, **X, arguments={"alternate-exchange": "none"}))
scenario("bind default exchange", queue(**Q), call(QB, queue="q", exchange="", routing_key="k"))
scenario("bind default exchange own name", queue(**Q), call(QB, queue="q", exchange="", routing_key="q"))
scenario("unbind default exchange", queue(**Q), call(QU, queue="q", exchange="", routing_key="q"))
scenario("bind missing queue", call(QB, queue="q", exchange="amq.direct", routing_key="k"))
scenario("bind missing exchange", queue(**Q), call(QB, queue="q", exchange="x", routing_key="k"))
scenario("bind both missing", call(QB, queue="q", exchange="x", routing_key="k"))
scenario("bind twice", queue(**Q), call(QB, queue="q", exchange="amq.direct", routing_key="k"), call(QB, queue="q", exchange="amq.direct", routing_key="k"))
scenario("unbind missing binding", queue(**Q), call(QU, queue="q", exchange="amq.direct", routing_key="k"))
scenario("unbind missing queue", call(QU, queue="q", exchange="amq.direct", routing_key="k"))
scenario("unbind missing exchange", queue(**Q), call(QU, queue="q", exchange="x", routing_key="k"))
scenario("bind headers bad x-match", queue(**Q), call(QB, queue="q", exchange="amq.headers", routing_key="", arguments={"x-match": "some"}))
scenario("bind headers x-match type", queue(**Q), call(QB, queue="q", exchange="amq.headers", routing_key="", arguments={"x-match": 1}))
scenario("bind headers x-match long form", queue(**Q), call(QB, queue="q", exchange="amq.headers", routing_key="", arguments={"x-match": "all-with-x", "x-a": 1}))
scenario("bind topic three hashes", queue(**Q), call(QB, queue="q", exchange="amq.topic", routing_key="#.a.#.b.#"))
scenario("bind topic two hashes", queue(**Q), call(QB, queue="q", exchange="amq.topic", routing_key="#.a.#"))
scenario("bind topic adjacent hashes", queue(**Q), call(QB, queue="q", exchange="amq.topic", routing_key="#.#.#"))
scenario("exchange bind missing source", call(XB, destination="amq.direct", source="x", routing_key="k"))
scenario("exchange bind missing destination", call(XB, destination="x", source="amq.direct", routing_key="k"))
scenario("exchange bind both missing", call(XB, destination="x", source="y", routing_key="k"))
scenario("exchange bind default source", call(XB, destination="amq.direct", source="", routing_key="k"))
scenario("exchange bind default destination", call(XB, destination="", source="amq.direct", routing_key="k"))
scenario("exchange unbind missing source", call(XU, destination="amq.direct", source="x", routing_key="k"))
scenario("exchange unbind default source", call(XU, destination="amq.direct", source="", routing_key="k"))
scenario("exchange unbind missing binding", call(XU, destination="amq.direct", source="amq.fanout", routing_key="k"))
scenario("exchange bind internal source", call(XB, destination="amq.direct", source="amq.rabbitmq.trace", routing_key="k"))
scenario("exchange bind internal destination", call(XD, **X, internal=True), call(XB, destination="x", source="amq.direct", routing_key="k"))
scenario("long name", queue(queue="q" * 255, durable=True))
ARGS = {
 "x-max-length": [-1, "5", 5.0, True, None, 0, {"long": 2**40}], "x-max-length-bytes": [-1, "5", 0],
 "x-overflow": ["none", 5, "reject-publish", "reject-publish-dlx", "drop-head"],
 "x-queue-type": ["none", 5, "classic", "Classic", "rabbit_classic_queue", ""],
 "x-message-ttl": [-1, "5", {"long": 2**40}, {"long": 315360000000}, {"long": 315360000001}, 5], "x-expires": [0, -1, "5", {"long": 2**40}, {"long": 315360000000}, {"long": 315360000001}, 5],
 "x-dead-letter-exchange": [5, "none"], "x-dead-letter-routing-key": [5, "k"], "x-dead-letter-strategy": ["at-most-once", "at-least-once", "none", 5],
 "x-max-priority": [-1, 256, 255, 0, "5", 10], "x-single-active-consumer": ["true", True, 1],
 "x-delivery-limit": [5, "5", -1], "x-queue-mode": ["lazy", "default", "none", 5], "x-queue-version": [1, 2, 3, 0, "2"],
 "x-queue-leader-locator": ["client-local", "balanced", "none", 5], "x-queue-master-locator": ["client-local", "min-masters", "none", 5],
 "x-quorum-initial-group-size": [3], "x-quorum-target-group-size": [3], "x-initial-cluster-size": [3], "x-max-age": ["1h", "x"], "x-max-in-memory-length": [5, "x"], "x-max-in-memory-bytes": [5],
 "x-stream-max-segment-size-bytes": [1000], "x-stream-filter-size-bytes": [16], "x-consumer-timeout": [1000], "x-consumer-disconnected-timeout": [1000], "x-durability": ["os"],
 "x-delayed-retry-type": ["all"], "x-ha-policy": ["all"], "x-internal-purpose": ["federation"], "x-unknown": ["value", 5],
}
for name, values in ARGS.items():
    for value in values:
        scenario(f"argument {name}={compact(value)}", queue(**Q, arguments={name: value}))
# Only refusals: queues of this type can't be declared yet.
QUORUM_ARGS = {
 "x-max-priority": [5, -1], "x-queue-mode": ["lazy"], "x-queue-version": [2, "2"], "x-queue-master-locator": ["min-masters", 5], "x-max-age": ["1h"],
 "x-stream-max-segment-size-bytes": [1000], "x-stream-filter-size-bytes": [16], "x-initial-cluster-size": [3],
 "x-overflow": ["none", 5], "x-dead-letter-strategy": ["none", "", 5, True], "x-dead-letter-exchange": [5], "x-dead-letter-routing-key": [5, "k"],
 "x-quorum-initial-group-size": [0, -1, "3", True, None], "x-max-in-memory-length": [-1, "x"], "x-max-in-memory-bytes": [-1, "x"],
 "x-consumer-timeout": [-1, "x"], "x-consumer-disconnected-timeout": [-1, "x"], "x-single-active-consumer": ["true", 1],
 "x-queue-leader-locator": ["none", 5], "x-expires": [0, -1, "5", {"long": 315360000001}], "x-message-ttl": [-1, "5", {"long": 315360000001}],
 "x-max-length": [-1, "5", True], "x-max-length-bytes": [-1, "5"],
}
def quorum(**args): return {"x-queue-type": "quorum", **args}
for name, values in QUORUM_ARGS.items():
    for value in values:
        scenario(f"quorum argument {name}={compact(value)}", queue(**Q, arguments=quorum(**{name: value})))
for properties in (dict(durable=False), dict(exclusive=True), dict(auto_delete=True), dict(durable=False, exclusive=True), dict(durable=False, exclusive=True, auto_delete=True)):
    scenario(f"quorum property {compact(properties)}", queue(**{**Q, **properties}, arguments=quorum()))
scenario("quorum wrong value and exclusive", queue(**Q, exclusive=True, arguments=quorum(**{"x-quorum-initial-group-size": 0})))
scenario("quorum refused argument and not durable", queue(queue="q", arguments=quorum(**{"x-max-priority": 5})))
scenario("quorum server-named", queue(queue="", durable=True, arguments=quorum()))
scenario("quorum server-named and wrong value", queue(queue="", durable=True, arguments=quorum(**{"x-dead-letter-strategy": "none"})))
scenario("quorum reserved name", queue(queue="amq.x", durable=True, arguments=quorum()))
scenario("quorum redeclares classic with an argument", queue(**Q), queue(**Q, arguments=quorum(**{"x-delivery-limit": 3})))
scenario("quorum redeclares classic, exclusive", queue(**Q), queue(**Q, exclusive=True, arguments=quorum()))
scenario("queue redeclare leader locator changed", queue(**Q, arguments={"x-queue-leader-locator": "client-local"}), queue(**Q, arguments={"x-queue-leader-locator": "balanced"}))
scenario("queue redeclare leader locator missing", queue(**Q, arguments={"x-queue-leader-locator": "client-local"}), queue(**Q))
scenario("argument dead letter key without exchange", queue(**Q, arguments={"x-dead-letter-routing-key": "k"}))
scenario("argument dlx inequivalent", queue(**Q, arguments={"x-dead-letter-exchange": "a"}), queue(**Q, arguments={"x-dead-letter-exchange": "b"}))
for args in ({"x-priority": "a"}, {"x-priority": 5}, {"x-stream-offset": "first"}, {"x-unknown": 5}, {"x-cancel-on-ha-failover": True}, {"x-credit": 5}, {"x-consumer-timeout": 1000}):
    scenario(f"consumer argument {compact(args)}", queue(**Q), call("basic_consume", queue="q", arguments=args))

scenario("update secret", call("update_secret", new_secret="guest", reason="it expires"))
scenario("update secret to another password", call("update_secret", new_secret="none", reason=""), queue(**Q))

# Types of exchanges beyond those of the specification. Record them with the plugins rabbitmq_consistent_hash_exchange,
# rabbitmq_random_exchange and rabbitmq_recent_history_exchange enabled.
def typed(kind, **arguments): return call(XD, exchange="x", exchange_type=kind, durable=True, **({"arguments": arguments} if arguments else {}))
CH = "x-consistent-hash"
for args in ({}, {"hash-header": "h"}, {"hash-property": "message_id"}, {"hash-property": "correlation_id"}, {"hash-property": "timestamp"}, {"hash-property": "app_id"},
             {"hash-property": ""}, {"hash-header": "h", "hash-property": "message_id"}, {"hash-header": ""}):
    scenario(f"exchange {CH} {compact(args)}", typed(CH, **args))
scenario(f"exchange {CH} redeclare other header", typed(CH, **{"hash-header": "h"}), typed(CH, **{"hash-header": "g"}))
scenario(f"exchange {CH} redeclare without header", typed(CH, **{"hash-header": "h"}), typed(CH))
scenario(f"exchange {CH} redeclare other type", typed(CH), typed("x-random"))
scenario(f"exchange {CH} alternate inequivalent", typed(CH, **{"alternate-exchange": "amq.fanout"}), typed(CH))
for weight in ("1", "+2", "007", "1000", "0", "-1", "", "a", "1.5", " 1", "\u00e9"):
    scenario(f"bind {CH} weight {weight!r}", queue(**Q), typed(CH), call(QB, queue="q", exchange="x", routing_key=weight))
scenario(f"bind {CH} exchange", typed(CH), call(XB, destination="amq.direct", source="x", routing_key="3"))
scenario(f"bind {CH} exchange with wrong weight", typed(CH), call(XB, destination="amq.direct", source="x", routing_key="k"))
scenario(f"bind {CH} again with another weight", queue(**Q), typed(CH), call(QB, queue="q", exchange="x", routing_key="1"), call(QB, queue="q", exchange="x", routing_key="2"))
scenario(f"unbind {CH} wrong weight", queue(**Q), typed(CH), call(QU, queue="q", exchange="x", routing_key="k"))
for kind in ("x-modulus-hash", "x-random"):
    scenario(f"exchange {kind}", queue(**Q), typed(kind), call(QB, queue="q", exchange="x", routing_key="k"), call(XB, destination="amq.direct", source="x", routing_key="k"), typed(kind))
LR = "x-local-random"
scenario(f"exchange {LR}", queue(**Q), typed(LR), call(QB, queue="q", exchange="x", routing_key=""), typed(LR))
scenario(f"bind {LR} with a key", queue(**Q), typed(LR), call(QB, queue="q", exchange="x", routing_key="k"))
scenario(f"bind {LR} quorum queue", queue(**Q, arguments={"x-queue-type": "quorum"}), typed(LR), call(QB, queue="q", exchange="x", routing_key=""))
scenario(f"bind {LR} stream", queue(**Q, arguments={"x-queue-type": "stream"}), typed(LR), call(QB, queue="q", exchange="x", routing_key=""))
scenario(f"bind {LR} exchange", typed(LR), call(XB, destination="amq.direct", source="x", routing_key=""))
scenario(f"bind {LR} exchange with a key", typed(LR), call(XB, destination="amq.direct", source="x", routing_key="k"))
RH, LENGTH = "x-recent-history", "x-recent-history-length"
for length in (0, -1, 5, "20", True):
    scenario(f"exchange {RH} {compact(length)}", typed(RH, **{LENGTH: length}))
scenario(f"exchange {RH}", queue(**Q), typed(RH), call(QB, queue="q", exchange="x", routing_key="k"), call(XB, destination="amq.direct", source="x", routing_key="k"), typed(RH))
scenario(f"exchange {RH} redeclare other length", typed(RH, **{LENGTH: 5}), typed(RH, **{LENGTH: 6}), typed(RH))
scenario(f"exchange {RH} redeclare other type", typed(RH), typed("x-random"))
for maximum in (None, 5, 0):
    for other in (None, 5, 6):
        if maximum != other:
            of = lambda number: {} if number is None else {"arguments": {"x-max-priority": number}}
            scenario(f"queue redeclare x-max-priority {maximum} {other}", queue(**Q, **of(maximum)), queue(**Q, **of(other)))

NONE = ["^$", "^$", "^$"]
P = lambda c, w, r: [c, w, r]
for name, perms, *script in [
    ("queue declare without configure", P("^$", ".*", ".*"), queue(**Q)),
    ("queue passive without any", NONE, call("admin:queue_declare", **Q), queue(queue="q", passive=True)),
    ("queue delete without configure", P("^$", ".*", ".*"), call("admin:queue_declare", **Q), call("queue_delete", queue="q")),
    ("queue delete missing without configure", P("^$", ".*", ".*"), call("queue_delete", queue="q")),
    ("purge without read", P(".*", ".*", "^$"), queue(**Q), call("queue_purge", queue="q")),
    ("bind without write on queue", P(".*", "^amq", ".*"), queue(**Q), call(QB, queue="q", exchange="amq.direct", routing_key="k")),
    ("bind without read on exchange", P(".*", ".*", "^q"), queue(**Q), call(QB, queue="q", exchange="amq.direct", routing_key="k")),
    ("bind without both", P(".*", "^$", "^$"), queue(**Q), call(QB, queue="q", exchange="amq.direct", routing_key="k")),
    ("bind missing queue without write", P(".*", "^$", ".*"), call(QB, queue="q", exchange="amq.direct", routing_key="k")),
    ("get without read", P(".*", ".*", "^$"), queue(**Q), call("basic_get", queue="q")),
    ("consume without read", P(".*", ".*", "^$"), queue(**Q), call("basic_consume", queue="q")),
    ("publish without write", P(".*", "^q", ".*"), call("basic_publish", exchange="amq.direct", routing_key="k", body=""), queue(**Q)),
    ("publish default without write", P(".*", "^q", ".*"), call("basic_publish", exchange="", routing_key="k", body=""), queue(**Q)),
    ("publish missing exchange without write", P(".*", "^q", ".*"), call("basic_publish", exchange="x", routing_key="k", body=""), queue(**Q)),
    ("exchange declare without configure", P("^$", ".*", ".*"), call(XD, **X)),
    ("exchange passive without any", NONE, call(XD, exchange="amq.direct", passive=True)),
    ("exchange delete without configure", P("^$", ".*", ".*"), call("exchange_delete", exchange="amq.direct")),
    ("alternate without read", P(".*", ".*", "^$"), call(XD, **X, arguments={"alternate-exchange": "amq.fanout"})),
    ("alternate without write", P(".*", "^$", ".*"), call(XD, **X, arguments={"alternate-exchange": "amq.fanout"})),
    ("dead letter without write", P(".*", "^q", ".*"), queue(**Q, arguments={"x-dead-letter-exchange": "amq.fanout"})),
    ("dead letter without read", P(".*", ".*", "^$"), queue(**Q, arguments={"x-dead-letter-exchange": "amq.fanout"})),
    ("exchange bind without write on destination", P(".*", "^$", ".*"), call(XB, destination="amq.direct", source="amq.fanout", routing_key="k")),
    ("exchange bind without read on source", P(".*", ".*", "^$"), call(XB, destination="amq.direct", source="amq.fanout", routing_key="k")),
    ("pattern is unanchored", P("b", "", ""), queue(queue="abc", durable=True)),
    ("empty pattern", P("", "", ""), queue(queue="abc", durable=True)),
    ("server-named queue without configure", P("^x", ".*", ".*"), queue(queue="", exclusive=True)),
    ("redeclare without configure", P("^$", ".*", ".*"), call("admin:queue_declare", **Q), queue(**Q)),
    ("exclusive of another without configure", P("^$", ".*", ".*"), call("other:queue_declare", queue="q", exclusive=True), queue(queue="q", exclusive=True)),
    ("publish default to all with default name", P("", "^amq\\.default$", ""), call("basic_publish", exchange="", routing_key="k", body=""), call(XD, exchange="amq.direct", passive=True)),
]:
    scenario("permission: " + name, *script, permissions=perms)

def connect(user, password, vhost=VHOST):
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", amqp_port, vhost, pika.PlainCredentials(user, password), blocked_connection_timeout=5, socket_timeout=5))

def value(v):
    if isinstance(v, dict) and set(v) == {"long"}:
        return pika.compat.long(v["long"])
    return v

def run(channel, step):
    name, args = step["call"], dict(step["args"])
    name = name.split(":")[-1]
    if "arguments" in args: args["arguments"] = {k: value(v) for k, v in args["arguments"].items()}
    if "properties" in args: args["properties"] = pika.BasicProperties(**args["properties"])
    if name == "basic_consume": args["on_message_callback"] = lambda *a: None
    if name == "update_secret":
        return channel.connection.update_secret(**args)
    if name == "cancel_unknown":
        return channel.basic_cancel("none")
    return getattr(channel, name)(**args)

def clean():
    """Takes away what scenarios leave behind, where there is no vhost to be dropped."""
    connection = connect("guest", "guest")
    channel = connection.channel()
    for name in ("q", "abc", "q" * 255):
        channel.queue_delete(name)
    channel.exchange_delete("x")
    for source in ("amq.fanout", "amq.rabbitmq.trace"):
        channel.exchange_unbind("amq.direct", source, "k")
    connection.close()

def prepare(s):
    if not RECORD:
        clean()
        return
    http("DELETE", f"vhosts/{VHOST}"); http("PUT", f"vhosts/{VHOST}", {})
    http("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    if "permissions" in s:
        http("PUT", "users/golden", {"password": "golden", "tags": ""})
        c, w, r = s["permissions"]
        http("PUT", f"permissions/{VHOST}/golden", {"configure": c, "write": w, "read": r})

def play(s):
    prepare(s)
    user = ("golden", "golden") if "permissions" in s else ("guest", "guest")
    connections = []
    channels = {}
    def channel(step):
        who = step["call"].split(":")[0] if ":" in step["call"] else "main"
        if who not in channels:
            connection = connect(*(user if who == "main" else ("guest", "guest")))
            connections.append(connection)
            channels[who] = connection.channel()
        return channels[who]
    at = None
    try:
        for at, step in enumerate(s["script"]):
            result = run(channel(step), step)
        # an asynchronous error of the last step shows in the next answer
        if s["script"][-1]["call"] in ("basic_publish", "basic_ack"):
            connections[0].process_data_events(0.3)
        out = {"ok": True}
    except ChannelClosedByBroker as e:
        out = {"at": at, "scope": "channel", "code": e.reply_code, "text": e.reply_text}
    except ConnectionClosedByBroker as e:
        out = {"at": at, "scope": "connection", "code": e.reply_code, "text": e.reply_text}
    except Exception as e:
        out = {"at": at, "scope": "client", "text": f"{type(e).__name__}: {e}"}
    for c in connections:
        try: c.close()
        except Exception: pass
    return out

def login(name, user, password, vhost):
    """What connection.close says to a client that may not come in."""
    seen = []
    original = pika.connection.Connection._on_connection_close_from_broker
    def record(self, frame):
        seen.append({"scope": "connection", "code": frame.method.reply_code, "text": frame.method.reply_text})
        original(self, frame)
    pika.connection.Connection._on_connection_close_from_broker = record
    try:
        connect(user, password, vhost).close()
        out = {"ok": True}
    except AMQPError as error:
        out = seen[0] if seen else {"scope": "client", "text": repr(error)}
    finally:
        pika.connection.Connection._on_connection_close_from_broker = original
    return {"name": name, "login": {"user": user, "password": password, "vhost": vhost}, "result": out}

steps = []
for s in S:
    if not RECORD and "permissions" in s:
        continue
    result = play(s)
    # What the client itself refuses says nothing about the broker.
    if result.get("scope") != "client":
        steps.append({**s, "result": result})
if RECORD:
    http("PUT", "users/golden-empty", {"password_hash": "", "tags": ""})
    for name, *who in (
        ("wrong password", "guest", "none", "/"),
        ("unknown user", "nobody", "none", "/"),
        ("missing vhost", "guest", "guest", "golden-none"),
        ("no permission in vhost", "golden", "golden", "/"),
        ("empty password", "guest", "", "/"),
        ("user without password", "golden-empty", "", "/"),
        ("user without password, some given", "golden-empty", "x", "/"),
    ):
        steps.append(login("login: " + name, *who))
    http("DELETE", f"vhosts/{VHOST}"); http("DELETE", "users/golden"); http("DELETE", "users/golden-empty")
    head = {"server": "RabbitMQ " + http("GET", "overview")["rabbitmq_version"], "date": datetime.date.today().isoformat()}
else:
    head = {}
text = json.dumps({**head, "vhost": RECORDED_VHOST, "scenarios": steps}, indent=1, ensure_ascii=False)
print(text if RECORD else text.replace("vhost '/'", f"vhost '{RECORDED_VHOST}'"))
