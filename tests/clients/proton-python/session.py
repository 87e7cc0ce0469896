"""What the scenarios share: connections, links, checks, and the lines to the harness."""

import json
import os
import sys
import time

from proton import Delivery, Endpoint, Handler, Link, Message, SSLDomain, Terminus, symbol, ulong
from proton.reactor import Container

uri, http_uri, control, scenario = sys.argv[1:5]
address = uri.split("@")[1].split("/")[0]
authority = os.environ.get("LEVERET_TEST_CA")
prefix = f"cell.{scenario}.{os.getpid()}"

PATIENCE_S = 30
LOCAL = Endpoint.LOCAL_ACTIVE
ACCEPTED, REJECTED, RELEASED, MODIFIED = (
    Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED)


class Failure(Exception):
    """A scenario that saw something else than it should."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


def ask(line):
    print(line, flush=True)
    return sys.stdin.readline().strip()


def peer(do, **request):
    answer = json.loads(ask("peer " + json.dumps({"do": do, **request})))
    check("error" not in answer, f"peer {do}: {answer.get('error')}")
    return answer


def queue(name="q", **arguments):
    """A durable queue; its name and its address."""
    name = f"{prefix}.{name}"
    peer("declare", queue=name, arguments={key.replace("_", "-"): value for key, value in arguments.items()})
    return name, f"/queues/{name}"


def count(name):
    return peer("count", queue=name)["messages"]


container = Container()
container.timeout = PATIENCE_S
container.start()
# A container without any connection or task stops.
container.schedule(3600, Handler())


def wait(condition, what, connection=None):
    """Runs every connection until the condition holds; an end of `connection` ends the wait."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if connection is not None and connection.gone:
            raise Failure(f"{what}: the connection ended: {connection.reason()}")
        if time.monotonic() > deadline:
            raise Failure(f"{what}: nothing came")
        container.process()


def tls():
    """What a connection is made with, where there is an authority to trust."""
    if not authority:
        return {}
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(authority)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return {"ssl_domain": domain}


class Connection(Handler):
    """One connection, driven from outside by `wait`."""

    def __init__(self, opened=True, begun=True, **options):
        super().__init__()
        self.inbox = {}
        self.detached = set()
        self.gone = False
        self.transport_condition = None
        options = {"user": "guest", "password": "guest", "allowed_mechs": "PLAIN", "reconnect": False, **tls(), **options}
        self.raw = container.connect(url=f"{uri.split(':')[0]}://{address}", handler=self, **options)
        self.session = None
        if opened:
            self.await_open()
            if begun:
                self.session = self.begin()

    def await_open(self):
        self.wait(lambda: not self.raw.state & Endpoint.REMOTE_UNINIT, "open")

    def wait(self, condition, what):
        wait(condition, what, self)

    def await_end(self):
        """Waits until the broker closed the connection or its socket; the condition that it gave."""
        wait(lambda: self.gone, "the end of the connection")
        return self.reason()

    def flush(self):
        """What was done up to now is on its way. The library writes flows before dispositions otherwise."""
        self.wait(lambda: self.raw.transport.pending() == 0, "room to write")

    def reason(self):
        return self.raw.remote_condition or self.transport_condition

    def on_connection_remote_close(self, _event):
        self.gone = True
        if self.raw.state & LOCAL:
            self.raw.close()

    def on_transport_error(self, event):
        self.transport_condition = event.transport.condition

    def on_transport_closed(self, _event):
        self.gone = True

    def on_session_remote_close(self, event):
        if event.session.state & LOCAL:
            event.session.close()

    def on_link_remote_close(self, event):
        if event.link.state & LOCAL:
            event.link.close()

    def on_link_remote_detach(self, event):
        self.detached.add(event.link.name)

    def on_delivery(self, event):
        delivery = event.delivery
        if delivery.link.is_receiver and delivery.readable and not delivery.partial:
            body = delivery.link.recv(delivery.pending)
            delivery.link.advance()
            self.inbox[delivery.link.name].append(Received(delivery, body))

    def begin(self):
        session = self.raw.session()
        session.open()
        self.wait(lambda: not session.state & Endpoint.REMOTE_UNINIT, "begin")
        return session

    def attach(self, link, check_open=True):
        """Opens a link; the session's end counts as the answer as well."""
        link.open()
        self.wait(lambda: not link.state & Endpoint.REMOTE_UNINIT or ended(link.session), "attach")
        # A refusal is an attach without terminus, followed by a detach with the reason.
        terminus = link.remote_source if link.is_receiver else link.remote_target
        if not ended(link.session) and terminus.type == Terminus.UNSPECIFIED:
            self.wait(lambda: ended(link), "detach after a refusing attach")
        if check_open:
            check(not ended(link), f"attach was refused: {why(link)}")
        return link

    def sender(self, target, session=None, name=None, check_open=True, prepare=lambda link: None):
        link = (session or self.session).sender(name or f"sender-{os.urandom(4).hex()}")
        if target is None:
            link.target.type = Terminus.TARGET
        else:
            link.target.address = target
        prepare(link)
        return self.attach(link, check_open)

    def receiver(self, source, session=None, name=None, check_open=True, prepare=lambda link: None):
        link = (session or self.session).receiver(name or f"receiver-{os.urandom(4).hex()}")
        if source is not None:
            link.source.address = source
        self.inbox[link.name] = []
        prepare(link)
        return self.attach(link, check_open)

    @staticmethod
    def transfer(sender, message):
        """Starts a delivery of a message, or of bytes that are one."""
        if not isinstance(message, (bytes, bytearray)):
            return sender.send(message)
        delivery = sender.delivery(sender.delivery_tag())
        sender.stream(message)
        sender.advance()
        return delivery

    def send(self, sender, message):
        """Sends one message and waits for its outcome, which is settled and returned."""
        return self.outcomes(sender, [message])[0]

    def outcomes(self, sender, messages):
        """Sends as credit allows and waits for every outcome."""
        return [delivery.remote_state for delivery in self.send_all(sender, messages)]

    def send_all(self, sender, messages):
        deliveries = []
        for message in messages:
            self.wait(lambda: sender.credit > 0 or ended(sender), "credit to send")
            check(not ended(sender), f"the link ended: {why(sender)}")
            deliveries.append(self.transfer(sender, message))
        for delivery in deliveries:
            self.wait(lambda: delivery.remote_state != 0 or delivery.settled or ended(sender), "an outcome")
        for delivery in deliveries:
            delivery.settle()
        return deliveries

    def accept_all(self, sender, messages):
        outcomes = self.outcomes(sender, messages)
        equal(set(outcomes), {ACCEPTED}, "outcomes")

    def take(self, receiver, number=1):
        """The next messages of a receiver, which must have the credit."""
        inbox = self.inbox[receiver.name]
        self.wait(lambda: len(inbox) >= number or ended(receiver), f"{number} deliveries ({len(inbox)} came)")
        check(not ended(receiver), f"the link ended: {why(receiver)}")
        taken, inbox[:] = inbox[:number], inbox[number:]
        return taken

    def drain(self, receiver, credit=0):
        """Drains; what came until the credit was used up."""
        receiver.drain(credit)
        self.wait(lambda: receiver.credit == 0 or not receiver.draining(), "the end of a drain")
        inbox = self.inbox[receiver.name]
        taken, inbox[:] = inbox[:], []
        return taken

    def get(self, source):
        """Takes and accepts one message over a link of its own."""
        receiver = self.receiver(source)
        receiver.flow(1)
        received = self.take(receiver)[0]
        received.settle(ACCEPTED)
        self.detach(receiver)
        return received

    def send_unsettled(self, sender, message):
        """Sends one message and waits for its state."""
        self.wait(lambda: sender.credit > 0, "credit to send")
        delivery = self.transfer(sender, message)
        self.wait(lambda: delivery.remote_state != 0 or delivery.settled, "a state")
        return delivery

    def nothing_comes_with(self, receiver, credit, what):
        equal(bodies_of(self.drain(receiver, credit)), [], what)

    def nothing_comes(self, receiver, what):
        equal([received.message.body for received in self.drain(receiver)], [], what)

    def detach(self, link):
        link.close()
        self.wait(lambda: ended(link), "detach")

    def end(self, session):
        session.close()
        self.wait(lambda: ended(session), "end")

    def close(self):
        self.raw.close()
        wait(lambda: self.gone, "close")

    def refused(self, link, condition, words=""):
        """The link, or its session, has ended with this condition."""
        self.wait(lambda: ended(link) or ended(link.session), f"{condition} expected")
        is_condition(why(link), condition, words)


def why(link):
    return link.remote_condition or link.session.remote_condition or link.connection.remote_condition


def is_condition(received, condition, words=""):
    check(received is not None, f"{condition} expected, ended without an error")
    check(received.name == condition, f"{received.name} ({received.description}), expected {condition}")
    check(words in (received.description or ""), f"{received.description!r} doesn't have {words!r}")


def ended(endpoint):
    if isinstance(endpoint, Link) and ended(endpoint.session):
        return True
    return bool(endpoint.state & Endpoint.REMOTE_CLOSED)


class Received:
    """A delivery with its bytes."""

    def __init__(self, delivery, data):
        self.delivery, self.data = delivery, data
        self.message = Message()
        self.message.decode(data)

    def settle(self, state):
        self.delivery.update(state)
        self.delivery.settle()

    def modify(self, failed=False, undeliverable=False):
        self.delivery.local.failed = failed
        self.delivery.local.undeliverable = undeliverable
        self.settle(MODIFIED)


def text(body, durable=True, **fields):
    """A message with one data section."""
    return Message(body=body.encode(), inferred=True, durable=durable, **fields)


def bodies_of(received):
    return [bytes(one.message.body).decode() for one in received]


def texts(first, last):
    return [str(number) for number in range(first, last)]


def lifetime_delete_on_close():
    from proton import Described
    return {symbol("lifetime-policy"): Described(ulong(0x2b), [])}
