// Connections and sessions.
'use strict';

const assert = require('node:assert/strict');
const {
  accepted, ask, begin, bodiesOf, close, connect, count, get, isCondition, queue, receiver, sender, start, take, text,
  texts, until,
} = require('./session');

async function login() {
  await close(await connect());
  await close(await connect({ username: 'anonymous', password: undefined }));
  const refused = await start({ password: 'wrong' });
  await until(() => refused.gone, 'the refusal');
  assert.match(String(refused.why ?? refused.error), /authenticat/i);
}

async function vhost() {
  const [name, address] = await queue();
  const connection = await connect({ hostname: 'vhost:/' });
  await accepted(await sender(connection, address), text('here'));
  assert.equal(await count(name), 1);
  const refused = await start({ hostname: 'vhost:no such' });
  await until(() => refused.gone, 'the refusal');
  // RabbitMQ breaks the connection without a word.
  if (refused.error) isCondition(refused.error, 'amqp:unauthorized-access', 'no such');
}

async function sessions() {
  const connection = await connect();
  const ends = [];
  for (const name of ['a', 'b']) {
    const session = await begin(connection);
    const [, address] = await queue(name);
    const links = [session, await sender(session, address), await receiver(session, address)];
    links[2].add_credit(20);
    ends.push(links);
  }
  for (const [mark, [, link]] of ends.entries()) {
    await accepted(link, ...texts(0, 10).map((number) => text(`${mark} ${number}`)));
  }
  for (const [mark, [, , link]] of ends.entries()) {
    const taken = await take(link, 10);
    assert.deepEqual(bodiesOf(taken), texts(0, 10).map((number) => `${mark} ${number}`));
    taken.forEach(({ delivery }) => delivery.accept());
  }
  const [first] = ends[0];
  first.close();
  await until(() => first.remote.end, 'end');
  await accepted(ends[1][1], ...texts(10, 20).map((body) => text(body)));
  assert.deepEqual(bodiesOf(await take(ends[1][2], 10)), texts(10, 20));
}

async function many_links() {
  const session = await begin(await connect());
  const links = [];
  for (const number of texts(0, 50)) {
    const [, address] = await queue(number);
    const pair = [await sender(session, address), await receiver(session, address)];
    pair[1].add_credit(5);
    links.push(pair);
  }
  for (const [number, [link]] of links.entries()) await accepted(link, text(`for ${number}`));
  for (const [number, [, link]] of links.entries()) {
    assert.deepEqual(bodiesOf(await take(link)), [`for ${number}`]);
  }
  session.close();
  await until(() => session.remote.end, 'end');
}

async function heartbeats() {
  const connection = await connect({ idle_time_out: 1000 });
  // The library closes a connection on which nothing came for twice its idle-time-out, and restarts that timer with
  // whatever comes: two restarts are two empty frames.
  let frames = 0;
  connection.socket.on('data', (data) => {
    frames += data.includes(Buffer.from('0000000802000000', 'hex')) ? 1 : 0;
  });
  await new Promise((resolve) => {
    connection.socket.on('data', () => frames >= 2 && resolve());
  });
  const [name, address] = await queue();
  await accepted(await sender(connection, address), text('awake'));
  assert.equal(await count(name), 1);
}

async function heartbeat_loss() {
  const connection = await connect();
  assert.equal(await ask('mute'), 'closed');
  await until(() => connection.gone, 'the end of the connection');
  isCondition(connection.error, 'amqp:resource-limit-exceeded', 'idle');
}

async function reconnect() {
  const [name, address] = await queue();
  const first = await connect();
  await accepted(await sender(first, address), text('before'));
  assert.equal(await ask('ready kill'), 'go');
  await until(() => first.gone, 'the end of the connection');
  const connection = await connect();
  assert.equal(await count(name), 1);
  const received = await get(connection, address);
  assert.deepEqual([bodiesOf([received]), received.message.durable], [['before'], true]);
  await accepted(await sender(connection, address), text('after'));
  assert.deepEqual(bodiesOf([await get(connection, address)]), ['after']);
}

async function shutdown() {
  const connection = await connect();
  assert.equal(await ask('ready term'), 'go');
  await until(() => connection.gone, 'the end of the connection');
  const { condition, description } = connection.error;
  assert.ok(['amqp:connection:forced', 'amqp:internal-error'].includes(condition), condition);
  assert.ok(description.startsWith('Connection forced'), description);
}

module.exports = { login, vhost, sessions, many_links, heartbeats, heartbeat_loss, reconnect, shutdown };
