// What the scenarios share: connections, links, checks, and the lines to the harness.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const readline = require('node:readline');
const rhea = require('rhea');

const [uri, , , scenario] = process.argv.slice(2);
const [host, port] = uri.split('@')[1].split('/')[0].split(':');
const authority = process.env.LEVERET_TEST_CA;
const tls = authority ? { transport: 'tls', ca: [fs.readFileSync(authority)] } : {};
const prefix = `cell.${scenario}.${process.pid}`;
const replies = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const patienceMs = 30_000;

async function ask(line) {
  console.log(line);
  return (await replies.next()).value;
}

async function peer(what, request = {}) {
  const answer = JSON.parse(await ask(`peer ${JSON.stringify({ do: what, ...request })}`));
  assert.equal(answer.error, undefined, `peer ${what}`);
  return answer;
}

// A durable queue; its name and its address.
async function queue(name = 'q', args = {}) {
  await peer('declare', { queue: `${prefix}.${name}`, arguments: args });
  return [`${prefix}.${name}`, `/queues/${prefix}.${name}`];
}

const count = async (name) => (await peer('count', { queue: name })).messages;

// Conditions that somebody waits for, tried after every event.
const waiters = new Set();

function poke() {
  for (const waiter of [...waiters]) waiter();
}

function until(condition, what) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => done(() => reject(new Error(`${what}: nothing came`))), patienceMs);
    const done = (end) => {
      clearTimeout(timer);
      waiters.delete(attempt);
      end();
    };
    const attempt = () => {
      if (condition()) done(resolve);
    };
    waiters.add(attempt);
    attempt();
  });
}

// What was done up to now is on its way: the library writes at the next tick.
const flush = () => new Promise((resolve) => setImmediate(resolve));

const container = rhea.create_container();
for (const event of [
  'connection_open', 'connection_close', 'connection_error', 'disconnected', 'protocol_error', 'error',
  'session_open', 'session_close', 'session_error', 'receiver_open', 'receiver_close', 'receiver_error',
  'receiver_drained', 'receiver_flow', 'sender_open', 'sender_close', 'sender_error', 'sendable', 'sender_flow',
  'accepted', 'rejected', 'released', 'modified', 'settled',
]) {
  container.on(event, (context) => {
    if (event === 'disconnected') context.connection.gone = true;
    if (event === 'connection_close') context.connection.gone = true;
    if (event === 'connection_error' && context.error) context.connection.why = context.error;
    poke();
  });
}
container.on('message', ({ message, delivery, receiver }) => {
  receiver.inbox.push({ message, delivery });
  poke();
});

// What the broker said when the link, its session or its connection ended.
function why(link) {
  return link.error ?? link.session?.error ?? link.session?.remote?.end?.error ?? link.connection?.error;
}

const reason = (link) => `${why(link)?.condition}: ${why(link)?.description}`;

const ended = (endpoint) =>
  Boolean(endpoint.remote.detach ?? endpoint.remote.end ?? endpoint.session?.remote.end) ||
  Boolean((endpoint.connection ?? endpoint).gone);

function isCondition(error, condition, words = '') {
  assert.ok(error, `${condition} expected, ended without an error`);
  assert.equal(error.condition, condition, `${error.description}`);
  assert.ok((error.description ?? '').includes(words), `${error.description} doesn't have ${words}`);
}

async function start(options = {}) {
  const connection = container.connect({
    host, port: Number(port), username: 'guest', password: 'guest', reconnect: false, ...tls, ...options,
  });
  connection.gone = false;
  return connection;
}

async function connect(options) {
  const connection = await start(options);
  await until(() => connection.is_remote_open() || connection.gone, 'open');
  assert.ok(!connection.gone, `the connection ended: ${connection.why ?? connection.error}`);
  return connection;
}

async function close(connection) {
  connection.close();
  await until(() => connection.gone, 'close');
}

async function begin(connection) {
  const session = connection.create_session();
  session.begin();
  await until(() => session.is_remote_open(), 'begin');
  return session;
}

async function attach(link, refusal) {
  const terminus = link.is_receiver() ? 'source' : 'target';
  // A refusal is an attach without terminus, followed by a detach with the reason.
  await until(() => (link.remote.attach && link.remote.attach[terminus]) || ended(link), 'attach');
  if (!refusal) assert.ok(!ended(link), `attach was refused: ${reason(link)}`);
  return link;
}

// `from` is a connection or a session.
async function sender(from, target, options = {}, refusal = false) {
  return attach(from.open_sender({ target: target === null ? {} : { address: target }, ...options }), refusal);
}

async function receiver(from, source, options = {}, refusal = false) {
  const link = from.open_receiver({
    source: typeof source === 'string' ? { address: source } : source, credit_window: 0, autoaccept: false,
    autosettle: true, ...options,
  });
  link.inbox = [];
  return attach(link, refusal);
}

async function refused(link, condition, words) {
  await until(() => ended(link), `${condition} expected`);
  isCondition(why(link), condition, words);
}

async function detach(link) {
  link.close();
  await until(() => ended(link), 'detach');
}

const stateOf = (delivery) => delivery.remote_state?.constructor.composite_type;

async function sendAll(link, messages) {
  const deliveries = [];
  for (const message of messages) {
    await until(() => link.sendable() || ended(link), 'credit to send');
    assert.ok(!ended(link), `the link ended: ${reason(link)}`);
    deliveries.push(Buffer.isBuffer(message) ? link.send(message, undefined, 0) : link.send(message));
  }
  for (const delivery of deliveries) {
    await until(() => delivery.remote_state || delivery.remote_settled || ended(link), 'an outcome');
  }
  return deliveries;
}

async function accepted(link, ...messages) {
  for (const delivery of await sendAll(link, messages)) {
    assert.equal(stateOf(delivery), 'accepted', `outcome (${reason(link)})`);
  }
}

const outcome = async (link, message) => stateOf((await sendAll(link, [message]))[0]);

// The next messages of a receiver, which must have the credit.
async function take(link, number = 1) {
  await until(() => link.inbox.length >= number || ended(link), `${number} deliveries`);
  assert.ok(!ended(link), `the link ended: ${reason(link)}`);
  return link.inbox.splice(0, number);
}

// Drains; what came until the credit was used up.
async function drain(link, credit = 0) {
  if (credit) link.add_credit(credit);
  let drained = false;
  link.observers.once('receiver_drained', () => {
    drained = true;
  });
  link.drain_credit();
  await until(() => drained || ended(link), 'the end of a drain');
  return link.inbox.splice(0);
}

// Takes and accepts one message over a link of its own.
async function get(from, source) {
  const link = await receiver(from, source);
  link.add_credit(1);
  const [received] = await take(link);
  received.delivery.accept();
  await flush();
  await detach(link);
  return received;
}

// A message with one data section.
const text = (body, fields = {}) => ({ durable: true, body: rhea.message.data_section(Buffer.from(body)), ...fields });
const bodyOf = ({ message }) => message.body.content.toString();
const bodiesOf = (received) => received.map(bodyOf);
const texts = (first, last) => Array.from({ length: last - first }, (_, index) => String(first + index));

module.exports = {
  accepted, ask, attach, begin, bodiesOf, bodyOf, close, connect, count, detach, drain, ended, flush, get, isCondition,
  outcome, peer, prefix, queue, receiver, refused, rhea, scenario, sendAll, sender, start, stateOf, take, text, texts,
  until, why,
};
