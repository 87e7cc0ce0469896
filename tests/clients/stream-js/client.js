// The stream client for JavaScript. See tests/src/cell.rs for the lines it speaks.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const readline = require('node:readline');
const { connect, Offset } = require('rabbitmq-stream-js-client');
const { CompressionType } = require('rabbitmq-stream-js-client/dist/compression');

const [uri, , , scenario] = process.argv.slice(2);
const address = new URL(uri);
const stream = `cell.${scenario}.${process.pid}`;
const authority = process.env.LEVERET_TEST_CA;
const replies = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const PATIENCE_MS = 20000;

async function ask(line, answer) {
  console.log(line);
  assert.equal((await replies.next()).value, answer, 'control');
}

function open(changed = {}) {
  return connect({
    hostname: address.hostname,
    port: Number(address.port),
    username: 'guest',
    password: 'guest',
    vhost: '/',
    // It names no server in its handshake, so that it is told an address in place of a name, and has to be told to keep to the name.
    ...(authority
      ? {
          ssl: { ca: fs.readFileSync(authority, 'utf8') },
          addressResolver: { enabled: true, endpoint: { host: 'localhost', port: Number(address.port) } },
        }
      : {}),
    ...changed,
  });
}

function numbered(begin, end) {
  return Array.from({ length: end - begin }, (_, at) => `m${begin + at}`);
}

async function within(promise, what, patience = PATIENCE_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} never came`)), patience);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What comes is waited for by number. */
class Mailbox {
  items = [];
  wake = () => {};

  put(item) {
    this.items.push(item);
    this.wake();
  }

  async take(count) {
    await within((async () => {
      while (this.items.length < count) {
        await new Promise((resolve) => (this.wake = resolve));
      }
    })(), `${count} messages after ${this.items.length}`);
    return this.items.splice(0, count);
  }
}

/** Publishes, and waits for the confirm of each. */
async function send(client, bodies, { publisherRef, first, filter } = {}) {
  const publisher = await client.declarePublisher({ stream, publisherRef }, filter);
  const confirmed = new Mailbox();
  publisher.on('publish_confirm', (error, ids) => ids.forEach((id) => confirmed.put([error, id])));
  for (const [at, body] of bodies.entries()) {
    const content = Buffer.from(body);
    await (first === undefined ? publisher.send(content) : publisher.basicSend(BigInt(first + at), content));
  }
  await publisher.flush();
  for (const [error] of await confirmed.take(bodies.length)) {
    assert.equal(error, null, 'a confirm');
  }
  await publisher.close();
}

async function read(client, offset = Offset.first(), options = {}) {
  const seen = new Mailbox();
  const consumer = await client.declareConsumer({ stream, offset, ...options }, (message) => {
    seen.put({ body: message.content.toString(), offset: message.offset });
  });
  const take = async (count) => (await seen.take(count)).map((message) => message.body);
  return { consumer, seen, take };
}

async function onStream(act) {
  const client = await open();
  await client.createStream({ stream, arguments: {} });
  await act(client);
  await client.close();
  // A client that closes a consumer whose stream goes meanwhile waits for ever.
  const last = await open();
  await last.deleteStream({ stream });
  await last.close();
}

async function refused(promise, words) {
  await assert.rejects(promise, (error) => {
    assert.ok(error.message.includes(words), `'${error.message}' doesn't have '${words}'`);
    return true;
  });
}

const scenarios = {
  publish: () => onStream(async (client) => {
    await send(client, numbered(0, 1000));
    const reader = await read(client);
    assert.deepEqual(await reader.take(1000), numbered(0, 1000));
  }),

  offsets: () => onStream(async (client) => {
    await send(client, numbered(0, 10));
    const between = new Date();
    await new Promise((resolve) => setTimeout(resolve, 5));
    await send(client, numbered(10, 20));
    const following = await read(client, Offset.next());
    for (const [offset, begin] of [[Offset.first(), 0], [Offset.offset(7n), 7]]) {
      const reader = await read(client, offset);
      assert.deepEqual(await reader.take(20 - begin), numbered(begin, 20), offset.type);
    }
    // A time and the last chunk begin with a whole chunk.
    for (const offset of [Offset.timestamp(between), Offset.last()]) {
      const [body] = await (await read(client, offset)).take(1);
      assert.ok(numbered(10, 20).includes(body), `${offset.type}: ${body}`);
    }
    await send(client, ['after']);
    assert.deepEqual(await following.take(1), ['after']);
  }),

  stored_offset: () => onStream(async (client) => {
    await send(client, numbered(0, 20));
    const reader = await read(client, Offset.first(), { consumerRef: 'app' });
    await reader.take(20);
    await refused(reader.consumer.queryOffset(), 'error with code 19');
    await reader.consumer.storeOffset(11n);
    const other = await open();
    const stored = await other.queryOffset({ reference: 'app', stream });
    assert.equal(stored, 11n);
    assert.deepEqual(await (await read(other, Offset.offset(stored + 1n))).take(8), numbered(12, 20));
    await other.close();
  }),

  deduplication: () => onStream(async (client) => {
    await send(client, numbered(0, 50), { publisherRef: 'name', first: 1 });
    const other = await open();
    const publisher = await other.declarePublisher({ stream, publisherRef: 'name' });
    assert.equal(await publisher.getLastPublishingId(), 50n);
    await publisher.close();
    await send(other, numbered(0, 100), { publisherRef: 'name', first: 1 });
    await send(other, ['end'], { publisherRef: 'name', first: 101 });
    assert.deepEqual(await (await read(other)).take(101), [...numbered(0, 100), 'end']);
    await other.close();
  }),

  filters: () => onStream(async (client) => {
    const filter = (message) => message.content.toString().slice(0, 2);
    for (const area of ['eu', 'us', 'eu', 'as', 'us']) {
      await send(client, [`${area}1`, `${area}2`], { filter });
    }
    const wanted = { values: ['us'], matchUnfiltered: false, postFilterFunc: (message) => filter(message) === 'us' };
    const reader = await read(client, Offset.first(), { filter: wanted });
    assert.deepEqual(await reader.take(4), ['us1', 'us2', 'us1', 'us2']);
  }),

  sub_batches: () => onStream(async (client) => {
    const publisher = await client.declarePublisher({ stream });
    for (const [begin, compression] of [[0, CompressionType.Gzip], [100, CompressionType.None]]) {
      const messages = numbered(begin, begin + 100).map((body) => ({ content: Buffer.from(body) }));
      await publisher.sendSubEntries(messages, compression);
    }
    assert.deepEqual(await (await read(client)).take(200), numbered(0, 200));
  }),

  super_stream: async () => {
    const client = await open();
    await client.createSuperStream({ streamName: stream, arguments: {} }, undefined, 3);
    const partitions = numbered(0, 3).map((number) => `${stream}-${number.slice(1)}`);
    assert.deepEqual(await client.queryPartitions({ superStream: stream }), partitions);
    const publisher = await client.declareSuperStreamPublisher({ superStream: stream }, (content) => content);
    for (const body of numbered(0, 100)) {
      await publisher.send(Buffer.from(body), {});
    }
    const seen = new Mailbox();
    const consumer = await client.declareSuperStreamConsumer(
      { superStream: stream, offset: Offset.first() },
      (message) => seen.put(message.content.toString()),
    );
    assert.deepEqual((await seen.take(100)).sort(), numbered(0, 100).sort());
    await consumer.close();
    await publisher.close();
    await client.deleteSuperStream({ streamName: stream });
    await client.close();
  },

  single_active: () => onStream(async (client) => {
    const group = { consumerRef: 'group', singleActive: true, consumerUpdateListener: async () => Offset.first() };
    const first = await read(client, Offset.first(), group);
    const other = await open();
    const second = await read(other, Offset.first(), group);
    await send(client, numbered(0, 10));
    assert.deepEqual(await first.take(10), numbered(0, 10));
    assert.equal(second.seen.items.length, 0, 'the second one gets nothing');
    await first.consumer.close();
    assert.deepEqual(await second.take(10), numbered(0, 10));
    await other.close();
  }),

  // The client throws where nobody can catch it.
  wrong_password: async () => {
    const thrown = new Promise((resolve) => process.once('unhandledRejection', resolve));
    open({ password: 'wrong' }).catch(() => {});
    assert.equal((await within(thrown, 'a refusal')).message, 'Unable Authenticate -> 8');
  },

  unknown_stream: async () => {
    const client = await open();
    await refused(client.deleteStream({ stream: 'none' }), 'error with code 2');
    await refused(client.declarePublisher({ stream: 'none' }), 'was not found');
    await client.close();
  },

  deleted: async () => {
    const client = await open();
    await client.createStream({ stream, arguments: {} });
    const publisher = await client.declarePublisher({ stream });
    const gone = new Promise((resolve) => publisher.on('metadata_update', resolve));
    await client.deleteStream({ stream });
    const update = await within(gone, 'a metadata update');
    assert.equal(update.metadataInfo.stream, stream);
  },

  reconnect: () => goOn('ready kill'),
  restart: () => goOn('ready restart'),
};

/** The client doesn't connect again by itself. It mustn't end the process either. */
async function goOn(whatHappens) {
  const closed = new Mailbox();
  const before = await open({ listeners: { connection_closed: (hadError) => closed.put(hadError) } });
  await before.createStream({ stream, arguments: {} });
  await send(before, numbered(0, 100), { publisherRef: 'name', first: 1 });
  assert.deepEqual(await (await read(before)).take(100), numbered(0, 100));
  await ask(whatHappens, 'go');
  await closed.take(1);
  const client = await open();
  // It isn't known what was confirmed: all is sent again.
  await send(client, numbered(0, 200), { publisherRef: 'name', first: 1 });
  assert.deepEqual(await (await read(client)).take(200), numbered(0, 200));
  await client.deleteStream({ stream });
}

within(scenarios[scenario](), 'the end', 3 * PATIENCE_MS).then(
  () => {
    console.log(`ok ${scenario}`);
    process.exit(0);
  },
  (error) => {
    console.log(`fail ${scenario}: ${error.message}`.replaceAll('\n', ' '));
    process.exit(1);
  },
);
