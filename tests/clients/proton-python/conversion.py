"""AMQP 0-9-1 on the other side."""

from session import *


def from_091():
    name, address = queue()
    peer("sample", queue=name)
    message = Connection().get(address).message
    equal((message.durable, message.priority), (True, 5), "header")
    equal((message.id, message.correlation_id), ("message", "correlation"), "ids")
    equal((message.content_type, message.content_encoding), ("text/plain", "utf-8"), "content")
    equal((message.reply_to, message.group_id, message.user_id), ("/queues/answers", "app", b"guest"), "properties")
    equal(message.creation_time, 1_700_000_000, "creation time")
    annotations = message.annotations
    equal((annotations["x-a"], annotations["x-basic-type"]), ("note", "kind"), "annotations")
    equal((annotations["x-exchange"], annotations["x-routing-key"]), ("", name), "address annotations")
    equal(message.properties, {"b": 7, "c": "ключ"}, "application properties")
    equal((bytes(message.body).decode(), message.inferred), ("body ✓", True), "body")


def to_091():
    name, address = queue()
    connection = Connection()
    sender = connection.sender(address)
    properties = {"s": "text ✓", "i": 5, "t": True, "l": 2**40}
    connection.accept_all(sender, [
        text("body ✓", priority=5, id="message", correlation_id="correlation", content_type=symbol("text/plain"),
             creation_time=1_700_000_000.0, reply_to="/queues/answers", group_id="group", user_id=b"guest",
             annotations={symbol("x-a"): "note"}, properties=properties),
        Message(body={"a": 1}, inferred=False, durable=True)])
    got = peer("get", queue=name)
    equal((got["body"], got["exchange"], got["key"], got["redelivered"]), ("body ✓", "", name, False), "delivery")
    expected = {"delivery_mode": 2, "priority": 5, "message_id": "message", "correlation_id": "correlation",
                "content_type": "text/plain", "timestamp": 1_700_000_000, "reply_to": "answers", "app_id": "group",
                "user_id": "guest"}
    for key, value in expected.items():
        equal(got["properties"].get(key), value, key)
    headers = got["properties"]["headers"]
    for key, value in {**properties, "x-a": "note"}.items():
        equal(headers.get(key), value, f"header {key}")
    equal(peer("get", queue=name)["properties"].get("type"), "amqp-1.0", "type of a value body")
