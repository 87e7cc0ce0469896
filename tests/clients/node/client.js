// The scenarios of the client table, with the amqplib that stands beside the program. See tests/src/cell.rs for the lines it
// speaks.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const library = require.resolve('amqplib', { paths: [path.dirname(require.main.filename)] });
const amqp = require(library);
// Not a public path: only for methods that the client's own calls can't express.
const defs = require(path.join(path.dirname(library), 'lib/defs'));
// Versions 0.x send no unsigned numbers.
const unsigned = !require(path.join(path.dirname(library), 'package.json')).version.startsWith('0.');

const [uri, , , scenario] = process.argv.slice(2);
const prefix = `cell.${scenario}.${process.pid}`;
const authority = process.env.LEVERET_TEST_CA;
const tls = authority ? { ca: [fs.readFileSync(authority)] } : {};
const kinds = ['direct', 'fanout', 'topic', 'headers'];
const replies = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(line, answer) {
  console.log(line);
  assert.equal((await replies.next()).value, answer, 'control');
}

const quiet = () => {};

async function connect(target = uri) {
  const connection = await amqp.connect(target, tls);
  connection.reason = new Promise((resolve) => {
    let last = null;
    connection.on('error', (error) => (last = error));
    connection.on('close', (error) => resolve(last ?? error ?? null));
  });
  return connection;
}

async function channelOf(connection, confirming = false) {
  const channel = await (confirming ? connection.createConfirmChannel() : connection.createChannel());
  channel.reason = new Promise((resolve) => channel.on('error', resolve));
  return channel;
}

// `act(channel)` on a channel of its own ends with this code and these first words.
async function fails(connection, code, words, act) {
  await failsOn(connection, await channelOf(connection), code, words, act);
}

async function failsOn(connection, channel, code, words, act) {
  Promise.resolve(act(channel)).catch(quiet);
  const error = await Promise.race([channel.reason, connection.reason]);
  assert.ok(error, `${code} expected, the connection closed without an error`);
  assert.equal(error.code, code, `code (${error.message})`);
  // The client puts words of its own and quotes around the broker's text.
  assert.ok(error.message.includes(`"${words}`), `${error.message} doesn't have ${words}`);
}

async function barrier(connection) {
  await (await channelOf(connection)).assertQueue('', { exclusive: true });
}

async function queue(channel, name = 'q', options = { durable: true }) {
  await channel.assertQueue(`${prefix}.${name}`, options);
  return `${prefix}.${name}`;
}

async function count(channel, name) {
  return (await channel.checkQueue(name)).messageCount;
}

async function send(channel, name, ...bodies) {
  for (const body of bodies) {
    channel.sendToQueue(name, Buffer.from(body), { persistent: true, mandatory: true });
  }
  await channel.waitForConfirms();
}

async function get(channel, name, options) {
  const message = await channel.get(name, options);
  assert.ok(message, 'the queue is empty');
  return message;
}

async function empty(channel, name) {
  assert.equal(await channel.get(name, { noAck: true }), false, 'the queue is not empty');
}

// A consumer whose deliveries are awaited one by one.
async function consumer(channel, name, options) {
  const ready = [];
  const waiting = [];
  await channel.consume(name, (message) => (waiting.length ? waiting.shift()(message) : ready.push(message)), options);
  return { ready, next: () => (ready.length ? Promise.resolve(ready.shift()) : new Promise((resolve) => waiting.push(resolve))) };
}

const scenarios = {
  async declare() {
    const connection = await connect();
    const channel = await channelOf(connection, true);
    const name = await queue(channel);
    assert.deepEqual(await channel.assertQueue(name), { queue: name, messageCount: 0, consumerCount: 0 });
    assert.equal((await channel.checkQueue(name)).queue, name);
    const returns = [];
    channel.on('return', (message) => returns.push(message.fields.replyCode));
    for (const kind of kinds) {
      const exchange = `${prefix}.${kind}`;
      await channel.assertExchange(exchange, kind, { durable: true });
      await channel.assertExchange(exchange, kind, { durable: true });
      await channel.checkExchange(exchange);
      await channel.bindQueue(name, exchange, 'a.b', kind === 'headers' ? { 'x-match': 'all', k: 1 } : {});
      channel.publish(exchange, 'a.b', Buffer.from(kind), { headers: { k: 1 }, mandatory: true });
    }
    await channel.waitForConfirms();
    assert.equal(await count(channel, name), 4, 'messages through four exchanges');
    await channel.unbindQueue(name, `${prefix}.direct`, 'a.b');
    channel.publish(`${prefix}.direct`, 'a.b', Buffer.from('x'), { mandatory: true });
    await channel.waitForConfirms();
    assert.deepEqual(returns, [312], 'an unbound key');
    assert.equal((await channel.purgeQueue(name)).messageCount, 4, 'purge');
    const own = (await channel.assertQueue('', { exclusive: true })).queue;
    assert.match(own, /^amq\.gen-/);
    await fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue", (c) => c.assertQueue(name, { durable: false }));
    await fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue", (c) => c.assertQueue(name, { maxLength: 5 }));
    await fails(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange", (c) => c.assertExchange(`${prefix}.direct`, 'fanout'));
    await fails(connection, 404, 'NOT_FOUND - no queue', (c) => c.checkQueue(`${prefix}.missing`));
    for (const kind of kinds) await channel.deleteExchange(`${prefix}.${kind}`);
    await channel.deleteQueue(own);
    await fails(connection, 404, 'NOT_FOUND - no queue', (c) => c.checkQueue(own));
  },

  async publish_confirm() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    await send(channel, name, ...Array.from({ length: 100 }, (_, i) => String(i)));
    assert.equal(await count(channel, name), 100);
    for (let i = 0; i < 100; i++) {
      const message = await get(channel, name, { noAck: true });
      assert.equal(message.content.toString(), String(i));
      assert.equal(message.properties.deliveryMode, 2);
    }
  },

  async mandatory_return() {
    const channel = await channelOf(await connect(), true);
    const events = [];
    channel.on('return', (message) => events.push(message));
    const key = `${prefix}.nowhere`;
    await new Promise((resolve, reject) =>
      channel.publish('amq.direct', key, Buffer.from('back'), { mandatory: true, messageId: 'm' }, (error) => {
        events.push('confirm');
        error ? reject(error) : resolve();
      }));
    assert.equal(events.length, 2);
    assert.equal(events[1], 'confirm', 'the return comes before the confirm');
    const { fields, properties, content } = events[0];
    assert.deepEqual([fields.replyCode, fields.replyText, fields.exchange, fields.routingKey], [312, 'NO_ROUTE', 'amq.direct', key]);
    assert.deepEqual([properties.messageId, content.toString()], ['m', 'back']);
    channel.publish('amq.direct', key, Buffer.from('dropped'));
    await channel.waitForConfirms();
    assert.equal(events.length, 2, 'a return without mandatory');
  },

  async direct_reply_to() {
    const pseudo = 'amq.rabbitmq.reply-to';
    const requester = await channelOf(await connect());
    const responder = await channelOf(await connect(), true);
    const name = await queue(responder);
    const answers = await consumer(requester, pseudo, { noAck: true });
    const requests = await consumer(responder, name, { noAck: true });
    const asked = { replyTo: pseudo, correlationId: '7', mandatory: true };
    requester.sendToQueue(name, Buffer.from('ask'), asked);
    const request = await requests.next();
    const { replyTo, correlationId } = request.properties;
    assert.deepEqual([request.content.toString(), correlationId], ['ask', '7']);
    assert.ok(replyTo.startsWith(`${pseudo}.`), replyTo);
    assert.equal((await responder.checkQueue(replyTo)).consumerCount, 1);
    responder.sendToQueue(replyTo, Buffer.from('answer'), { correlationId, mandatory: true });
    await responder.waitForConfirms();
    const answer = await answers.next();
    assert.deepEqual([answer.content.toString(), answer.properties.correlationId], ['answer', '7']);
    await fails(await connect(), 406, 'PRECONDITION_FAILED - reply consumer cannot acknowledge', (c) =>
      c.consume(pseudo, quiet, { noAck: false }));
    await fails(await connect(), 406, 'PRECONDITION_FAILED - fast reply consumer does not exist', (c) =>
      c.sendToQueue(name, Buffer.from('ask'), asked));
    await fails(await connect(), 403, 'ACCESS_REFUSED', (c) => c.bindQueue(replyTo, 'amq.direct', 'k'));
  },

  async ack() {
    const connection = await connect();
    const channel = await channelOf(connection, true);
    const name = await queue(channel);
    await send(channel, name, '1', '2', '3', '4', '5');
    const receiver = await channelOf(connection);
    const deliveries = await consumer(receiver, name);
    const messages = [];
    for (let i = 1; i <= 5; i++) {
      const message = await deliveries.next();
      assert.deepEqual([message.fields.deliveryTag, message.fields.redelivered, message.content.toString()], [i, false, String(i)]);
      messages.push(message);
    }
    receiver.ack(messages[0]);
    receiver.ack(messages[2], true);
    await receiver.close();
    const again = await channelOf(connection);
    for (const body of ['4', '5']) {
      const message = await get(again, name);
      assert.deepEqual([message.fields.redelivered, message.content.toString()], [true, body]);
      again.ack(message);
    }
    await empty(again, name);
    await again.close();
    assert.equal(await count(channel, name), 0);
  },

  async nack_requeue() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    await send(channel, name, '1', '2', '3', '4');
    await get(channel, name);
    const second = await get(channel, name);
    await get(channel, name);
    channel.nack(second, false, true);
    const message = await get(channel, name);
    assert.deepEqual([message.content.toString(), message.fields.redelivered], ['2', true], 'the place of 2 is before 4');
    channel.nack(message, true, true);
    const order = [];
    for (let i = 0; i < 4; i++) {
      const one = await get(channel, name);
      order.push(`${one.content}${one.fields.redelivered}`);
      channel.ack(one);
    }
    assert.deepEqual(order, ['1true', '2true', '3true', '4false']);
    await send(channel, name, '5');
    channel.nack(await get(channel, name), false, false);
    await empty(channel, name);
  },

  async reject() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    await send(channel, name, '1', '2');
    channel.reject(await get(channel, name), true);
    const first = await get(channel, name);
    assert.deepEqual([first.content.toString(), first.fields.redelivered], ['1', true]);
    channel.reject(first, false);
    const next = await get(channel, name, { noAck: true });
    assert.deepEqual([next.content.toString(), next.fields.redelivered], ['2', false]);
    await empty(channel, name);
  },

  async prefetch() {
    const connection = await connect();
    const publisher = await channelOf(connection, true);
    const name = await queue(publisher);
    await send(publisher, name, ...Array.from({ length: 10 }, (_, i) => String(i)));
    const channel = await channelOf(connection);
    await channel.prefetch(3);
    const deliveries = await consumer(channel, name);
    const messages = [];
    for (let i = 0; i < 3; i++) messages.push(await deliveries.next());
    assert.equal(await count(channel, name), 7, 'ready while 3 are unacknowledged');
    assert.equal(deliveries.ready.length, 0, 'a fourth delivery');
    channel.ack(messages[1], true);
    for (let i = 3; i < 5; i++) messages.push(await deliveries.next());
    assert.equal(await count(channel, name), 5, 'ready after 2 acks');
    assert.deepEqual(messages.map((message) => message.content.toString()), ['0', '1', '2', '3', '4']);
  },

  async get() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    await empty(channel, name);
    await send(channel, name, '1', '2');
    const first = await get(channel, name);
    const { messageCount, redelivered, exchange, routingKey } = first.fields;
    assert.deepEqual([messageCount, redelivered, exchange, routingKey, first.content.toString()], [1, false, '', name, '1']);
    channel.ack(first);
    const last = await get(channel, name, { noAck: true });
    assert.deepEqual([last.fields.messageCount, last.content.toString()], [0, '2']);
    await empty(channel, name);
  },

  async big_body() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    const body = Buffer.alloc(5 * 1024 * 1024);
    for (let i = 0; i < body.length; i++) body[i] = i * 7 + Math.floor(i / 251);
    await send(channel, name, body, 'after', body);
    for (const expected of [body, Buffer.from('after'), body]) {
      const message = await get(channel, name);
      assert.ok(message.content.equals(expected), `a body of ${message.content.length} bytes differs`);
      channel.ack(message);
    }
  },

  async headers() {
    const channel = await channelOf(await connect(), true);
    const name = await queue(channel);
    const typed = (type, value) => ({ '!': type, value });
    const sent = {
      'unicode ключ': 'wert ✓ 𝄞',
      binary: Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
      true: true,
      false: false,
      byte: -128,
      short: -32768,
      int: -2147483648,
      long: 2 ** 52,
      double: 2.5,
      ...(unsigned && { ubyte: typed('uint8', 255), ushort: typed('uint16', 65535), uint: typed('uint32', 4294967295) }),
      float: typed('float', 2.5),
      decimal: typed('decimal', { places: 2, digits: 314 }),
      time: typed('timestamp', 1700000000),
      none: null,
      list: [1, 'zwei ✓', Buffer.from([255, 0]), [true, null], { in: 1 }],
      table: { a: { b: { c: 'tief' } } },
      empty: '',
    };
    const options = {
      headers: sent, contentType: 'text/plain', contentEncoding: 'utf-8', persistent: true, priority: 9,
      correlationId: 'korrelation ✓', replyTo: 'antwort', messageId: 'id', timestamp: 1700000000,
      type: 'art', userId: 'guest', appId: 'app ✓',
    };
    channel.sendToQueue(name, Buffer.from('inhalt ✓'), options);
    await channel.waitForConfirms();
    const message = await get(channel, name);
    assert.equal(message.content.toString(), 'inhalt ✓');
    const plain = ['ubyte', 'ushort', 'uint', 'float'];
    for (const key of Object.keys(sent)) {
      const expected = plain.includes(key) ? sent[key].value : sent[key];
      assert.deepEqual(message.properties.headers[key], expected, `header ${key}`);
    }
    assert.equal(Object.keys(message.properties.headers).length, Object.keys(sent).length);
    for (const key of ['contentType', 'contentEncoding', 'priority', 'correlationId', 'replyTo', 'messageId',
      'timestamp', 'type', 'userId', 'appId']) {
      assert.equal(message.properties[key], options[key], key);
    }
    channel.ack(message);
  },

  async exclusive() {
    const [owner, other] = [await connect(), await connect()];
    const name = await queue(await channelOf(owner), 'q', { exclusive: true, durable: false });
    const words = 'RESOURCE_LOCKED - cannot obtain exclusive access to locked queue';
    for (const act of [(c) => c.checkQueue(name), (c) => c.get(name), (c) => c.purgeQueue(name)]) {
      await fails(other, 405, words, act);
    }
    await (await channelOf(owner)).checkQueue(name);
    await owner.close();
    await fails(other, 404, 'NOT_FOUND - no queue', (c) => c.checkQueue(name));
    await queue(await channelOf(other), 'q', { exclusive: true, durable: false });
  },

  async reconnect() {
    let connection = await connect();
    let channel = await channelOf(connection, true);
    const name = await queue(channel);
    const transient = await queue(channel, 'transient', { exclusive: true, durable: false });
    await send(channel, name, 'before');
    await send(channel, transient, 'lost');
    await ask('ready kill', 'go');
    await connection.reason;
    connection = await connect();
    channel = await channelOf(connection, true);
    assert.equal(await count(channel, name), 1, 'messages after the restart');
    const message = await get(channel, name);
    assert.equal(message.content.toString(), 'before');
    channel.ack(message);
    await send(channel, name, 'after');
    assert.equal((await get(channel, name, { noAck: true })).content.toString(), 'after');
    await fails(connection, 404, 'NOT_FOUND - no queue', (c) => c.checkQueue(transient));
  },

  async heartbeat_loss() {
    const connection = await connect(`${uri}?heartbeat=1`);
    await barrier(connection);
    await ask('mute', 'closed');
    await connection.reason;
  },

  async error_320() {
    const connection = await connect();
    await barrier(connection);
    const closed = new Promise((resolve) => connection.on('close', resolve));
    await ask('ready term', 'go');
    // The client takes 320 for an operator's doing: a close with a reason, no error.
    const error = await closed;
    assert.equal(error.code, 320);
    assert.match(error.message, /CONNECTION_FORCED/);
  },

  async error_403() {
    const connection = await connect();
    const holder = await channelOf(connection);
    const name = await queue(holder);
    const refused = 'ACCESS_REFUSED';
    await fails(connection, 403, `${refused} - queue name 'amq.own' contains reserved prefix 'amq.*'`, (c) => c.assertQueue('amq.own'));
    await fails(connection, 403, `${refused} - exchange name 'amq.own' contains reserved prefix 'amq.*'`, (c) => c.assertExchange('amq.own', 'direct'));
    await fails(connection, 403, `${refused} - operation not permitted on the default exchange`, (c) => c.bindQueue(name, '', 'key'));
    await holder.consume(name, quiet, { exclusive: true });
    await fails(connection, 403, `${refused} - queue '${name}' in vhost '/' in exclusive use`, (c) => c.consume(name, quiet));
    await holder.assertExchange(`${prefix}.internal`, 'direct', { internal: true });
    await fails(connection, 403, `${refused} - cannot publish to internal exchange`, (c) => c.publish(`${prefix}.internal`, '', Buffer.from('x')));
    await holder.deleteExchange(`${prefix}.internal`);
    await assert.rejects(connect(uri.replace('guest:guest@', 'guest:wrong@')), /ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN/);
  },

  async error_404() {
    const connection = await connect();
    const missing = `${prefix}.missing`;
    const noQueue = `NOT_FOUND - no queue '${missing}' in vhost '/'`;
    const noExchange = `NOT_FOUND - no exchange '${missing}' in vhost '/'`;
    for (const act of [(c) => c.checkQueue(missing), (c) => c.get(missing), (c) => c.consume(missing, quiet), (c) => c.purgeQueue(missing),
      (c) => c.bindQueue(missing, 'amq.direct', 'k')]) {
      await fails(connection, 404, noQueue, act);
    }
    const name = await queue(await channelOf(connection));
    for (const act of [(c) => c.checkExchange(missing), (c) => c.publish(missing, 'k', Buffer.from('x')), (c) => c.bindQueue(name, missing, 'k')]) {
      await fails(connection, 404, noExchange, act);
    }
    await (await channelOf(connection)).deleteQueue(missing);
  },

  async error_405() {
    const [owner, other] = [await connect(), await connect()];
    const name = await queue(await channelOf(owner), 'q', { exclusive: true, durable: false });
    const words = `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${name}' in vhost '/'`;
    for (const act of [(c) => c.assertQueue(name, { exclusive: true }), (c) => c.consume(name, quiet), (c) => c.deleteQueue(name),
      (c) => c.bindQueue(name, 'amq.direct', 'k')]) {
      await fails(other, 405, words, act);
    }
  },

  async error_406() {
    const connection = await connect();
    const channel = await channelOf(connection, true);
    const name = await queue(channel);
    const words = 'PRECONDITION_FAILED';
    const message = (deliveryTag) => ({ fields: { deliveryTag } });
    await fails(connection, 406, `${words} - unknown delivery tag 7`, (c) => c.ack(message(7)));
    await fails(connection, 406, `${words} - unknown delivery tag 7`, (c) => c.reject(message(7)));
    await send(channel, name, '1');
    await fails(connection, 406, `${words} - unknown delivery tag 1`, async (c) => {
      const one = await get(c, name);
      c.ack(one);
      c.ack(one);
    });
    await fails(connection, 406, `${words} - invalid expiration`, (c) => c.sendToQueue(name, Buffer.from('x'), { expiration: 'soon' }));
    await fails(connection, 406, `${words} - invalid arg 'x-max-length' for queue`, (c) => c.assertQueue(`${prefix}.bad`, { maxLength: -1 }));
    await fails(connection, 406, `${words} - unknown exchange type 'x-nowhere-known'`, (c) => c.assertExchange(`${prefix}.x`, 'x-nowhere-known'));
    await send(channel, name, '2');
    await fails(connection, 406, `${words} - queue '${name}' in vhost '/' not empty`, (c) => c.deleteQueue(name, { ifEmpty: true }));
    await (await channelOf(connection)).consume(name, quiet);
    await fails(connection, 406, `${words} - queue '${name}' in vhost '/' in use`, (c) => c.deleteQueue(name, { ifUnused: true }));
  },

  // queue.declare on channel 1, with 00 where the end mark belongs
  error_501: () => injected(501, 'FRAME_ERROR', '0100010000000c' + '0032000a' + '0000' + '00' + '00' + '00000000' + '00'),

  // queue.declare whose name claims more bytes than the frame has; RabbitMQ says 501 where the specification has 502
  error_502: () => injected(501, 'FRAME_ERROR - cannot decode', '01000100000008' + '0032000a' + '0000' + 'ff61' + 'ce'),

  // queue.declare-ok, which only a broker sends
  error_503: () => injected(503, 'COMMAND_INVALID', '0100010000000e' + '0032000b' + '0161' + '0000000000000000' + 'ce'),

  // channel.open on channel 1, which is open
  error_504: () => injected(504, "CHANNEL_ERROR - second 'channel.open' seen", '01000100000005' + '0014000a' + '00' + 'ce'),

  // a content header on channel 1 without a method before it
  error_505: () => injected(505, 'UNEXPECTED_FRAME', '0200010000000e' + '003c0000' + '0000000000000000' + '0000' + 'ce'),

  async error_530() {
    await fails(await connect(), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", async (c) => {
      const name = await queue(c);
      await c.consume(name, quiet, { consumerTag: 'tag' });
      await c.consume(name, quiet, { consumerTag: 'tag' });
    });
    // The client doesn't show the broker's words here.
    await assert.rejects(connect(uri.replace(/%2F$/, 'no%20such')), /Expected ConnectionOpenOk; got <ConnectionClose/);
  },

  async error_540() {
    const name = await queue(await channelOf(await connect()));
    // The client's calls have no argument for these: the methods go out one level below.
    await fails(await connect(), 540, 'NOT_IMPLEMENTED', (c) => c.sendImmediately(defs.BasicRecover, { requeue: false }));
    await fails(await connect(), 540, 'NOT_IMPLEMENTED', (c) =>
      c.sendImmediately(defs.BasicQos, { prefetchSize: 10, prefetchCount: 0, global: false }));
    await fails(await connect(), 540, 'NOT_IMPLEMENTED - immediate=true', (c) =>
      c.sendMessage({ exchange: '', routingKey: name, mandatory: false, immediate: true, ticket: 0 }, { headers: {} }, Buffer.from('x')));
  },
};

async function injected(code, words, frame) {
  const connection = await connect();
  await failsOn(connection, await channelOf(connection), code, words, () => ask(`inject ${frame}`, 'done'));
  await barrier(await connect()); // another connection doesn't notice
}

scenarios[scenario]().then(
  () => {
    console.log(`ok ${scenario}`);
    process.exit(0);
  },
  (error) => {
    console.log(`fail ${scenario}: ${String(error.message).replaceAll('\n', ' ')}`);
    process.exit(1);
  },
);
