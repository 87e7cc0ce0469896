// AMQP 0-9-1 on the other side.
'use strict';

const assert = require('node:assert/strict');
const { accepted, connect, get, peer, queue, rhea, sender, text } = require('./session');

async function from_091() {
  const [name, address] = await queue();
  await peer('sample', { queue: name });
  const { message } = await get(await connect(), address);
  const expected = {
    durable: true, priority: 5, message_id: 'message', correlation_id: 'correlation', content_type: 'text/plain',
    content_encoding: 'utf-8', reply_to: '/queues/answers', group_id: 'app',
  };
  for (const [key, value] of Object.entries(expected)) assert.equal(message[key], value, key);
  assert.equal(message.user_id.toString(), 'guest');
  assert.equal(Number(message.creation_time), 1_700_000_000_000);
  const { 'x-a': note, 'x-basic-type': kind, 'x-exchange': exchange, 'x-routing-key': key } = message.message_annotations;
  assert.deepEqual([note, kind, exchange, key], ['note', 'kind', '', name]);
  assert.deepEqual({ ...message.application_properties }, { b: 7, c: 'ключ' });
  assert.deepEqual([message.body.typecode, message.body.content.toString()], [0x75, 'body ✓']);
}

async function to_091() {
  const [name, address] = await queue();
  const link = await sender(await connect(), address);
  const sent = text('body ✓', {
    priority: 5, message_id: 'message', correlation_id: 'correlation', content_type: 'text/plain',
    creation_time: 1_700_000_000_000, reply_to: '/queues/answers', group_id: 'group', user_id: Buffer.from('guest'),
    message_annotations: { 'x-a': 'note' },
    application_properties: { s: 'text ✓', i: rhea.types.wrap_int(5), t: true, l: rhea.types.wrap_long(2 ** 40) },
  });
  await accepted(link, sent, { durable: true, body: { a: 1 } });
  const got = await peer('get', { queue: name });
  assert.deepEqual([got.body, got.exchange, got.key, got.redelivered], ['body ✓', '', name, false]);
  const expected = {
    delivery_mode: 2, priority: 5, message_id: 'message', correlation_id: 'correlation', content_type: 'text/plain',
    timestamp: 1_700_000_000, reply_to: 'answers', app_id: 'group', user_id: 'guest',
  };
  for (const [key, value] of Object.entries(expected)) assert.equal(got.properties[key], value, key);
  for (const [key, value] of Object.entries({ s: 'text ✓', i: 5, t: true, l: 2 ** 40, 'x-a': 'note' })) {
    assert.equal(got.properties.headers[key], value, `header ${key}`);
  }
  assert.equal((await peer('get', { queue: name })).properties.type, 'amqp-1.0');
}

module.exports = { from_091, to_091 };
