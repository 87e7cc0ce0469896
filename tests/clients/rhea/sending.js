// Senders and the outcomes that they get.
'use strict';

const assert = require('node:assert/strict');
const {
  accepted, bodiesOf, connect, count, get, isCondition, outcome, peer, prefix, queue, receiver, rhea, sendAll, sender,
  stateOf, take, text, texts, until,
} = require('./session');

async function publish() {
  const [name, address] = await queue();
  const connection = await connect();
  await accepted(await sender(connection, address), ...texts(0, 100).map((body) => text(body)));
  assert.equal(await count(name), 100);
  const link = await receiver(connection, address);
  link.add_credit(100);
  const taken = await take(link, 100);
  assert.deepEqual(bodiesOf(taken), texts(0, 100));
  assert.ok(taken.every(({ message }) => message.durable));
}

async function settled_publish() {
  const [, address] = await queue();
  const connection = await connect();
  const settled = await sender(connection, address, { snd_settle_mode: 1 });
  for (const body of texts(0, 100)) {
    await until(() => settled.sendable(), 'credit to send');
    settled.send(text(body));
  }
  const link = await receiver(connection, address);
  link.add_credit(102);
  assert.deepEqual(bodiesOf(await take(link, 100)), texts(0, 100));
  const mixed = await sender(connection, address, { snd_settle_mode: 2 });
  await until(() => mixed.sendable(), 'credit to send');
  mixed.send(text('settled')).settled = true;
  assert.equal(await outcome(mixed, text('unsettled')), 'accepted');
  assert.deepEqual(bodiesOf(await take(link, 2)), ['settled', 'unsettled']);
}

async function exchange_target() {
  const [name, address] = await queue();
  const [exchange, fanout, key] = [`${prefix}.x ä/%`, `${prefix}.f`, 'k ü/?&'];
  await peer('exchange', { exchange, type: 'direct' });
  await peer('exchange', { exchange: fanout, type: 'fanout' });
  await peer('bind', { queue: name, exchange, key });
  await peer('bind', { queue: name, exchange: fanout, key: '' });
  const connection = await connect();
  const target = `/exchanges/${encodeURIComponent(exchange)}/${encodeURIComponent(key)}`;
  await accepted(await sender(connection, target), text('direct'));
  const { message } = await get(connection, address);
  assert.equal(message.message_annotations['x-exchange'], exchange);
  assert.equal(message.message_annotations['x-routing-key'], key);
  await accepted(await sender(connection, `/exchanges/${fanout}`), text('fanout'));
  assert.equal((await get(connection, address)).message.message_annotations['x-exchange'], fanout);
}

async function anonymous_terminus() {
  const [name, address] = await queue();
  await peer('bind', { queue: name, exchange: 'amq.direct', key: `${prefix}.k` });
  const link = await sender(await connect(), null);
  const to = async (target) => (await sendAll(link, [text('x', target ? { to: target } : {})]))[0];
  assert.equal(stateOf(await to(address)), 'accepted');
  assert.equal(stateOf(await to(`/exchanges/amq.direct/${prefix}.k`)), 'accepted');
  assert.equal(stateOf(await to(`/exchanges/amq.direct/${prefix}.nowhere`)), 'released');
  assert.equal(stateOf(await to(`/queues/${prefix}.missing`)), 'released');
  const missing = await to(`/exchanges/${prefix}.missing/k`);
  assert.equal(stateOf(missing), 'rejected');
  isCondition(missing.remote_state.error, 'amqp:not-found', `${prefix}.missing`);
  for (const target of [undefined, '/nothing/x']) {
    const delivery = await to(target);
    assert.equal(stateOf(delivery), 'rejected');
    isCondition(delivery.remote_state.error, 'amqp:precondition-failed');
  }
  assert.equal(stateOf(await to(address)), 'accepted');
  assert.equal(await count(name), 3);
}

async function unroutable() {
  const [name] = await queue();
  const link = await sender(await connect(), `/exchanges/amq.direct/${prefix}.nowhere`);
  assert.equal(await outcome(link, text('lost')), 'released');
  await peer('bind', { queue: name, exchange: 'amq.direct', key: `${prefix}.nowhere` });
  assert.equal(await outcome(link, text('found')), 'accepted');
  assert.equal(await count(name), 1);
}

async function rejected() {
  const [name, address] = await queue('q', { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
  const link = await sender(await connect(), address);
  await accepted(link, text('x'));
  let delivery;
  for (let attempt = 0; attempt < 9 && (!delivery || stateOf(delivery) === 'accepted'); attempt++) {
    [delivery] = await sendAll(link, [text('x')]);
  }
  assert.equal(stateOf(delivery), 'rejected');
  const { error } = delivery.remote_state;
  isCondition(error, 'amqp:resource-limit-exceeded');
  assert.deepEqual([error.info.queue, error.info.reason], [name, 'maxlen']);
}

async function big_message() {
  const [, address] = await queue();
  const connection = await connect({ max_frame_size: 4096 });
  const [out, back] = [await sender(connection, address), await receiver(connection, address)];
  const body = Buffer.from(Array.from({ length: 1024 * 1024 }, (_, i) => (i * 7 + Math.floor(i / 251)) % 256));
  for (let round = 0; round < 2; round++) {
    back.add_credit(2);
    await accepted(out, { durable: true, body: rhea.message.data_section(body) }, text('small'));
    const [big, small] = await take(back, 2);
    assert.ok(body.equals(big.message.body.content), 'the big body differs');
    assert.deepEqual(bodiesOf([small]), ['small']);
    big.delivery.accept();
    small.delivery.accept();
  }
}

module.exports = {
  publish, settled_publish, exchange_target, anonymous_terminus, unroutable, rejected, big_message,
};
