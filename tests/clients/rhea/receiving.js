// Receivers: outcomes, credit, and what becomes of a message that isn't accepted.
'use strict';

const assert = require('node:assert/strict');
const {
  accepted, begin, bodiesOf, bodyOf, close, connect, count, detach, drain, ended, flush, get, queue, receiver, rhea,
  sender, take, text, texts, until,
} = require('./session');

const send = async (connection, address, ...bodies) =>
  accepted(await sender(connection, address), ...bodies.map((body) => text(body)));

const counts = (received) => {
  const { delivery_count: failures = 0, first_acquirer: first = false } = received.message;
  return [bodyOf(received), failures, first];
};

async function outcomes() {
  const [name, address] = await queue();
  const connection = await connect();
  await send(connection, address, ...texts(1, 6));
  const link = await receiver(connection, address);
  const next = async (...expected) => {
    // A settlement goes out before the credit that is granted after it.
    await flush();
    link.add_credit(1);
    const [received] = await take(link);
    assert.deepEqual(counts(received), expected);
    return received.delivery;
  };
  (await next('1', 0, true)).accept();
  (await next('2', 0, true)).reject();
  (await next('3', 0, true)).release();
  (await next('3', 0, false)).modified({ delivery_failed: true });
  (await next('3', 1, false)).accept();
  (await next('4', 0, true)).modified({ delivery_failed: true, undeliverable_here: true });
  (await next('5', 0, true)).accept();
  await flush();
  assert.deepEqual(await drain(link), []);
  assert.equal(await count(name), 0);
}

function deadLettered({ message }, name, reason) {
  const annotations = message.message_annotations;
  const deaths = annotations['x-opt-deaths'];
  assert.equal(deaths.length, 1);
  const { queue: from, reason: because, count: times, exchange, 'routing-keys': keys } = deaths[0];
  assert.deepEqual([from, because, times, exchange, [...keys]], [name, reason, 1, '', [name]]);
  for (const when of ['first', 'last']) {
    assert.deepEqual(['queue', 'reason', 'exchange'].map((what) => annotations[`x-${when}-death-${what}`]),
      [name, reason, '']);
  }
}

const deadLettering = (dead) => ({ 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead });

async function dead_letter() {
  const [dead, deadAddress] = await queue('dead');
  const [name, address] = await queue('q', deadLettering(dead));
  const connection = await connect();
  await send(connection, address, 'rejected', 'undeliverable');
  const link = await receiver(connection, address);
  link.add_credit(2);
  const [first, second] = await take(link, 2);
  first.delivery.reject({ condition: 'app:bad', description: 'no use' });
  second.delivery.modified({ undeliverable_here: true });
  for (const body of ['rejected', 'undeliverable']) {
    const received = await get(connection, deadAddress);
    assert.equal(bodyOf(received), body);
    deadLettered(received, name, 'rejected');
  }
  assert.equal(await count(name), 0);
}

async function ttl() {
  const [dead, deadAddress] = await queue('dead');
  const [name, address] = await queue('q', deadLettering(dead));
  const connection = await connect();
  const link = await sender(connection, address);
  await accepted(link, text('short', { ttl: 1 }));
  const received = await get(connection, deadAddress);
  deadLettered(received, name, 'expired');
  assert.equal(received.message.ttl, undefined);
  await accepted(link, text('long', { ttl: 600_000 }), text('plain', { durable: false }), text('high', { priority: 9 }));
  const messages = [];
  for (let number = 0; number < 3; number++) messages.push((await get(connection, address)).message);
  const [long, plain, high] = messages;
  assert.ok(long.ttl > 0 && long.ttl <= 600_000, `ttl ${long.ttl}`);
  assert.deepEqual([long.durable, plain.durable ?? false, plain.priority ?? 4, high.priority], [true, false, 4, 9]);
}

async function detach_requeues() {
  const [, address] = await queue();
  const connection = await connect();
  await send(connection, address, ...texts(0, 10));
  const ten = async (from) => {
    const link = await receiver(from, address);
    link.add_credit(10);
    assert.deepEqual(bodiesOf(await take(link, 10)), texts(0, 10));
    return link;
  };
  await detach(await ten(connection));
  const link = await ten(connection);
  link.detach();
  await until(() => ended(link), 'detach without close');
  const session = await begin(connection);
  await ten(session);
  session.close();
  await until(() => session.remote.end, 'end');
  const other = await connect();
  await ten(other);
  await close(other);
  await ten(connection);
}

async function credit() {
  const [name, address] = await queue();
  const connection = await connect();
  await send(connection, address, ...texts(0, 20));
  const link = await receiver(connection, address);
  const nothing = async (left, what) => {
    await flush();
    // The queue takes this confirmed message in after the settlement: had that granted anything, it would show.
    await send(connection, address, String(what));
    assert.deepEqual([link.inbox.length, await count(name)], [0, left]);
  };
  link.add_credit(1);
  let taken = await take(link);
  assert.deepEqual(bodiesOf(taken), ['0']);
  taken.forEach(({ delivery }) => delivery.accept());
  await nothing(20, 20);
  link.add_credit(10);
  taken = await take(link, 10);
  assert.deepEqual(bodiesOf(taken), texts(1, 11));
  taken.forEach(({ delivery }) => delivery.accept());
  await nothing(11, 21);
  link.add_credit(20);
  assert.deepEqual(bodiesOf(await take(link, 11)), texts(11, 22));
  await send(connection, address, '22');
  assert.deepEqual(bodiesOf(await take(link)), ['22']);
}

module.exports = { outcomes, dead_letter, ttl, detach_requeues, credit, deadLettered, send };

async function drainScenario() {
  const [, address] = await queue();
  const connection = await connect();
  await send(connection, address, ...texts(0, 3));
  const link = await receiver(connection, address);
  assert.deepEqual(bodiesOf(await drain(link, 10)), texts(0, 3));
  assert.equal(link.credit, 0);
  assert.deepEqual(await drain(link, 5), []);
  assert.equal(link.credit, 0);
  await send(connection, address, '3');
  assert.equal(link.inbox.length, 0);
  link.add_credit(1);
  assert.deepEqual(bodiesOf(await take(link)), ['3']);
}

async function settled_receive() {
  const [name, address] = await queue();
  const connection = await connect();
  await send(connection, address, ...texts(0, 10));
  const link = await receiver(connection, address, { snd_settle_mode: 1 });
  assert.equal(link.snd_settle_mode, 1);
  link.add_credit(11);
  const taken = await take(link, 10);
  assert.deepEqual(bodiesOf(taken), texts(0, 10));
  assert.ok(taken.every(({ delivery }) => delivery.remote_settled));
  await detach(link);
  assert.equal(await count(name), 0);
}

async function two_receivers() {
  const connection = await connect();
  const links = [];
  for (const name of ['a', 'b']) {
    const [, address] = await queue(name);
    const own = await receiver(connection, address, { credit_window: 10, autoaccept: true });
    links.push([await sender(connection, address), own]);
  }
  for (const [mark, [link]] of links.entries()) {
    await accepted(link, ...texts(0, 200).map((number) => text(`${mark} ${number}`)));
  }
  for (const [mark, [, link]] of links.entries()) {
    assert.deepEqual(bodiesOf(await take(link, 200)), texts(0, 200).map((number) => `${mark} ${number}`));
  }
  const [, address] = await queue('both');
  const both = [await receiver(connection, address), await receiver(connection, address)];
  both.forEach((link) => link.add_credit(10));
  await flush();
  await send(connection, address, ...texts(0, 20));
  const seen = [...bodiesOf(await take(both[0], 10)), ...bodiesOf(await take(both[1], 10))];
  assert.deepEqual(seen.sort((a, b) => a - b), texts(0, 20));
}

async function consumer_priority() {
  const [, address] = await queue();
  const connection = await connect();
  const low = await receiver(connection, address);
  const high = await receiver(connection, address, { properties: { 'rabbitmq:priority': rhea.types.wrap_int(5) } });
  low.add_credit(10);
  high.add_credit(10);
  await flush();
  await send(connection, address, ...texts(0, 10));
  assert.deepEqual(bodiesOf(await take(high, 10)), texts(0, 10));
  assert.equal(low.inbox.length, 0);
  await send(connection, address, ...texts(10, 15));
  assert.deepEqual(bodiesOf(await take(low, 5)), texts(10, 15));
}

async function backlog() {
  const number = 20_000;
  const [name, address] = await queue();
  const connection = await connect();
  const out = await sender(connection, address);
  let outcomesLeft = number;
  out.on('accepted', () => {
    outcomesLeft -= 1;
  });
  for (let sent = 0; sent < number; ) {
    await until(() => out.sendable(), 'credit to send');
    // As many as the credit and the library's buffer of deliveries allow.
    for (let credit = out.credit; credit > 0 && out.sendable() && sent < number; credit--, sent++) {
      out.send(text(String(sent)));
    }
    await flush();
  }
  await new Promise((resolve) => {
    out.on('settled', () => outcomesLeft === 0 && resolve());
    if (outcomesLeft === 0) resolve();
  });
  assert.equal(await count(name), number);
  const link = await receiver(connection, address, { credit_window: 100, autoaccept: true });
  for (let seen = 0; seen < number; seen += 100) {
    assert.deepEqual(bodiesOf(await take(link, 100)), texts(seen, seen + 100));
  }
  link.set_credit_window(0);
  assert.deepEqual(await drain(link), []);
  assert.equal(await count(name), 0);
}

Object.assign(module.exports, {
  drain: drainScenario, settled_receive, two_receivers, consumer_priority, backlog,
});
