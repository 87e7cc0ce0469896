// Objects and clients that pages have something to show of. Run as a program it goes on until it is ended.
import amqp from 'amqplib';
import rhea from 'rhea';
import { ask } from './node.mjs';

/**
 * Acknowledges a message after a while, if its channel is still open then.
 * @param {any} channel @param {any} message @param {number} milliseconds
 */
export const acknowledge = (channel, message, milliseconds) =>
  setTimeout(() => {
    try {
      channel.ack(message);
    } catch {
      // The test is over.
    }
  }, milliseconds);

/** Names that must never become markup or disturb what is around them. */
export const HOSTILE = [
  '<img src=x onerror=window.broken=1>',
  `"quotes' & <b>bold</b> \`tick\``,
  'n'.repeat(255),
  'שלום עולם',
  'left\u202eright\u202c',
  'tab\there\u0007bell\u0000nul',
  'slash/and?query#hash%25percent',
  '${7*7}{{7*7}}',
  '  spaces  ',
  '🐇 émoji',
  '.',
  '..',
  '...',
  ';=..',
  ';a;b',
  '%2e%2e',
  '%2F',
  '/',
  '//',
  '../../overview',
  '?',
  '#',
  'a?b#c;d&e=f',
  '~',
  '__proto__',
  'constructor',
  'detailed',
  'without-permissions',
  'undefined',
  '\u0000',
  'ö'.repeat(127),
];

/** A name as a segment of a path, in a form that `fetch` doesn't shorten. @param {string} name */
export const segment = (name) => `;=${encodeURIComponent(name)}`;

/** @param {string} url */
export async function declare(url) {
  const put = (where, body) => ask(url, 'PUT', where, body);
  await put('vhosts/shop', { description: 'Orders and invoices', tags: 'production', default_queue_type: 'quorum' });
  await put('permissions/shop/guest', { configure: '.*', write: '.*', read: '.*' });
  await put('users/watcher', { password: 'watcher', tags: 'monitoring' });
  await put('permissions/%2F/watcher', { configure: '^$', write: '^$', read: '.*' });
  await put('users/maker', { password: 'maker', tags: 'policymaker' });
  await put('permissions/%2F/maker', { configure: '.*', write: '.*', read: '.*' });
  await put('users/plain', { password: 'plain', tags: 'management' });
  await put('permissions/%2F/plain', { configure: '^plain', write: '.*', read: '.*' });
  await put('users/untagged', { password: 'untagged', tags: '' });
  await put('topic-permissions/%2F/maker', { exchange: 'amq.topic', write: '^orders\\.', read: '.*' });
  await put('vhost-limits/shop/max-queues', { value: 500 });
  await put('user-limits/plain/max-connections', { value: 20 });
  await put('policies/%2F/short', {
    pattern: '^orders',
    'apply-to': 'queues',
    priority: 5,
    definition: { 'max-length': 100000, 'dead-letter-exchange': 'dead' },
  });
  await put('policies/%2F/all', { pattern: '', 'apply-to': 'queues', priority: 0, definition: { 'max-length': 5000000 } });
  await put('operator-policies/%2F/ceiling', {
    pattern: '^orders',
    'apply-to': 'queues',
    priority: 0,
    definition: { 'max-length': 50000 },
  });
  for (const [name, type] of [
    ['orders', 'topic'],
    ['dead', 'fanout'],
    ['events', 'fanout'],
    ['audit', 'headers'],
  ])
    await put(`exchanges/%2F/${name}`, { type, durable: true });
  for (const name of ['orders.new', 'orders.paid', 'orders.shipped', 'invoices', 'mail', 'idle'])
    await put(`queues/%2F/${name}`, { durable: true, arguments: {} });
  await put('queues/%2F/payments.failed', { durable: true, arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 2 } });
  await put('queues/%2F/work', { durable: true, arguments: { 'x-queue-type': 'quorum' } });
  await put('queues/%2F/log', { durable: true, arguments: { 'x-queue-type': 'stream', 'x-max-length-bytes': 50000000 } });
  await put('queues/shop/basket', { durable: true, arguments: {} });
  await put('stream/super-streams/%2F/clicks', { partitions: 3, arguments: {} });
  const bind = (source, kind, destination, key, args = {}) =>
    ask(url, 'POST', `bindings/%2F/e/${source}/${kind}/${destination}`, { routing_key: key, arguments: args });
  for (const [key, queue] of [
    ['order.new', 'orders.new'],
    ['order.paid', 'orders.paid'],
    ['order.paid', 'invoices'],
    ['order.shipped', 'orders.shipped'],
    ['order.#', 'log'],
    ['order.*.vip', 'mail'],
  ])
    await bind('orders', 'q', queue, key);
  await bind('dead', 'q', 'payments.failed', '');
  await bind('orders', 'e', 'events', 'order.#');
  await bind('events', 'q', 'work', '');
  await bind('audit', 'q', 'idle', '', { 'x-match': 'all', kind: 'audit' });
}

/** @param {string} url */
export async function hostile(url) {
  for (const name of HOSTILE) {
    const encoded = segment(name);
    await ask(url, 'PUT', `queues/%2F/${encoded}`, { durable: true, arguments: {} });
    await ask(url, 'PUT', `exchanges/%2F/${encoded}`, { type: 'direct' });
    await ask(url, 'POST', `bindings/%2F/e/${encoded}/q/${encoded}`, { routing_key: name, arguments: { [name]: name } });
    await ask(url, 'POST', `exchanges/%2F/${encoded}/publish`, {
      properties: { headers: { [name]: name }, type: '<b>' },
      routing_key: name,
      payload: name,
      payload_encoding: 'string',
    });
    await ask(url, 'PUT', `policies/%2F/${encoded}`, {
      pattern: '^none$',
      'apply-to': 'queues',
      definition: { 'max-length': 1 },
    });
    await ask(url, 'PUT', `users/${encoded}`, { password: 'x', tags: name.replaceAll(',', '') });
    await ask(url, 'PUT', `vhosts/${encoded}`, { description: name, tags: '' });
  }
}

/**
 * Clients of both AMQPs that publish, consume quickly, slowly, and not at all.
 * @param {{amqp: number, http: number}} ports
 */
export async function run(ports) {
  const connect = async (name) => {
    const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${ports.amqp}`, {
      clientProperties: { connection_name: name },
    });
    connection.on('error', () => {});
    return connection;
  };
  const timers = [];
  const publisher = await connect('shop frontend');
  const channel = await publisher.createConfirmChannel();
  channel.on('error', () => {});
  let n = 0;
  timers.push(
    setInterval(() => {
      for (let at = 0; at < 20; at += 1) {
        n += 1;
        const kind = ['new', 'paid', 'shipped'][n % 3];
        channel.publish(
          'orders',
          `order.${kind}`,
          Buffer.from(
            JSON.stringify({
              order: n,
              state: kind,
              total: (n * 7.31) % 400,
              items: [{ sku: `A-${n % 97}`, count: 1 + (n % 4) }],
              at: new Date().toISOString(),
            }),
          ),
          { persistent: true, contentType: 'application/json', messageId: `m-${n}`, headers: { source: 'frontend', attempt: 1 } },
        );
      }
    }, 50),
  );
  const fast = await connect('billing');
  const consuming = await fast.createChannel();
  await consuming.prefetch(200);
  for (const queue of ['orders.paid', 'orders.new', 'work'])
    await consuming.consume(queue, (message) => message && consuming.ack(message), { consumerTag: `billing-${queue}` });
  const slow = await connect('warehouse');
  const slowly = await slow.createChannel();
  await slowly.prefetch(1);
  await slowly.consume('orders.shipped', (message) => message && acknowledge(slowly, message, 400), { consumerTag: 'packer' });
  const failing = await connect('mailer');
  const failingly = await failing.createChannel();
  await failingly.prefetch(5);
  await failingly.consume('invoices', (message) => message && failingly.ack(message), { consumerTag: 'mailer' });
  // Messages that no consumer takes, and some that come to their delivery limit.
  for (let at = 0; at < 300; at += 1) channel.sendToQueue('mail', Buffer.from(`mail number ${at}`), { persistent: true });
  for (let at = 0; at < 12; at += 1)
    channel.sendToQueue('payments.failed', Buffer.from(JSON.stringify({ broken: at })), {
      persistent: true,
      contentType: 'application/json',
    });
  await channel.waitForConfirms();
  const rejecting = await failing.createChannel();
  const { consumerTag } = await rejecting.consume('payments.failed', (message) => message && rejecting.reject(message, true));
  setTimeout(() => rejecting.cancel(consumerTag).catch(() => {}), 2000);
  const container = rhea.create_container({ id: 'reports' });
  container.on('connection_error', () => {});
  container.on('disconnected', () => {});
  const one = container.connect({ host: '127.0.0.1', port: ports.amqp, username: 'guest', password: 'guest', reconnect: false });
  const receiver = one.open_receiver({ source: '/queues/log', credit_window: 0 });
  one.open_sender('/queues/idle');
  receiver.add_credit(50);
  return async () => {
    timers.forEach(clearInterval);
    one.close();
    await Promise.all([publisher, fast, slow, failing].map((connection) => connection.close().catch(() => {})));
  };
}

if (process.argv[1] === import.meta.filename) {
  const [, , amqpPort, httpPort] = process.argv.map(Number);
  const url = `http://127.0.0.1:${httpPort}`;
  await declare(url);
  if (process.argv.includes('--hostile')) await hostile(url);
  const stop = await run({ amqp: amqpPort, http: httpPort });
  process.on('SIGTERM', async () => {
    await stop();
    process.exit(0);
  });
}
