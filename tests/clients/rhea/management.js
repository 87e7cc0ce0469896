// Queues, exchanges and bindings over a link pair.
'use strict';

const assert = require('node:assert/strict');
const session = require('./session');

const {
  accepted, begin, connect, detach, flush, outcome, prefix, receiver, refused, rhea, sender, take, text, until,
} = session;

async function manager(connection) {
  const options = {
    name: 'pair', snd_settle_mode: 1, properties: { paired: true }, source: { address: '/management' },
    target: { address: '/management' },
  };
  const requests = await sender(connection, '/management', options);
  const answers = await receiver(connection, '/management', options);
  let number = 0;
  return async (method, path, body = null) => {
    const id = `r${++number}`;
    answers.add_credit(1);
    // The library writes transfers before flows.
    await flush();
    await until(() => requests.sendable(), 'credit for a request');
    requests.send({ message_id: id, to: path, subject: method, reply_to: '$me', body });
    const [{ message }] = await take(answers);
    assert.equal(message.correlation_id, id);
    assert.equal(message.application_properties['http:response'], '1.1');
    return [Number(message.subject), message.body];
  };
}

const wrapped = (args) => rhea.types.wrap_map(args);
const queueOf = (args = {}, durable = true) =>
  wrapped({ durable, exclusive: false, auto_delete: false, arguments: wrapped(args) });
const exchangeOf = (type) =>
  wrapped({ type, durable: true, auto_delete: false, internal: false, arguments: wrapped({}) });

async function management() {
  const connection = await connect();
  const manage = await manager(connection);
  const status = async (...request) => (await manage(...request))[0];
  const [queue, exchange, key] = [`${prefix}.q ü/`, `${prefix}.x ü/`, 'k ü'];
  const [queuePath, exchangePath] = [`/queues/${encodeURIComponent(queue)}`, `/exchanges/${encodeURIComponent(exchange)}`];
  assert.equal(await status('PUT', queuePath, queueOf()), 201);
  assert.equal(await status('PUT', queuePath, queueOf()), 200);
  const [found, info] = await manage('GET', queuePath);
  assert.equal(found, 200);
  // The library reads the two-byte form of true as 1.
  assert.deepEqual([info.name, Boolean(info.durable), info.type, info.message_count, info.consumer_count],
    [queue, true, 'classic', 0, 0]);
  assert.equal(await status('PUT', exchangePath, exchangeOf('direct')), 204);
  const binding = wrapped({ source: exchange, destination_queue: queue, binding_key: key, arguments: wrapped({}) });
  assert.equal(await status('POST', '/bindings', binding), 204);
  const query = `?src=${encodeURIComponent(exchange)}&dstq=${encodeURIComponent(queue)}&key=${encodeURIComponent(key)}`;
  const [, bindings] = await manage('GET', `/bindings${query}`);
  assert.equal(bindings.length, 1);
  assert.deepEqual([bindings[0].source, bindings[0].destination_queue, bindings[0].binding_key], [exchange, queue, key]);
  const link = await sender(connection, `${exchangePath}/${encodeURIComponent(key)}`);
  await accepted(link, text('x'));
  const [purged, { message_count: removed }] = await manage('DELETE', `${queuePath}/messages`);
  assert.deepEqual([purged, removed], [200, 1]);
  assert.equal(await status('DELETE', bindings[0].location), 204);
  assert.equal(await status('DELETE', bindings[0].location), 204);
  assert.equal(await outcome(link, text('x')), 'released');
  assert.deepEqual(await manage('GET', `/bindings${query}`), [200, []]);
  await detach(link);
  assert.equal(await status('DELETE', exchangePath), 204);
  const [deleted, { message_count: left }] = await manage('DELETE', queuePath);
  assert.deepEqual([deleted, left], [200, 0]);
  assert.equal(await status('GET', queuePath), 404);
}

async function management_errors() {
  const connection = await connect();
  const manage = await manager(connection);
  const [, path] = await session.queue();
  const [exchange, missing] = [`${prefix}.x`, `${prefix}.missing`];
  assert.equal((await manage('PUT', `/exchanges/${exchange}`, exchangeOf('direct')))[0], 204);
  const fails = async (status, words, ...request) => {
    const [got, why] = await manage(...request);
    assert.equal(got, status, `${request}: ${why}`);
    assert.ok((why ?? '').includes(words), `${request}: ${why} doesn't have ${words}`);
  };
  await fails(409, 'durable', 'PUT', path, queueOf({}, false));
  await fails(409, 'x-max-length', 'PUT', path, queueOf({ 'x-max-length': rhea.types.wrap_long(5) }));
  await fails(409, 'type', 'PUT', `/exchanges/${exchange}`, exchangeOf('fanout'));
  await fails(404, missing, 'GET', `/queues/${missing}`);
  await fails(404, missing, 'DELETE', `/queues/${missing}/messages`);
  await fails(409, 'x-max-length', 'PUT', `/queues/${missing}`, queueOf({ 'x-max-length': rhea.types.wrap_long(-1) }));
  await fails(403, 'amq.', 'PUT', '/queues/amq.mine', queueOf());
  await fails(403, '', 'DELETE', '/exchanges/amq.default');
  const unpaired = await sender(await begin(connection), '/management', { snd_settle_mode: 1 }, true);
  await refused(unpaired, 'amqp:invalid-field');
  assert.equal((await manage('GET', path))[0], 200);
}

module.exports = { management, management_errors };
