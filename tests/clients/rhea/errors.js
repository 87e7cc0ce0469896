// What the broker refuses.
'use strict';

const assert = require('node:assert/strict');
const {
  accepted, ask, begin, close, connect, count, flush, isCondition, peer, prefix, queue, receiver, refused, sender, text,
  until,
} = require('./session');

async function exclusive() {
  const name = `${prefix}.q`;
  await peer('declare', { queue: name, exclusive: true });
  await refused(await receiver(await connect(), `/queues/${name}`, {}, true), 'amqp:resource-locked', name);
}

async function queue_deleted() {
  const [name, address] = await queue();
  const connection = await connect();
  const [back, out] = [await receiver(connection, address), await sender(connection, address)];
  back.add_credit(1);
  await flush();
  await peer('delete', { queue: name });
  await refused(back, 'amqp:resource-deleted');
  await refused(out, 'amqp:resource-deleted');
  const [, other] = await queue('other');
  await accepted(await sender(connection, other), text('x'));
}

async function not_found() {
  const missing = `${prefix}.missing`;
  const connection = await connect();
  await refused(await receiver(connection, `/queues/${missing}`, {}, true), 'amqp:not-found', missing);
  await refused(await sender(connection, `/queues/${missing}`, {}, true), 'amqp:not-found', missing);
  await refused(await sender(connection, `/exchanges/${missing}/k`, {}, true), 'amqp:not-found', missing);
  const [, address] = await queue();
  await accepted(await sender(connection, address), text('x'));
}

async function bad_address() {
  const connection = await connect();
  for (const target of ['/exchanges//k', '/exchanges/amq.default/k', '/queues/', '/nothing/x', '/queues/a%zz']) {
    await refused(await sender(await begin(connection), target, {}, true), 'amqp:invalid-field');
  }
  const link = await receiver(await begin(connection), '/exchanges/amq.direct/k', {}, true);
  await refused(link, 'amqp:invalid-field');
  const [, address] = await queue();
  await accepted(await sender(connection, address), text('x'));
}

async function unauthorized() {
  const [, address] = await queue();
  const connection = await connect();
  const out = await sender(await begin(connection), '/exchanges/amq.direct/k', {}, true);
  await refused(out, 'amqp:unauthorized-access', 'amq.direct');
  await refused(await receiver(await begin(connection), address, {}, true), 'amqp:unauthorized-access', prefix);
  await begin(connection);
}

async function sendsInVain(condition, words, message) {
  const [name, address] = await queue();
  const connection = await connect();
  const link = await sender(await begin(connection), address);
  await until(() => link.sendable(), 'credit to send');
  link.send(message);
  await refused(link, condition, words);
  await accepted(await sender(connection, address), text('x', { user_id: Buffer.from('guest') }));
  assert.equal(await count(name), 1);
}

const user_id = () =>
  sendsInVain('amqp:unauthorized-access', 'somebody', text('x', { user_id: Buffer.from('somebody') }));
const bad_annotation = () => sendsInVain('amqp:decode-error', '', text('x', { message_annotations: { y: 1 } }));
const message_too_large = () => sendsInVain('amqp:link:message-size-exceeded', '', text('x'.repeat(100_001)));

async function settle_mode_second() {
  const [, address] = await queue();
  const link = await receiver(await begin(await connect()), address, { rcv_settle_mode: 1 }, true);
  await refused(link, 'amqp:not-implemented');
}

async function framing_error() {
  const connection = await connect();
  assert.equal(await ask('inject 0000000302000000'), 'done');
  await until(() => connection.gone, 'the end of the connection');
  isCondition(connection.error, 'amqp:connection:framing-error');
  await close(await connect());
}

// A frame on channel 0.
const inject = (performative) =>
  ask(`inject ${(8 + performative.length / 2).toString(16).padStart(8, '0')}02000000${performative}`);

async function session_errors() {
  const first = await begin(await connect());
  // transfer: handle 77, delivery-id 0, delivery-tag "t", message-format 0, settled
  assert.equal(await inject('005314c00905524d43a001744341'), 'done');
  await until(() => first.remote.end, 'the end of the session');
  isCondition(first.remote.end.error, 'amqp:session:unattached-handle');
  const second = await begin(await connect());
  await sender(second, (await queue())[1]);
  // attach: name "again", handle 0, role sender
  assert.equal(await inject('005312c00a03a105616761696e4342'), 'done');
  await until(() => second.remote.end, 'the end of the session');
  isCondition(second.remote.end.error, 'amqp:session:handle-in-use');
}

module.exports = {
  exclusive, queue_deleted, not_found, bad_address, unauthorized, user_id, bad_annotation, message_too_large,
  settle_mode_second, framing_error, session_errors,
};
