"""aio-pika. See tests/src/cell.rs for the lines it speaks."""

import asyncio
import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request

import aio_pika
from aio_pika.patterns import RPC

uri, http_uri, control, scenario = sys.argv[1:5]
authority = os.environ.get("LEVERET_TEST_CA")
tls = {"ssl_context": ssl.create_default_context(cafile=authority)} if authority else {}
prefix = f"cell.{scenario}.{os.getpid()}"
PATIENCE = 60


class Failure(Exception):
    """A scenario that saw something else than it should."""


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


async def ask(line):
    print(line, flush=True)
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def http(method, path):
    base, _, rest = http_uri.partition("://")
    request = urllib.request.Request(f"{base}://{rest.rsplit('@', 1)[-1]}{path}", method=method)
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")  # guest:guest
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer) if method == "GET" else None


def close_connection(name):
    """As an operator; the list of connections may lag behind."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for each in http("GET", "/api/connections"):
            if each.get("client_properties", {}).get("connection_name") == name:
                return http("DELETE", f"/api/connections/{urllib.parse.quote(each['name'], safe='')}")
        time.sleep(0.1)
    raise Failure(f"no connection {name}")


def message(body, **options):
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **options)


async def tasks():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        exchange = await channel.declare_exchange(f"{prefix}.x", aio_pika.ExchangeType.TOPIC, auto_delete=True)
        queue = await channel.declare_queue(f"{prefix}.q", durable=True)
        await queue.bind(exchange, "task.#")
        await asyncio.gather(*(exchange.publish(message(b"%d" % n), f"task.{n}") for n in range(100)))
        seen = []
        async with queue.iterator() as incoming:
            async for each in incoming:
                async with each.process():
                    seen.append(int(each.body))
                if len(seen) == 100:
                    break
        equal(seen, list(range(100)), "bodies")
        await queue.delete()


async def retry():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(f"{prefix}.q", durable=True)
        await channel.default_exchange.publish(message(b"again"), queue.name)
        first = await queue.get(timeout=PATIENCE)
        equal(first.redelivered, False, "redelivered at first")
        await first.reject(requeue=True)
        second = await queue.get(timeout=PATIENCE)
        equal((second.body, second.redelivered), (b"again", True), "the second time")
        await second.ack()
        equal(await queue.get(fail=False), None, "what is left")
        await queue.delete()


async def later():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        target = await channel.declare_queue(f"{prefix}.target", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target.name}
        waiting = await channel.declare_queue(f"{prefix}.waiting", durable=True, arguments=arguments)
        sent = time.monotonic()
        await channel.default_exchange.publish(message(b"later", expiration=1), waiting.name)
        async with target.iterator(timeout=PATIENCE) as incoming:
            each = await anext(incoming)
            await each.ack()
        if time.monotonic() - sent < 0.9:
            raise Failure("came before its time")
        equal(each.headers["x-death"][0]["reason"], "expired", "why it died")
        await waiting.delete()
        await target.delete()


async def in_order_of_priority(**arguments):
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(f"{prefix}.q", durable=True, arguments=arguments)
        for priority in (1, 1, 9, 5, 9, 1):
            await channel.default_exchange.publish(message(b"%d" % priority, priority=priority), queue.name)
        seen = [await queue.get(timeout=PATIENCE, no_ack=True) for _ in range(6)]
        equal([each.priority for each in seen], [9, 9, 5, 1, 1, 1], "order")
        await queue.delete(if_unused=False, if_empty=False)


async def priorities():
    await in_order_of_priority(**{"x-max-priority": 10})


async def priorities_of_quorum_queues():
    await in_order_of_priority(**{"x-queue-type": "quorum"})


async def quorum():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        parked = await channel.declare_queue(f"{prefix}.parked", durable=True, arguments={"x-queue-type": "quorum"})
        arguments = {
            "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": parked.name, "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
        queue = await channel.declare_queue(f"{prefix}.q", durable=True, arguments=arguments)
        await channel.default_exchange.publish(message(b"poison"), queue.name)
        counts = []
        async with queue.iterator(timeout=PATIENCE) as incoming:
            async for each in incoming:
                counts.append(each.headers.get("x-delivery-count"))
                await each.reject(requeue=True)
                if len(counts) == 3:
                    break
        equal(counts, [None, 1, 2], "counts of deliveries")
        async with parked.iterator(timeout=PATIENCE) as incoming:
            dead = await anext(incoming)
            await dead.ack()
        equal(dead.headers["x-death"][0]["reason"], "delivery_limit", "why it died")
        for each in (queue, parked):
            await each.delete(if_unused=False, if_empty=False)


async def delayed_exchange():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(
            f"{prefix}.x", aio_pika.ExchangeType.X_DELAYED_MESSAGE, durable=True, arguments={"x-delayed-type": "direct"})
        queue = await channel.declare_queue(f"{prefix}.q", durable=True)
        await queue.bind(exchange, "k")
        sent = time.monotonic()
        for delay in (600, 300, 0):
            await exchange.publish(message(b"%d" % delay, headers={"x-delay": delay}), "k", mandatory=False)
        async with queue.iterator(timeout=PATIENCE) as incoming:
            for delay in (0, 300, 600):
                each = await anext(incoming)
                await each.ack()
                equal(int(each.body), delay, "order")
                if time.monotonic() - sent < delay / 1000:
                    raise Failure("came before its time")
        await queue.delete()
        await exchange.delete()


async def topology():
    name = {"connection_name": prefix}
    connection = await aio_pika.connect_robust(uri, reconnect_interval=0.2, client_properties=name, **tls)
    again = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: again.set())
    async with connection, await aio_pika.connect(uri, **tls) as other:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(f"{prefix}.x", aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(f"{prefix}.q", durable=True)
        await queue.bind(exchange, "task.#")
        seen = asyncio.Queue()

        async def take(each):
            async with each.process():
                await seen.put(each.body)

        await queue.consume(take)
        for body in (b"before", b"after"):
            await exchange.publish(message(body), "task.one")
            equal(await asyncio.wait_for(seen.get(), PATIENCE), body, "body")
            if body == b"before":
                admin = await other.channel()
                await admin.queue_delete(queue.name)
                await admin.exchange_delete(exchange.name)
                await asyncio.to_thread(close_connection, prefix)
                await asyncio.wait_for(again.wait(), PATIENCE)
        await queue.delete(if_unused=False, if_empty=False)
        await exchange.delete()


async def control_():
    async with await aio_pika.connect(uri, **tls) as connection:
        channel = await connection.channel()
        rpc = await RPC.create(channel)

        async def multiply(*, x, y):
            return x * y

        await rpc.register(f"{prefix}.multiply", multiply, auto_delete=True)
        for n in range(10):
            equal(await rpc.call(f"{prefix}.multiply", kwargs={"x": n, "y": 2}), n * 2, "an answer")


async def recover():
    connection = await aio_pika.connect_robust(uri, reconnect_interval=0.2, **tls)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(f"{prefix}.q", durable=True)
        seen = asyncio.Queue()

        async def take(each):
            async with each.process():
                await seen.put(each.body)

        await queue.consume(take)
        await channel.default_exchange.publish(message(b"before"), queue.name)
        equal(await asyncio.wait_for(seen.get(), PATIENCE), b"before", "before")
        again = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: again.set())
        equal(await ask("ready kill"), "go", "the harness")
        await asyncio.wait_for(again.wait(), PATIENCE)
        await channel.default_exchange.publish(message(b"after"), queue.name)
        while await asyncio.wait_for(seen.get(), PATIENCE) != b"after":
            pass
        await queue.delete(if_unused=False, if_empty=False)


SCENARIOS = {
    "tasks": tasks, "retry": retry, "later": later, "priorities": priorities,
    "priorities_of_quorum_queues": priorities_of_quorum_queues, "quorum": quorum, "delayed_exchange": delayed_exchange,
    "topology": topology, "control": control_, "recover": recover,
}
try:
    asyncio.run(asyncio.wait_for(SCENARIOS[scenario](), 80))
    print(f"ok {scenario}", flush=True)
except Exception as error:  # the harness wants every reason
    print(f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.exit(1)
