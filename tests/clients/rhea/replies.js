// Dynamic nodes and what they are for; browsing.
'use strict';

const assert = require('node:assert/strict');
const {
  accepted, bodiesOf, connect, count, detach, drain, queue, receiver, refused, rhea, sender, take, text, texts,
} = require('./session');

const { types } = rhea;

const temporaryQueue = () => ({
  dynamic: true, expiry_policy: 'link-detach', capabilities: ['temporary-queue'],
  dynamic_node_properties: { 'lifetime-policy': types.described(types.wrap_ulong(0x2b), types.wrap_list([])) },
});
const volatileQueue = () => ({ dynamic: true, expiry_policy: 'link-detach', capabilities: ['rabbitmq:volatile-queue'] });

async function dynamic_node() {
  const [connection, other] = [await connect(), await connect()];
  const link = await receiver(connection, temporaryQueue());
  const { address } = link.source;
  assert.ok(address.startsWith('/queues/'), address);
  link.add_credit(1);
  await accepted(await sender(other, address), text('hello'));
  assert.deepEqual(bodiesOf(await take(link)), ['hello']);
  await refused(await receiver(other, address, {}, true), 'amqp:resource-locked');
  await detach(link);
  await refused(await receiver(await connect(), address, {}, true), 'amqp:not-found');
}

async function exchangeRequests(source, options, settled) {
  const [, requests] = await queue('requests');
  const [client, server] = [await connect(), await connect()];
  const answers = await receiver(client, source, options);
  answers.add_credit(3);
  const asking = await sender(client, requests);
  const asked = await receiver(server, requests);
  const answering = await sender(server, null);
  asked.add_credit(3);
  for (let number = 0; number < 3; number++) {
    const question = text(`question ${number}`, { message_id: `m${number}`, reply_to: answers.source.address });
    await accepted(asking, question);
    const [{ message, delivery }] = await take(asked);
    await accepted(answering, text(`answer ${number}`, { to: message.reply_to, correlation_id: message.message_id }));
    delivery.accept();
    const [answer] = await take(answers);
    assert.deepEqual([bodiesOf([answer]), answer.message.correlation_id], [[`answer ${number}`], `m${number}`]);
    assert.equal(answer.delivery.remote_settled, settled);
    if (!settled) answer.delivery.accept();
  }
}

const request_reply = () => exchangeRequests(temporaryQueue(), {}, false);
const direct_reply_to = () => exchangeRequests(volatileQueue(), { snd_settle_mode: 1 }, true);

async function browse() {
  const [name, address] = await queue();
  const connection = await connect();
  await accepted(await sender(connection, address), ...texts(0, 5).map((body) => text(body)));
  for (let round = 0; round < 2; round++) {
    const browser = await receiver(connection, { address, distribution_mode: 'copy' });
    assert.equal(browser.source.distribution_mode, 'copy');
    const taken = await drain(browser, 10);
    assert.deepEqual(bodiesOf(taken), texts(0, 5));
    taken.forEach(({ delivery }) => delivery.accept());
    await detach(browser);
  }
  assert.equal(await count(name), 5);
  const link = await receiver(connection, address);
  link.add_credit(5);
  const taken = await take(link, 5);
  assert.deepEqual(bodiesOf(taken), texts(0, 5));
  for (const { message } of taken) assert.deepEqual([message.delivery_count ?? 0, message.first_acquirer], [0, true]);
}

module.exports = { dynamic_node, request_reply, direct_reply_to, browse };
