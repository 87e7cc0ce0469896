"""Connections and what is declared over /management."""

from session import *


def login():
    connect().close()
    fails("uthentication", lambda: connect(uri.replace("guest:guest", "guest:wrong")))


def management():
    connection = connect()
    manage = connection.management()
    name, exchange, key = f"{prefix}.q", f"{prefix}.x", "k"
    for _ in range(2):
        manage.declare_queue(ClassicQueueSpecification(name=name))
    info = manage.queue_info(name)
    equal((info.name, info.is_durable, info.queue_type.value, info.message_count, info.consumer_count),
          (name, True, "classic", 0, 0), "queue info")
    manage.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.direct))
    path = manage.bind(ExchangeToQueueBindingSpecification(
        source_exchange=exchange, destination_queue=name, binding_key=key))
    publisher = connection.publisher(AddressHelper.exchange_address(exchange, key))
    accepted(publisher, text("x"))
    equal(manage.purge_queue(name), 1, "purge")
    manage.unbind(path)
    manage.unbind(path)
    fails("RELEASED", lambda: publisher.publish(text("x")))
    publisher.close()
    manage.delete_exchange(exchange)
    manage.delete_queue(name)
    fails("404", lambda: manage.queue_info(name))


def management_errors():
    manage = connect().management()
    name, _ = queue()
    exchange, missing = f"{prefix}.x", f"{prefix}.missing"
    manage.declare_exchange(ExchangeSpecification(name=exchange, exchange_type=ExchangeType.direct))
    fails("ErrPreconditionFailed", lambda: manage.declare_queue(ClassicQueueSpecification(name=name, max_len=5)))
    fails("ErrPreconditionFailed", lambda: manage.declare_exchange(
        ExchangeSpecification(name=exchange, exchange_type=ExchangeType.fanout)))
    fails("404", lambda: manage.queue_info(missing))
    fails("404", lambda: manage.purge_queue(missing))
    fails("403", lambda: manage.declare_queue(ClassicQueueSpecification(name="amq.mine")))
    equal(manage.queue_info(name).name, name, "after the refusals")
