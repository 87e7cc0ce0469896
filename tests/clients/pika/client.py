"""The scenarios of the client table, with pika. See tests/src/cell.rs for the lines it speaks."""

import datetime
import decimal
import os
import ssl
import urllib.parse

import pika
from pika import exceptions

from cell import Failure, ask, equal, prefix, run, uri

authority = os.environ.get("LEVERET_TEST_CA")


def check(condition, what):
    if not condition:
        raise Failure(what)


def connect(target=uri, **options):
    parameters = pika.URLParameters(target)
    if authority:
        parameters.ssl_options = pika.SSLOptions(ssl.create_default_context(cafile=authority), parameters.host)
    for name, value in options.items():
        setattr(parameters, name, value)
    return pika.BlockingConnection(parameters)


def fails(connection, code, words, act):
    """`act(channel)` on a channel of its own ends with this code and these first words."""
    channel = connection.channel()
    fails_on(channel, code, words, act)


def fails_on(channel, code, words, act):
    try:
        act(channel)
        # A barrier: whatever the broker says of an asynchronous method comes before its answer.
        channel.queue_declare("", exclusive=True)
    except (exceptions.ChannelClosed, exceptions.ConnectionClosed) as error:
        equal(error.reply_code, code, f"code (text {error.reply_text!r})")
        check(error.reply_text.startswith(words), f"text {error.reply_text!r} doesn't start with {words!r}")
        return
    except exceptions.AMQPError as error:
        raise Failure(f"{code} expected, got {error!r}") from error
    raise Failure(f"{code} expected, nothing happened")


def barrier(channel):
    channel.queue_declare("", exclusive=True)


def publish(channel, queue, *bodies, properties=None):
    for body in bodies:
        channel.basic_publish("", queue, body, properties or pika.BasicProperties(delivery_mode=2), mandatory=True)


def queue(channel, name="q", **options):
    options.setdefault("durable", True)
    name = f"{prefix}.{name}"
    channel.queue_declare(name, **options)
    return name


def confirming(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def declare():
    connection = connect()
    channel = connection.channel()
    name = f"{prefix}.q"
    answer = channel.queue_declare(name, durable=True)
    equal((answer.method.queue, answer.method.message_count, answer.method.consumer_count), (name, 0, 0), "declare-ok")
    channel.queue_declare(name, durable=True)
    equal(channel.queue_declare(name, passive=True).method.queue, name, "passive declare")
    exchange = f"{prefix}.x"
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_declare(f"{exchange}.{kind}", kind, durable=True)
        channel.exchange_declare(f"{exchange}.{kind}", kind, durable=True)
        channel.exchange_declare(f"{exchange}.{kind}", passive=True)
        channel.queue_bind(name, f"{exchange}.{kind}", "a.b", {"x-match": "all", "k": 1} if kind == "headers" else None)
    channel.confirm_delivery()
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.basic_publish(f"{exchange}.{kind}", "a.b", kind, pika.BasicProperties(headers={"k": 1}), mandatory=True)
    equal(channel.queue_declare(name, passive=True).method.message_count, 4, "messages through four exchanges")
    channel.queue_unbind(name, f"{exchange}.fanout")
    channel.queue_unbind(name, f"{exchange}.direct", "a.b")
    try:
        channel.basic_publish(f"{exchange}.direct", "a.b", "x", mandatory=True)
        raise Failure("an unbound key is still routed")
    except exceptions.UnroutableError:
        pass
    equal(channel.queue_purge(name).method.message_count, 4, "purge")
    server_named = channel.queue_declare("", exclusive=True).method.queue
    check(server_named.startswith("amq.gen-"), f"server-named queue {server_named}")
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue",
          lambda c: c.queue_declare(name, durable=False))
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue",
          lambda c: c.queue_declare(name, durable=True, arguments={"x-max-length": 5}))
    fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange",
          lambda c: c.exchange_declare(f"{exchange}.direct", "fanout", durable=True))
    fails(connection, 404, "NOT_FOUND - no queue", lambda c: c.queue_declare(f"{prefix}.missing", passive=True))
    fails(connection, 404, "NOT_FOUND - no exchange", lambda c: c.exchange_declare(f"{prefix}.missing", passive=True))
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_delete(f"{exchange}.{kind}")
    equal(channel.queue_delete(server_named).method.message_count, 0, "delete")
    fails(connection, 404, "NOT_FOUND - no queue", lambda c: c.queue_declare(server_named, passive=True))


def publish_confirm():
    channel = confirming(connect())
    name = queue(channel)
    for number in range(100):
        publish(channel, name, str(number))
    equal(channel.queue_declare(name, passive=True).method.message_count, 100, "messages")
    for number in range(100):
        method, properties, body = channel.basic_get(name, auto_ack=True)
        equal(body, str(number).encode(), "body in order")
        equal(properties.delivery_mode, 2, "delivery mode")


def mandatory_return():
    channel = confirming(connect())
    try:
        channel.basic_publish("amq.direct", f"{prefix}.nowhere", "back", pika.BasicProperties(message_id="m"), mandatory=True)
        raise Failure("no return")
    except exceptions.UnroutableError as error:
        returned = error.messages[0]
    equal(returned.method.reply_code, 312, "code")
    equal(returned.method.reply_text, "NO_ROUTE", "text")
    equal((returned.method.exchange, returned.method.routing_key), ("amq.direct", f"{prefix}.nowhere"), "address")
    equal((returned.body, returned.properties.message_id), (b"back", "m"), "message")
    channel.basic_publish("amq.direct", f"{prefix}.nowhere", "dropped", mandatory=False)


def ack():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "1", "2", "3", "4", "5")
    consumer = connection.channel()
    seen = []
    for method, _, body in consumer.consume(name, inactivity_timeout=10):
        check(method is not None, "deliveries stopped")
        seen.append((method.delivery_tag, method.redelivered, body))
        if len(seen) == 5:
            break
    equal(seen, [(i, False, str(i).encode()) for i in range(1, 6)], "deliveries")
    consumer.basic_ack(1)
    consumer.basic_ack(3, multiple=True)
    consumer.close()
    again = connection.channel()
    for number in (4, 5):
        method, _, body = again.basic_get(name)
        equal((method.redelivered, body), (True, str(number).encode()), "redelivery")
        again.basic_ack(method.delivery_tag)
    equal(again.basic_get(name)[0], None, "an empty queue")
    again.close()
    equal(channel.queue_declare(name, passive=True).method.message_count, 0, "messages")


def nack_requeue():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    publish(channel, name, "1", "2", "3", "4")
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], requeue=True)
    method, _, body = channel.basic_get(name)
    equal((body, method.redelivered), (b"2", True), "the place of 2 is before 4")
    channel.basic_nack(method.delivery_tag, multiple=True, requeue=True)
    order = []
    for _ in range(4):
        method, _, body = channel.basic_get(name)
        order.append((body, method.redelivered))
        channel.basic_ack(method.delivery_tag)
    equal(order, [(b"1", True), (b"2", True), (b"3", True), (b"4", False)], "order after nack multiple")
    publish(channel, name, "5")
    method, _, _ = channel.basic_get(name)
    channel.basic_nack(method.delivery_tag, requeue=False)
    equal(channel.basic_get(name)[0], None, "after nack without requeue")


def reject():
    channel = confirming(connect())
    name = queue(channel)
    publish(channel, name, "1", "2")
    method, _, _ = channel.basic_get(name)
    channel.basic_reject(method.delivery_tag, requeue=True)
    method, _, body = channel.basic_get(name)
    equal((body, method.redelivered), (b"1", True), "requeued")
    channel.basic_reject(method.delivery_tag, requeue=False)
    method, _, body = channel.basic_get(name, auto_ack=True)
    equal((body, method.redelivered), (b"2", False), "next")
    equal(channel.basic_get(name)[0], None, "the end")


def prefetch():
    connection = connect()
    publisher = confirming(connection)
    name = queue(publisher)
    publish(publisher, name, *[str(i) for i in range(10)])
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    seen = []
    channel.basic_consume(name, lambda _c, method, _p, body: seen.append((method.delivery_tag, body)))
    while len(seen) < 3:
        connection.process_data_events(time_limit=10)
    equal(channel.queue_declare(name, passive=True).method.message_count, 7, "ready while 3 are unacknowledged")
    connection.process_data_events()
    equal(len(seen), 3, "deliveries before an ack")
    channel.basic_ack(2, multiple=True)
    while len(seen) < 5:
        connection.process_data_events(time_limit=10)
    equal(channel.queue_declare(name, passive=True).method.message_count, 5, "ready after 2 acks")
    equal([body for _, body in seen], [str(i).encode() for i in range(5)], "order")


def get():
    channel = confirming(connect())
    name = queue(channel)
    equal(channel.basic_get(name), (None, None, None), "get-empty")
    publish(channel, name, "1", "2")
    method, _, body = channel.basic_get(name)
    equal((method.message_count, method.redelivered, method.exchange, method.routing_key, body),
          (1, False, "", name, b"1"), "get-ok")
    channel.basic_ack(method.delivery_tag)
    method, _, body = channel.basic_get(name, auto_ack=True)
    equal((method.message_count, body), (0, b"2"), "the last")
    equal(channel.basic_get(name)[0], None, "get-empty")


def big_body():
    channel = confirming(connect())
    name = queue(channel)
    body = bytes((i * 7 + i // 251) % 256 for i in range(5 * 1024 * 1024))
    publish(channel, name, body, "after", body)
    for expected in (body, b"after", body):
        method, _, received = channel.basic_get(name)
        check(received == expected, f"body of {len(received)} bytes differs")
        channel.basic_ack(method.delivery_tag)


def headers():
    channel = confirming(connect())
    name = queue(channel)
    sent = {
        "unicode ключ": "wert ✓ 𝄞",
        "binary": bytes(range(256)),
        "true": True,
        "false": False,
        "int": 2**31 - 1,
        "negative": -(2**31),
        "long": 2**62,
        "decimal": decimal.Decimal("3.14"),
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        "none": None,
        "list": [1, "zwei ✓", b"\xff\x00", [True, None], {"in": 1}],
        "table": {"a": {"b": {"c": "tief"}}},
        "empty": "",
        "long string": "x" * 70_000,
        "CC-less": {},
    }
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=sent, delivery_mode=2, priority=9,
        correlation_id="korrelation ✓", reply_to="antwort", message_id="id", timestamp=1_700_000_000,
        type="art", user_id="guest", app_id="app ✓", cluster_id="cluster")
    body = "inhalt ✓".encode()
    publish(channel, name, body, properties=properties)
    method, received, got = channel.basic_get(name)
    equal(got, body, "body")
    expected = dict(sent)
    for key in sorted(set(expected) | set(received.headers)):
        equal(received.headers.get(key), expected.get(key), f"header {key}")
    for key in ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
                "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"):
        equal(getattr(received, key), getattr(properties, key), key)
    channel.basic_ack(method.delivery_tag)


def exclusive():
    owner, other = connect(), connect()
    name = queue(owner.channel(), durable=False, exclusive=True)
    for act in (lambda c: c.queue_declare(name, exclusive=True), lambda c: c.queue_declare(name, passive=True),
                lambda c: c.basic_get(name), lambda c: c.queue_purge(name)):
        fails(other, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue", act)
    owner.channel().queue_declare(name, passive=True)
    owner.close()
    fails(other, 404, "NOT_FOUND - no queue", lambda c: c.queue_declare(name, passive=True))
    queue(other.channel(), durable=False, exclusive=True)


def reconnect():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    transient = queue(channel, "transient", durable=False, exclusive=True)
    publish(channel, name, "before")
    publish(channel, transient, "lost")
    equal(ask("ready kill"), "go", "control")
    try:
        connection.process_data_events(time_limit=10)
        connection.channel()
        raise Failure("the connection survived a kill")
    except exceptions.AMQPError:
        pass
    connection = connect()
    channel = confirming(connection)
    equal(channel.queue_declare(name, passive=True).method.message_count, 1, "messages after the restart")
    method, properties, body = channel.basic_get(name)
    equal((body, properties.delivery_mode), (b"before", 2), "the message")
    channel.basic_ack(method.delivery_tag)
    publish(channel, name, "after")
    equal(channel.basic_get(name, auto_ack=True)[2], b"after", "a message of the second life")
    fails(connection, 404, "NOT_FOUND - no queue", lambda c: c.queue_declare(transient, passive=True))


def heartbeat_loss():
    connection = connect(heartbeat=1)
    channel = connection.channel()
    barrier(channel)
    equal(ask("mute"), "closed", "control")
    try:
        connection.process_data_events(time_limit=10)
        channel.queue_declare("", exclusive=True)
        raise Failure("the connection is still open")
    except exceptions.AMQPError:
        pass


def error_320():
    connection = connect()
    channel = connection.channel()
    equal(ask("ready term"), "go", "control")
    try:
        while True:
            connection.process_data_events(time_limit=10)
            barrier(channel)
    except exceptions.ConnectionClosed as error:
        equal(error.reply_code, 320, "code")
        check(error.reply_text.startswith("CONNECTION_FORCED"), error.reply_text)


def error_403():
    connection = connect()
    name = queue(connection.channel())
    refused = "ACCESS_REFUSED"
    fails(connection, 403, f"{refused} - queue name 'amq.own' contains reserved prefix 'amq.*'",
          lambda c: c.queue_declare("amq.own"))
    fails(connection, 403, f"{refused} - exchange name 'amq.own' contains reserved prefix 'amq.*'",
          lambda c: c.exchange_declare("amq.own"))
    fails(connection, 403, f"{refused} - operation not permitted on the default exchange",
          lambda c: c.queue_bind(name, "", "key"))
    fails(connection, 403, refused, lambda c: c.exchange_delete("amq.direct"))
    holder = connection.channel()
    holder.basic_consume(name, lambda *_: None, exclusive=True)
    fails(connection, 403, f"{refused} - queue '{name}' in vhost '/' in exclusive use",
          lambda c: c.basic_consume(name, lambda *_: None))
    holder.exchange_declare(f"{prefix}.internal", "direct", internal=True)
    fails(connection, 403, f"{refused} - cannot publish to internal exchange",
          lambda c: c.basic_publish(f"{prefix}.internal", "", "x"))
    holder.exchange_delete(f"{prefix}.internal")
    try:
        connect(credentials=pika.PlainCredentials("guest", "wrong"))
        raise Failure("a wrong password is accepted")
    except exceptions.ProbableAuthenticationError as error:
        check("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in str(error), str(error))


def error_404():
    connection = connect()
    missing = f"{prefix}.missing"
    queue_words, exchange_words = f"NOT_FOUND - no queue '{missing}' in vhost '/'", f"NOT_FOUND - no exchange '{missing}' in vhost '/'"
    fails(connection, 404, queue_words, lambda c: c.queue_declare(missing, passive=True))
    fails(connection, 404, queue_words, lambda c: c.basic_get(missing))
    fails(connection, 404, queue_words, lambda c: c.basic_consume(missing, lambda *_: None))
    fails(connection, 404, queue_words, lambda c: c.queue_purge(missing))
    fails(connection, 404, queue_words, lambda c: c.queue_bind(missing, "amq.direct", "k"))
    fails(connection, 404, exchange_words, lambda c: c.exchange_declare(missing, passive=True))
    fails(connection, 404, exchange_words, lambda c: c.basic_publish(missing, "k", "x"))
    fails(connection, 404, exchange_words, lambda c: c.queue_bind(queue(connection.channel()), missing, "k"))
    connection.channel().queue_delete(missing)
    connection.channel().exchange_delete(missing)


def error_405():
    owner, other = connect(), connect()
    name = queue(owner.channel(), durable=False, exclusive=True)
    words = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'"
    fails(other, 405, words, lambda c: c.queue_declare(name, exclusive=True))
    fails(other, 405, words, lambda c: c.basic_consume(name, lambda *_: None))
    fails(other, 405, words, lambda c: c.queue_delete(name))
    fails(other, 405, words, lambda c: c.queue_bind(name, "amq.direct", "k"))


def error_406():
    connection = connect()
    channel = confirming(connection)
    name = queue(channel)
    words = "PRECONDITION_FAILED"
    fails(connection, 406, f"{words} - unknown delivery tag 7", lambda c: c.basic_ack(7))
    fails(connection, 406, f"{words} - unknown delivery tag 7", lambda c: c.basic_reject(7))
    publish(channel, name, "1")

    def twice(c):
        tag = c.basic_get(name)[0].delivery_tag
        c.basic_ack(tag)
        c.basic_ack(tag)

    fails(connection, 406, f"{words} - unknown delivery tag 1", twice)
    fails(connection, 406, f"{words} - inequivalent arg 'durable' for queue '{name}' in vhost '/'",
          lambda c: c.queue_declare(name, durable=False, exclusive=False))
    fails(connection, 406, f"{words} - invalid expiration",
          lambda c: c.basic_publish("", name, "x", pika.BasicProperties(expiration="soon")))
    fails(connection, 406, f"{words} - invalid arg 'x-max-length' for queue",
          lambda c: c.queue_declare(f"{prefix}.bad", durable=True, arguments={"x-max-length": -1}))
    fails(connection, 406, f"{words} - unknown exchange type 'x-nowhere-known'",
          lambda c: c.exchange_declare(f"{prefix}.x", "x-nowhere-known"))
    publish(channel, name, "2")
    fails(connection, 406, f"{words} - queue '{name}' in vhost '/' not empty", lambda c: c.queue_delete(name, if_empty=True))
    consumer = connection.channel()
    consumer.basic_consume(name, lambda *_: None)
    fails(connection, 406, f"{words} - queue '{name}' in vhost '/' in use", lambda c: c.queue_delete(name, if_unused=True))
    exchange = f"{prefix}.used"
    channel.exchange_declare(exchange, durable=True)
    channel.queue_bind(name, exchange, "k")
    fails(connection, 406, f"{words} - exchange '{exchange}' in vhost '/' in use",
          lambda c: c.exchange_delete(exchange, if_unused=True))


def injected(code, words, frame):
    connection = connect()
    channel = connection.channel()
    fails_on(channel, code, words, lambda c: equal(ask(f"inject {frame}"), "done", "control"))
    # Another connection doesn't notice.
    barrier(connect().channel())


def error_501():
    # queue.declare on channel 1, with 00 where the end mark belongs
    injected(501, "FRAME_ERROR", "0100010000000c" + "0032000a" + "0000" + "00" + "00" + "00000000" + "00")


def error_502():
    # queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502
    injected(501, "FRAME_ERROR - cannot decode", "01000100000008" + "0032000a" + "0000" + "ff61" + "ce")


def error_503():
    # queue.declare-ok, which only a broker sends
    injected(503, "COMMAND_INVALID", "0100010000000e" + "0032000b" + "0161" + "0000000000000000" + "ce")


def error_504():
    # channel.open on channel 1, which is open
    injected(504, "CHANNEL_ERROR - second 'channel.open' seen", "01000100000005" + "0014000a" + "00" + "ce")


def error_505():
    # a content header on channel 1 without a method before it
    injected(505, "UNEXPECTED_FRAME", "0200010000000e" + "003c0000" + "0000000000000000" + "0000" + "ce")


def error_530():
    def twice(c):
        c.basic_consume(queue(c), lambda *_: None, consumer_tag="tag")
        # pika refuses the second on its own; the method itself goes out
        c._impl._consumers.pop("tag")
        c._consumer_infos.pop("tag")
        c.basic_consume(queue(c), lambda *_: None, consumer_tag="tag")

    fails(connect(), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", twice)
    base = uri.rsplit("/", 1)[0]
    try:
        connect(f"{base}/{urllib.parse.quote('no such')}")
        raise Failure("an unknown vhost is accepted")
    except exceptions.ProbableAccessDeniedError as error:
        check("NOT_ALLOWED - vhost no such not found" in str(error), str(error))
    except exceptions.ConnectionClosed as error:
        equal(error.reply_code, 530, "code")
        check(error.reply_text.startswith("NOT_ALLOWED - vhost no such not found"), error.reply_text)


def error_540():
    name = queue(connect().channel())
    fails(connect(), 540, "NOT_IMPLEMENTED", lambda c: c.basic_qos(prefetch_size=10))
    fails(connect(), 540, "NOT_IMPLEMENTED", lambda c: c.basic_recover(requeue=False))

    def immediate(c):
        c._impl._send_method(pika.spec.Basic.Publish(exchange="", routing_key=name, immediate=True),
                             (pika.BasicProperties(), b"x"))

    fails(connect(), 540, "NOT_IMPLEMENTED - immediate=true", immediate)


def blocked():
    heard = []
    connection = connect()
    connection.add_on_connection_blocked_callback(lambda _, frame: heard.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    channel = connection.channel()
    name = queue(channel)
    publish(channel, name, b"before")
    barrier(channel)
    equal(ask("alarm memory"), "done", "control")
    while not heard:
        publish(channel, name, b"more")
        connection.process_data_events(time_limit=0.01)
    equal(heard, ["low on memory"], "connection.blocked")
    # Another connection consumes.
    equal(connect().channel().basic_get(name, auto_ack=True)[2], b"before", "a message during the alarm")
    equal(ask("alarm"), "done", "control")
    while len(heard) < 2:
        connection.process_data_events(time_limit=1)
    equal(heard[1:], ["unblocked"], "connection.unblocked")
    barrier(channel)


def direct_reply_to():
    requester, responder = connect().channel(), connect().channel()
    name = queue(responder)
    answers = []
    tag = requester.basic_consume("amq.rabbitmq.reply-to", lambda *args: answers.append(args), auto_ack=True)
    asked = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    requester.basic_publish("", name, b"ask", asked, mandatory=True)
    barrier(requester)
    # A quorum queue has it when it is flushed.
    body = None
    while body is None:
        _, properties, body = responder.basic_get(name, auto_ack=True)
    equal((body, properties.correlation_id), (b"ask", "7"), "request")
    check(properties.reply_to.startswith("amq.rabbitmq.reply-to."), properties.reply_to)
    equal(responder.queue_declare(properties.reply_to, passive=True).method.consumer_count, 1, "consumers")
    responder.confirm_delivery()
    responder.basic_publish("", properties.reply_to, b"answer", pika.BasicProperties(correlation_id="7"), mandatory=True)
    while not answers:
        requester.connection.process_data_events(time_limit=1)
    _, method, answered, body = answers[0]
    equal((body, answered.correlation_id, method.exchange, method.consumer_tag), (b"answer", "7", "", tag), "answer")
    fails(connect(), 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge",
          lambda c: c.basic_consume("amq.rabbitmq.reply-to", lambda *_: None))
    fails(connect(), 406, "PRECONDITION_FAILED - fast reply consumer does not exist",
          lambda c: c.basic_publish("", name, b"ask", asked))
    fails(connect(), 403, "ACCESS_REFUSED", lambda c: c.queue_bind(properties.reply_to, "amq.direct", "k"))


run(globals())
