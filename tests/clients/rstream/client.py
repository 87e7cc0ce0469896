"""rstream. See tests/src/cell.rs for the lines it speaks."""

import asyncio
import os
import ssl
import sys
from urllib.parse import urlsplit

from rstream import (
    AMQPMessage,
    CompressionType,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetSpecification,
    OffsetType,
    Producer,
    RouteType,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
)
from rstream.exceptions import AuthenticationFailure, OffsetNotFound, StreamDoesNotExist

uri, http_uri, control, scenario = sys.argv[1:5]
authority = os.environ.get("LEVERET_TEST_CA")
tls = {"ssl_context": ssl.create_default_context(cafile=authority)} if authority else {}
address = urlsplit(uri)
prefix = f"cell.{scenario}.{os.getpid()}"
PATIENCE = 30


class Failure(Exception):
    """A scenario that saw something else than it should."""


def equal(received, expected, what):
    if received != expected:
        raise Failure(f"{what}: {received!r}, expected {expected!r}")


async def ask(line):
    print(line, flush=True)
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def options(**changed):
    return {"host": address.hostname, "port": address.port, "username": "guest", "password": "guest", **tls, **changed}


def bodies(begin, end):
    return [b"m%d" % n for n in range(begin, end)]


async def send(producer, stream, messages, name=None, first=None):
    """Sends in one frame, and waits for the confirm of each."""
    confirmed, done = [], asyncio.Event()

    async def confirm(status):
        confirmed.append(status.is_confirmed)
        if len(confirmed) == len(messages):
            done.set()

    batch = [AMQPMessage(body=body) for body in messages]
    for number, message in enumerate(batch if first is not None else []):
        message.publishing_id = first + number
    await producer.send_batch(stream, batch, publisher_name=name, on_publish_confirm=confirm)
    await asyncio.wait_for(done.wait(), PATIENCE)
    equal(all(confirmed), True, "confirms")


class Reader:
    """A consumer whose messages are in a queue."""

    def __init__(self, stream, start=OffsetType.FIRST, value=None, **subscription):
        self.stream, self.start, self.subscription = stream, ConsumerOffsetSpecification(start, value), subscription
        self.seen, self.consumer = asyncio.Queue(), Consumer(**options())
        self.times = {}

    async def __aenter__(self):
        await self.consumer.start()

        async def take(message, context):
            self.times[context.offset] = context.timestamp
            await self.seen.put(bytes(message.body))

        await self.consumer.subscribe(
            stream=self.stream, callback=take, decoder=amqp_decoder, offset_specification=self.start, **self.subscription
        )
        self.running = asyncio.create_task(self.consumer.run())
        return self

    async def __aexit__(self, *_):
        self.running.cancel()
        try:
            await asyncio.wait_for(self.consumer.close(), PATIENCE)
        except Exception:  # its broker may have been killed
            pass

    async def take(self, count):
        return [await asyncio.wait_for(self.seen.get(), PATIENCE) for _ in range(count)]


async def publish():
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        await send(producer, prefix, bodies(0, 1000))
        async with Reader(prefix) as reader:
            equal(await reader.take(1000), bodies(0, 1000), "bodies")
        await producer.delete_stream(prefix)


async def offsets():
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        await send(producer, prefix, bodies(0, 10))
        await send(producer, prefix, bodies(10, 20))
        async with Reader(prefix) as reader:
            await reader.take(20)
        begin = reader.times[10]
        first = min(offset for offset, time in reader.times.items() if time >= begin)
        async with Reader(prefix, OffsetType.NEXT) as following:
            for start, value, begin in [
                (OffsetType.FIRST, None, 0),
                (OffsetType.OFFSET, 7, 7),
                (OffsetType.TIMESTAMP, begin, first),
            ]:
                async with Reader(prefix, start, value) as reader:
                    equal(await reader.take(20 - begin), bodies(begin, 20), str(start))
            async with Reader(prefix, OffsetType.LAST) as reader:
                # Where the last chunk begins depends on the pieces in which the messages came.
                equal((await reader.take(1))[0] in bodies(10, 20), True, "last")
            await send(producer, prefix, [b"after"])
            equal(await following.take(1), [b"after"], "next")
        await producer.delete_stream(prefix)


async def stored_offset():
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        await send(producer, prefix, bodies(0, 20))
        async with Reader(prefix, subscriber_name="app") as reader:
            await reader.take(20)
            try:
                await reader.consumer.query_offset(prefix, "app")
                raise Failure("an offset that wasn't stored")
            except OffsetNotFound:
                pass
            await reader.consumer.store_offset(prefix, "app", 11)
        async with Reader(prefix, OffsetType.NEXT) as reader:
            stored = await reader.consumer.query_offset(prefix, "app")
        equal(stored, 11, "stored")
        async with Reader(prefix, OffsetType.OFFSET, stored + 1) as reader:
            equal(await reader.take(8), bodies(12, 20), "after the stored offset")
        await producer.delete_stream(prefix)


async def deduplication():
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        await send(producer, prefix, bodies(0, 50), name="name", first=1)
    async with Producer(**options()) as producer:
        await send(producer, prefix, bodies(0, 100), name="name", first=1)
        await send(producer, prefix, [b"end"], name="name", first=101)
        async with Reader(prefix) as reader:
            equal(await reader.take(101), bodies(0, 100) + [b"end"], "bodies")
        await producer.delete_stream(prefix)


async def filters():
    async def value(message):
        return bytes(message.body)[:2].decode()

    async with Producer(**options(filter_value_extractor=value)) as producer:
        await producer.create_stream(prefix)
        for area in [b"eu", b"us", b"eu", b"as", b"us"]:
            await send(producer, prefix, [area + b"1", area + b"2"])
        wanted = FilterConfiguration(values_to_filter=["us"], predicate=lambda message: bytes(message.body)[:2] == b"us")
        async with Reader(prefix, filter_input=wanted) as reader:
            equal(await reader.take(4), [b"us1", b"us2", b"us1", b"us2"], "bodies")
        await producer.delete_stream(prefix)


async def sub_batches():
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        for begin, compression in [(0, CompressionType.Gzip), (100, CompressionType.No)]:
            messages = [AMQPMessage(body=body) for body in bodies(begin, begin + 100)]
            done = asyncio.Event()

            async def confirm(status):
                done.set()

            await producer.send_sub_entry(
                prefix, messages, compression_type=compression, on_publish_confirm=confirm
            )
            await asyncio.wait_for(done.wait(), PATIENCE)
        async with Reader(prefix) as reader:
            equal(await reader.take(200), bodies(0, 200), "bodies")
        await producer.delete_stream(prefix)


async def super_stream():
    async def key(message):
        return bytes(message.body).decode()

    confirmed, done = [], asyncio.Event()

    async def confirm(status):
        confirmed.append(status.is_confirmed)
        if len(confirmed) == 100:
            done.set()

    creation = SuperStreamCreationOption(n_partitions=3)
    seen, partitions = asyncio.Queue(), set()
    producer = SuperStreamProducer(
        **options(super_stream=prefix, super_stream_creation_option=creation, routing=RouteType.Hash, routing_extractor=key)
    )
    async with producer:
        for body in bodies(0, 100):
            await producer.send(AMQPMessage(body=body), on_publish_confirm=confirm)
        await asyncio.wait_for(done.wait(), PATIENCE)
        equal(all(confirmed), True, "confirms")
        consumer = SuperStreamConsumer(**options(super_stream=prefix))
        await consumer.start()

        async def take(message, context):
            partitions.add(context.stream)
            await seen.put(bytes(message.body))

        await consumer.subscribe(callback=take, decoder=amqp_decoder)
        running = asyncio.create_task(consumer.run())
        found = [await asyncio.wait_for(seen.get(), PATIENCE) for _ in range(100)]
        equal(sorted(found), sorted(bodies(0, 100)), "bodies")
        equal(partitions, {f"{prefix}-{n}" for n in range(3)}, "partitions")
        running.cancel()
        await consumer.close()


async def single_active():
    member = {"properties": {"single-active-consumer": "true", "name": "group"}, "subscriber_name": "group"}

    async def begin(active, context):
        return OffsetSpecification(OffsetType.FIRST, 0)

    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        async with Reader(prefix, consumer_update_listener=begin, **member) as first:
            async with Reader(prefix, consumer_update_listener=begin, **member) as second:
                await send(producer, prefix, bodies(0, 10))
                equal(await first.take(10), bodies(0, 10), "the first one's")
                equal(second.seen.empty(), True, "the second one gets nothing")
                await first.__aexit__()
                equal(await second.take(10), bodies(0, 10), "the second one's")
        await producer.delete_stream(prefix)


async def wrong_password():
    producer = Producer(**options(password="wrong"))
    try:
        await producer.start()
    except AuthenticationFailure:
        return
    raise Failure("a login with a wrong password")


async def unknown_stream():
    async with Producer(**options()) as producer:
        try:
            await producer.delete_stream("none")
            raise Failure("a stream that doesn't exist was deleted")
        except StreamDoesNotExist:
            pass
    try:
        async with Reader("none"):
            raise Failure("a stream that doesn't exist was read")
    except StreamDoesNotExist:
        pass


async def deleted():
    gone = asyncio.Queue()

    async def closed(error):
        await gone.put(error)

    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        reader = Reader(prefix)
        reader.consumer = Consumer(**options(on_close_handler=closed))
        async with reader:
            await producer.delete_stream(prefix)
            error = await asyncio.wait_for(gone.get(), PATIENCE)
            equal(prefix in [str(stream) for stream in error.streams], True, f"streams of {error.reason}")


async def reconnect():
    await go_on("ready kill")


async def restart():
    await go_on("ready restart")


async def go_on(what_happens):
    async with Producer(**options()) as producer:
        await producer.create_stream(prefix)
        await send(producer, prefix, bodies(0, 100), name="name", first=1)
        async with Reader(prefix) as reader:
            equal(await reader.take(100), bodies(0, 100), "before")
            equal(await ask(what_happens), "go", "the harness")
    async with Producer(**options()) as producer:
        # It isn't known what was confirmed: all is sent again.
        await send(producer, prefix, bodies(0, 200), name="name", first=1)
        async with Reader(prefix) as reader:
            equal(await reader.take(200), bodies(0, 200), "after")
        await producer.delete_stream(prefix)


SCENARIOS = {
    one.__name__: one
    for one in [
        publish, offsets, stored_offset, deduplication, filters, sub_batches, super_stream, single_active, wrong_password,
        unknown_stream, deleted, reconnect, restart,
    ]
}
try:
    asyncio.run(asyncio.wait_for(SCENARIOS[scenario](), 80))
    print(f"ok {scenario}", flush=True)
except BaseException as error:  # the harness wants every reason
    print(f"fail {scenario}: {type(error).__name__} {error}".replace("\n", " "), flush=True)
    sys.stdout.flush()
    os._exit(1)
os._exit(0)
