"""paho-mqtt. See tests/src/cell.rs for the lines it speaks."""

import os
import queue
import ssl
import sys
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

uri, http_uri, control, scenario = sys.argv[1:5]
authority = os.environ.get("LEVERET_TEST_CA")
address = urlsplit(uri)
prefix = f"cell/{scenario}/{os.getpid()}"
PATIENCE = 30
VERSIONS = [mqtt.MQTTv31, mqtt.MQTTv311, mqtt.MQTTv5]


class Failure(Exception):
    """A scenario that saw something else than it should."""


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


def ask(line):
    print(line, flush=True)
    return sys.stdin.readline().strip()


class Client:
    """A connection whose events are in queues."""

    def __init__(self, name, version=mqtt.MQTTv311, clean=True, will=None, password="guest"):
        is_new = version == mqtt.MQTTv5
        session = {} if is_new else {"clean_session": clean}
        self.paho = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=f"{scenario}-{name}"[:23], protocol=version, **session
        )
        self.paho.username_pw_set("guest", password)
        if authority:
            self.paho.tls_set_context(ssl.create_default_context(cafile=authority))
        if will:
            self.paho.will_set(*will)
        self.connected, self.ended, self.subscribed = queue.Queue(), queue.Queue(), queue.Queue()
        self.published, self.messages = queue.Queue(), queue.Queue()
        self.paho.on_connect = lambda c, u, flags, code, p: self.connected.put((code.value, flags.session_present))
        self.paho.on_disconnect = lambda c, u, flags, code, p: self.ended.put(code.value)
        self.paho.on_subscribe = lambda c, u, mid, codes, p: self.subscribed.put([code.value for code in codes])
        self.paho.on_publish = lambda c, u, mid, code, p: self.published.put(code.value)
        self.paho.on_message = lambda c, u, message: self.messages.put(message)
        further = {}
        if is_new:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0 if clean else 1000
            further = {"clean_start": clean, "properties": properties}
        self.paho.reconnect_on_failure = False
        self.paho.connect(address.hostname, address.port, 60, **further)
        self.paho.loop_start()
        self.connack = self.connected.get(timeout=PATIENCE)

    def __enter__(self):
        equal(self.connack[0], 0, "CONNACK")
        return self

    def __exit__(self, *_):
        self.paho.disconnect()
        self.paho.loop_stop()

    def subscribe(self, *filters):
        self.paho.subscribe(list(filters))
        return self.subscribed.get(timeout=PATIENCE)

    def publish(self, topic, payload, qos=1, **further):
        self.paho.publish(topic, payload, qos, **further)
        return self.published.get(timeout=PATIENCE)

    def take(self, count):
        return [self.messages.get(timeout=PATIENCE) for _ in range(count)]

    def bodies(self, count):
        return [message.payload for message in self.take(count)]

    def has_nothing(self):
        self.publish("nobody/subscribes", b"")
        equal(self.messages.empty(), True, "messages left")

    def vanish(self):
        self.paho._sock.shutdown(2)
        self.paho.loop_stop()


def publish_mqtt():
    for version in VERSIONS:
        with Client("reader", version) as reader, Client("writer", version) as writer:
            for qos in range(3):
                topic = f"{prefix}/{version}/{qos}"
                equal(reader.subscribe((topic, qos)), [qos], "granted")
                bodies = [b"m%d" % number for number in range(100)]
                for body in bodies:
                    writer.paho.publish(topic, body, qos)
                for _ in bodies:
                    equal(writer.published.get(timeout=PATIENCE), 0, "the answer to a publish")
                messages = reader.take(100)
                equal([message.payload for message in messages], bodies, f"QoS {qos} of version {version}")
                equal({message.qos for message in messages}, {qos}, "the QoS")


def session():
    for version in VERSIONS[1:]:
        with Client("reader", version, clean=False) as reader:
            equal(reader.connack[1], False, "no session yet")
            equal(reader.subscribe((f"{prefix}/+/x", 1), (f"{prefix}/y/#", 2)), [1, 2], "granted")
        with Client("writer", version) as writer:
            for number in range(50):
                equal(writer.publish(f"{prefix}/{number}/x", b"m%d" % number), 0, "a confirm")
        with Client("reader", version, clean=False) as reader:
            equal(reader.connack[1], True, "the session")
            equal(reader.bodies(50), [b"m%d" % number for number in range(50)], "bodies")
        with Client("reader", version) as reader:
            equal(reader.connack[1], False, "a clean start")


def retained():
    with Client("writer") as writer, Client("reader") as reader:
        for topic, body in [("a", b"old"), ("a", b"new"), ("b/c", b"deep"), ("gone", b"x"), ("gone", b"")]:
            writer.publish(f"{prefix}/{topic}", body, retain=True)
        reader.subscribe((f"{prefix}/#", 1))
        messages = sorted(reader.take(2), key=lambda message: message.topic)
        equal([(m.topic, m.payload, m.retain) for m in messages],
              [(f"{prefix}/a", b"new", True), (f"{prefix}/b/c", b"deep", True)], "retained messages")
        reader.has_nothing()
        for topic in ["a", "b/c"]:
            writer.publish(f"{prefix}/{topic}", b"", retain=True)


def will():
    with Client("reader") as reader:
        reader.subscribe((f"{prefix}/#", 1))
        for version in VERSIONS:
            last_words = (f"{prefix}/{version}", b"gone", 1, False)
            with Client("mortal", version, will=last_words):
                pass
            reader.has_nothing()
            Client("mortal", version, will=last_words).vanish()
            equal(reader.bodies(1), [b"gone"], "the will")


def properties():
    with Client("reader", mqtt.MQTTv5) as reader, Client("writer", mqtt.MQTTv5) as writer:
        identifier = Properties(PacketTypes.SUBSCRIBE)
        identifier.SubscriptionIdentifier = 7
        reader.paho.subscribe(f"{prefix}/#", 1, properties=identifier)
        reader.subscribed.get(timeout=PATIENCE)
        given = Properties(PacketTypes.PUBLISH)
        given.UserProperty = [("k", "v"), ("k", "w")]
        given.ResponseTopic, given.CorrelationData, given.ContentType = "answers", b"\x01", "text/plain"
        given.MessageExpiryInterval = 100
        writer.publish(f"{prefix}/x", b"x", properties=given)
        got = reader.take(1)[0].properties
        equal(got.UserProperty, [("k", "v"), ("k", "w")], "user properties")
        equal((got.ResponseTopic, got.CorrelationData, got.ContentType), ("answers", b"\x01", "text/plain"), "others")
        equal(got.SubscriptionIdentifier, [7], "the identifier")
        equal(0 < got.MessageExpiryInterval <= 100, True, "the expiry")
        equal(writer.publish("nobody/subscribes", b"x"), 16, "no matching subscribers")


def taken_over():
    for version in VERSIONS:
        old = Client("same", version)
        with Client("same", version):
            code = old.ended.get(timeout=PATIENCE)
            if version == mqtt.MQTTv5:
                equal(code, 0x8E, "session taken over")
        old.paho.loop_stop()


def refused_login():
    for version in VERSIONS:
        client = Client("stranger", version, password="wrong")
        equal(client.connack[0], 0x86, "bad user name or password")
        client.paho.loop_stop()


def reconnect_mqtt():
    go_on("ready kill")


def restart_mqtt():
    go_on("ready restart")


def go_on(what_happens):
    with Client("reader", clean=False) as reader:
        reader.subscribe((f"{prefix}/#", 2))
    with Client("writer") as writer:
        for number in range(100):
            equal(writer.publish(f"{prefix}/x", b"m%d" % number), 0, "a confirm")
        equal(ask(what_happens), "go", "the harness")
    with Client("writer") as writer:
        for number in range(100, 200):
            equal(writer.publish(f"{prefix}/x", b"m%d" % number, 2), 0, "a confirm")
    with Client("reader", clean=False) as reader:
        equal(reader.connack[1], True, "the session")
        equal(reader.bodies(200), [b"m%d" % number for number in range(200)], "bodies")
        reader.has_nothing()
    with Client("reader"):
        pass


SCENARIOS = {
    one.__name__: one
    for one in [
        publish_mqtt, session, retained, will, properties, taken_over, refused_login, reconnect_mqtt, restart_mqtt,
    ]
}
try:
    SCENARIOS[scenario]()
    print(f"ok {scenario}", flush=True)
except BaseException as error:  # the harness wants every reason
    print(f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.stdout.flush()
    os._exit(1)
os._exit(0)
