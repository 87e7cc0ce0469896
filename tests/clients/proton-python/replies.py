"""Dynamic nodes and what they are for; browsing."""

from session import *
from proton import Array, Data, UNDESCRIBED


def symbols(name):
    """An array: RabbitMQ doesn't take the single symbol that the specification allows as well."""
    return Array(UNDESCRIBED, Data.SYMBOL, symbol(name))


def temporary_queue(link):
    link.source.dynamic = True
    link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
    link.source.capabilities.put_object(symbols("temporary-queue"))
    link.source.properties.put_dict(lifetime_delete_on_close())


def volatile_queue(link):
    link.snd_settle_mode = Link.SND_SETTLED
    link.source.dynamic = True
    link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
    link.source.capabilities.put_object(symbols("rabbitmq:volatile-queue"))


def dynamic_node():
    connection, other = Connection(), Connection()
    receiver = connection.receiver(None, prepare=temporary_queue)
    address = receiver.remote_source.address
    check(address.startswith("/queues/"), f"address {address}")
    receiver.flow(1)
    other.accept_all(other.sender(address), [text("hello")])
    equal(bodies_of(connection.take(receiver)), ["hello"], "the message")
    link = other.receiver(address, check_open=False)
    other.refused(link, "amqp:resource-locked")
    connection.detach(receiver)
    again = Connection()
    again.refused(again.receiver(address, check_open=False), "amqp:not-found")


def exchange_requests(prepare, settles):
    _, requests = queue("requests")
    client, server = Connection(), Connection()
    answers = client.receiver(None, prepare=prepare)
    answers.flow(3)
    asking = client.sender(requests)
    asked, answering = server.receiver(requests), server.sender(None)
    asked.flow(3)
    for number in range(3):
        client.accept_all(asking, [text(f"question {number}", id=f"m{number}",
                                        reply_to=answers.remote_source.address)])
        question = server.take(asked)[0]
        message = question.message
        answer = text(f"answer {number}", durable=False, address=message.reply_to, correlation_id=message.id)
        server.accept_all(answering, [answer])
        question.settle(ACCEPTED)
        received = client.take(answers)[0]
        equal((bodies_of([received]), received.message.correlation_id), ([f"answer {number}"], f"m{number}"), "the answer")
        equal(received.delivery.settled, settles, "settled")
        if not settles:
            received.settle(ACCEPTED)


def request_reply():
    exchange_requests(temporary_queue, settles=False)


def direct_reply_to():
    exchange_requests(volatile_queue, settles=True)


def browse():
    name, address = queue()
    connection = Connection()
    connection.accept_all(connection.sender(address), [text(body) for body in texts(0, 5)])

    def copying(link):
        link.source.distribution_mode = Terminus.DIST_MODE_COPY

    for _ in range(2):
        browser = connection.receiver(address, prepare=copying)
        equal(browser.remote_source.distribution_mode, Terminus.DIST_MODE_COPY, "distribution mode")
        taken = connection.drain(browser, 10)
        equal(bodies_of(taken), texts(0, 5), "browsed")
        for received in taken:
            received.settle(ACCEPTED)
        connection.detach(browser)
    equal(count(name), 5, "messages after browsing")
    receiver = connection.receiver(address)
    receiver.flow(5)
    taken = connection.take(receiver, 5)
    equal(bodies_of(taken), texts(0, 5), "consumed")
    equal({(one.message.delivery_count, one.message.first_acquirer) for one in taken}, {(0, True)}, "counts")
