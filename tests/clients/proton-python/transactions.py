"""Local transactions."""

from session import *
from proton import Described

TRANSACTIONAL = 0x34


def coordinator(link):
    link.target.type = Terminus.COORDINATOR
    link.target.capabilities.put_object(symbol("amqp:local-transactions"))


class Transaction:
    def __init__(self, connection, control):
        self.connection, self.control = connection, control
        delivery = connection.send_unsettled(control, Message(body=Described(symbol("amqp:declare:list"), [None])))
        self.id = delivery.remote.data[0]
        delivery.settle()

    def send(self, sender, body):
        delivery = sender.send(text(body))
        delivery.local.data = [self.id]
        delivery.update(TRANSACTIONAL)
        return delivery

    def accept(self, received):
        received.delivery.local.data = [self.id, Described(ulong(ACCEPTED), [])]
        received.delivery.update(TRANSACTIONAL)

    def discharge(self, failed):
        body = Described(symbol("amqp:discharge:list"), [self.id, failed])
        equal(self.connection.send(self.control, Message(body=body)), ACCEPTED, "the outcome of a discharge")


def transactions():
    name, address = queue()
    connection = Connection()
    control = connection.sender(None, prepare=coordinator)
    sender = connection.sender(address)
    for failed in (True, False):
        transaction = Transaction(connection, control)
        for body in ("1", "2"):
            delivery = transaction.send(sender, body)
            connection.wait(lambda: delivery.remote_state != 0, "a transactional outcome")
            equal(delivery.remote_state, TRANSACTIONAL, "state")
            delivery.settle()
        receiver = connection.receiver(address)
        connection.nothing_comes_with(receiver, 5, "before the discharge")
        connection.detach(receiver)
        transaction.discharge(failed)
        equal(count(name), 0 if failed else 2, "messages after the discharge")
    for failed in (True, False):
        receiver = connection.receiver(address)
        receiver.flow(1)
        received = connection.take(receiver)[0]
        equal(bodies_of([received]), ["1"], "the first message")
        transaction = Transaction(connection, control)
        transaction.accept(received)
        transaction.discharge(failed)
        connection.detach(receiver)
        equal(count(name), 2 if failed else 1, "messages after the discharge of an acceptance")
    equal(bodies_of([connection.get(address)]), ["2"], "what is left")
