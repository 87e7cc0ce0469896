"""aio-pika. See tests/src/cell.rs for the lines it speaks."""

import asyncio
import os
import ssl
import sys
import time

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


SCENARIOS = {"tasks": tasks, "retry": retry, "later": later, "control": control_, "recover": recover}
try:
    asyncio.run(asyncio.wait_for(SCENARIOS[scenario](), 80))
    print(f"ok {scenario}", flush=True)
except Exception as error:  # the harness wants every reason
    print(f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.exit(1)
