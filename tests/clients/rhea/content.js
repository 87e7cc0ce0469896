// What a message carries.
'use strict';

const assert = require('node:assert/strict');
const { accepted, connect, get, queue, rhea, sender, text } = require('./session');

const { types } = rhea;

async function sections() {
  const [name, address] = await queue();
  const uuid = Buffer.from('0123456789abcdef0123456789abcdef', 'hex');
  const sent = {
    durable: true, priority: 7, ttl: 600_000,
    message_annotations: { 'x-s': 'note ✓', 'x-i': types.wrap_int(-5) },
    message_id: 'id ✓', user_id: Buffer.from('guest'), to: 'to', subject: 'subject', reply_to: '/queues/answers',
    correlation_id: 'correlation ✓', content_type: 'text/plain', content_encoding: 'utf-8',
    absolute_expiry_time: 4_000_000_000_000, creation_time: 1_700_000_000_123, group_id: 'group', group_sequence: 7,
    reply_to_group_id: 'back',
    application_properties: {
      null: null, true: true, false: false, ubyte: types.wrap_ubyte(255), ushort: types.wrap_ushort(65535),
      uint: types.wrap_uint(4294967295), ulong: types.wrap_ulong(9007199254740991), byte: types.wrap_byte(-128),
      short: types.wrap_short(-32768), int: types.wrap_int(-2147483648), long: types.wrap_long(-9007199254740991),
      float: types.wrap_float(1.5), double: types.wrap_double(2.5), char: types.wrap_char(228),
      timestamp: types.wrap_timestamp(1_700_000_000_123), uuid: types.wrap_uuid(uuid),
      binary: types.wrap_binary(Buffer.from([0, 128, 255])), 'string ключ': 'wert ✓ 𝄞',
      symbol: types.wrap_symbol('sym'), empty: '', 'long string': 'x'.repeat(70_000),
    },
    // No footer: the library writes it before the body.
    body: rhea.message.data_section(Buffer.from('inhalt ✓')),
  };
  const connection = await connect();
  await accepted(await sender(connection, address), sent);
  const { message } = await get(connection, address);
  for (const key of [
    'durable', 'priority', 'message_id', 'to', 'subject', 'reply_to', 'correlation_id', 'content_type',
    'content_encoding', 'group_id', 'group_sequence', 'reply_to_group_id',
  ]) {
    assert.deepEqual(message[key], sent[key], key);
  }
  assert.equal(message.user_id.toString(), 'guest');
  for (const key of ['absolute_expiry_time', 'creation_time']) assert.equal(Number(message[key]), sent[key], key);
  assert.deepEqual([message.first_acquirer, message.delivery_count ?? 0], [true, 0]);
  assert.ok(message.ttl > 0 && message.ttl <= 600_000, `ttl ${message.ttl}`);
  const properties = { ...message.application_properties };
  const expected = { ...sent.application_properties };
  assert.deepEqual(Object.keys(properties).sort(), Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    const got = Buffer.isBuffer(properties[key]) || properties[key] === null ? properties[key] : properties[key]?.valueOf();
    const wanted = value?.value ?? value;
    assert.deepEqual(got, Buffer.isBuffer(got) ? Buffer.from(wanted) : wanted?.valueOf?.() ?? wanted, `property ${key}`);
  }
  const annotations = message.message_annotations;
  assert.deepEqual([annotations['x-s'], annotations['x-i']], ['note ✓', -5]);
  assert.deepEqual([annotations['x-exchange'], annotations['x-routing-key']], ['', name]);
  assert.equal(message.body.content.toString(), 'inhalt ✓');
}

async function message_ids() {
  const [, address] = await queue();
  const connection = await connect();
  const link = await sender(connection, address);
  const uuid = Buffer.from('0123456789abcdef0123456789abcdef', 'hex');
  const cases = [
    ['text ✓', 'text ✓'], [types.wrap_ulong(77), 77], [types.wrap_uuid(uuid), uuid],
    [types.wrap_binary(Buffer.from([0, 255])), Buffer.from([0, 255])],
  ];
  for (const [id, expected] of cases) {
    await accepted(link, text('x', { message_id: id, correlation_id: id }));
    const { message } = await get(connection, address);
    assert.deepEqual([message.message_id, message.correlation_id], [expected, expected]);
  }
}

async function bodies() {
  const [, address] = await queue();
  const connection = await connect();
  const link = await sender(connection, address);
  for (const value of ['', 'text ✓', null, 5, true, [1, 'zwei', [2]], { a: { b: { c: [1] } } }, Buffer.from([0, 255])]) {
    await accepted(link, { body: value });
    assert.deepEqual((await get(connection, address)).message.body, value);
  }
  const { data_section, data_sections, sequence_section, sequence_sections } = rhea.message;
  const [one, two] = [Buffer.from('one'), Buffer.from('two')];
  for (const [section, content, typecode] of [
    [data_section(Buffer.alloc(0)), Buffer.alloc(0), 0x75], [data_section(one), one, 0x75],
    [data_sections([one, two]), [one, two], 0x75], [sequence_section([1, 'two']), [1, 'two'], 0x76],
    [sequence_sections([[1], ['two']]), [[1], ['two']], 0x76],
  ]) {
    await accepted(link, { body: section });
    const { body } = (await get(connection, address)).message;
    assert.deepEqual([body.typecode, body.content], [typecode, content]);
  }
}

module.exports = { sections, message_ids, bodies };
