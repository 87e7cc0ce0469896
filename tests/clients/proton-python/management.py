"""Queues, exchanges and bindings over a link pair."""

from urllib.parse import quote

from session import *
from session import queue as declared


def paired(link):
    link.source.address = link.target.address = "/management"
    link.snd_settle_mode = Link.SND_SETTLED
    link.properties = {symbol("paired"): True}


class Management:
    def __init__(self, connection):
        self.connection, self.number = connection, 0
        self.requests = connection.sender("/management", name="pair", prepare=paired)
        self.answers = connection.receiver("/management", name="pair", prepare=paired)

    def call(self, method, path, body=None):
        """The status and body of the answer."""
        self.number += 1
        self.answers.flow(1)
        self.connection.wait(lambda: self.requests.credit > 0, "credit for a request")
        request = Message(id=f"r{self.number}", address=path, subject=method, reply_to="$me", body=body, inferred=False)
        # RabbitMQ wants a body; the library leaves None out.
        data = request.encode() if body is not None else request.encode() + b"\x00\x53\x77\x40"
        self.connection.transfer(self.requests, data).settle()
        message = self.connection.take(self.answers)[0].message
        equal(message.correlation_id, f"r{self.number}", "correlation-id")
        equal(message.properties.get("http:response"), "1.1", "http:response")
        return int(message.subject), message.body


def queue_of(durable=True, exclusive=False, auto_delete=False, **arguments):
    return {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete,
            "arguments": {key.replace("_", "-"): value for key, value in arguments.items()}}


def exchange_of(kind):
    return {"type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


def management():
    connection = Connection()
    manage = Management(connection).call
    queue, exchange = f"{prefix}.q ü/", f"{prefix}.x ü/"
    queue_path, exchange_path = f"/queues/{quote(queue, safe='')}", f"/exchanges/{quote(exchange, safe='')}"
    equal(manage("PUT", queue_path, queue_of())[0], 201, "PUT of a new queue")
    status, info = manage("PUT", queue_path, queue_of())
    equal(status, 200, "PUT of the same queue")
    status, info = manage("GET", queue_path)
    equal((status, info["name"], info["durable"], info["type"], info["message_count"], info["consumer_count"]),
          (200, queue, True, "classic", 0, 0), "GET of a queue")
    equal(manage("PUT", exchange_path, exchange_of("direct"))[0], 204, "PUT of an exchange")
    binding = {"source": exchange, "destination_queue": queue, "binding_key": "k ü", "arguments": {}}
    equal(manage("POST", "/bindings", binding)[0], 204, "POST of a binding")
    query = f"?src={quote(exchange, safe='')}&dstq={quote(queue, safe='')}&key={quote('k ü', safe='')}"
    status, found = manage("GET", f"/bindings{query}")
    equal((status, len(found)), (200, 1), "GET of bindings")
    equal((found[0]["source"], found[0]["destination_queue"], found[0]["binding_key"]), (exchange, queue, "k ü"),
          "the binding")
    sender = connection.sender(f"{exchange_path}/{quote('k ü')}")
    equal(connection.send(sender, text("x")), ACCEPTED, "outcome of a bound key")
    status, purged = manage("DELETE", f"{queue_path}/messages")
    equal((status, purged["message_count"]), (200, 1), "purge")
    for _ in range(2):
        equal(manage("DELETE", found[0]["location"])[0], 204, "DELETE of a binding")
    equal(connection.send(sender, text("x")), RELEASED, "outcome of an unbound key")
    equal(manage("GET", f"/bindings{query}"), (200, []), "GET of no bindings")
    connection.detach(sender)
    equal(manage("DELETE", exchange_path)[0], 204, "DELETE of an exchange")
    status, deleted = manage("DELETE", queue_path)
    equal((status, deleted["message_count"]), (200, 0), "DELETE of a queue")
    equal(manage("GET", queue_path)[0], 404, "GET of what is gone")


def management_errors():
    connection = Connection()
    manage = Management(connection).call
    name, path = declared()
    exchange = f"{prefix}.x"
    equal(manage("PUT", f"/exchanges/{exchange}", exchange_of("direct"))[0], 204, "PUT of an exchange")

    def fails(status, words, *request):
        got, text = manage(*request)
        equal(got, status, f"{request}: {text}")
        check(words in (text or ""), f"{request}: {text!r} doesn't have {words!r}")

    fails(409, "durable", "PUT", path, queue_of(durable=False))
    fails(409, "x-max-length", "PUT", path, queue_of(x_max_length=5))
    fails(409, "type", "PUT", f"/exchanges/{exchange}", exchange_of("fanout"))
    missing = f"{prefix}.missing"
    fails(404, missing, "GET", f"/queues/{missing}")
    fails(404, missing, "DELETE", f"/queues/{missing}/messages")
    fails(409, "x-max-length", "PUT", f"/queues/{missing}", queue_of(x_max_length=-1))
    fails(403, "amq.", "PUT", "/queues/amq.mine", queue_of())
    fails(403, "", "DELETE", "/exchanges/amq.default")
    session = connection.begin()
    connection.refused(connection.sender("/management", session, check_open=False), "amqp:invalid-field")
    equal(manage("GET", path)[0], 200, "GET after the refusals")
