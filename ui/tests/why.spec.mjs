// Ten staged cases: the page names what is wrong with each queue, and leads to the cause.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import amqp from 'amqplib';
import rhea from 'rhea';
import { Node, ask, pageOf } from './node.mjs';
import { acknowledge } from './traffic.mjs';
import { expect, test } from './page.mjs';

/** @param {import('@playwright/test').Page} page @param {string} url @param {string} queue */
async function look(page, url, queue) {
  await page.goto(`${url}#/queues/%2F/${queue}`);
  const login = page.getByRole('button', { name: 'Sign in' });
  await login.or(page.locator('.shell')).first().waitFor();
  if (await login.isVisible()) {
    await page.getByLabel('User', { exact: true }).fill('guest');
    await page.getByLabel('Password').fill('guest');
    await login.click();
  }
  await page.locator('h1', { hasText: queue }).waitFor();
}

/** @param {import('@playwright/test').Page} page @param {string} label @param {RegExp} sentence */
async function named(page, label, sentence) {
  const first = page.locator('.finding').first();
  await expect(first.locator('.finding-label')).toHaveText(label, { timeout: 15_000 });
  await expect(first).toContainText(sentence);
  return first;
}

/** @param {Node} node */
async function client(node) {
  const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${node.amqp}`);
  connection.on('error', () => {});
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => {});
  return { connection, channel };
}

test('eight cases of queues and consumers are named right', async ({ page }) => {
  test.setTimeout(240_000);
  const alarms = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-alarms-')), 'alarms');
  fs.writeFileSync(alarms, '');
  const node = await Node.start({ 'debug.alarms_file': alarms });
  const served = await pageOf(node);
  const timers = [];
  const { connection, channel } = await client(node);
  /** @param {string} name @param {Record<string, any>} [args] @param {number} [messages] */
  const queue = async (name, args = {}, messages = 0) => {
    await channel.assertQueue(name, { arguments: args });
    for (let at = 0; at < messages; at += 1) channel.sendToQueue(name, Buffer.from(`message ${at}`), { persistent: true });
    await channel.waitForConfirms();
  };
  /** @param {number} prefetch @param {string} name @param {(message: any, own: any) => void} take */
  const consume = async (prefetch, name, take) => {
    const own = await connection.createChannel();
    own.on('error', () => {});
    if (prefetch) await own.prefetch(prefetch);
    await own.consume(name, (message) => message && take(message, own), { consumerTag: `of ${name}` });
  };
  try {
    await queue('abandoned', {}, 50);
    await queue('slow', {}, 500);
    await consume(20, 'slow', (message, own) => acknowledge(own, message, 3000));
    await queue('single', {}, 3000);
    await consume(1, 'single', (message, own) => acknowledge(own, message, 20));
    await queue('pile', {}, 1500);
    await consume(0, 'pile', () => {});
    await queue('loop', {}, 20);
    await consume(10, 'loop', (message, own) => own.nack(message, false, true));
    await queue('drops', { 'x-max-length': 10 });
    timers.push(setInterval(() => channel.sendToQueue('drops', Buffer.from('one more')), 20));
    await queue('thirsty', {}, 100);
    const one = rhea
      .create_container()
      .connect({ host: '127.0.0.1', port: node.amqp, username: 'guest', password: 'guest', reconnect: false });
    one.open_receiver({ source: '/queues/thirsty', credit_window: 0 }).add_credit(10);

    await look(page, served.url, 'abandoned');
    await named(page, 'no consumers', /50 ready messages, and no consumer/);
    await look(page, served.url, 'slow');
    const slow = await named(page, 'slow consumer', /Consumer of slow of user guest holds 20 messages/);
    await expect(slow.getByRole('link', { name: 'of slow' })).toHaveAttribute('href', /#\/connections\//);
    await look(page, served.url, 'single');
    await named(page, 'small prefetch', /has a prefetch of 1/);
    await look(page, served.url, 'pile');
    await named(page, 'unacknowledged', /1,500 messages are delivered and not acknowledged/);
    await look(page, served.url, 'loop');
    await named(page, 'redelivery loop', /come back again and again/);
    await look(page, served.url, 'drops');
    await named(page, 'drops messages', /its limit of 10 messages \(argument of the queue\)/);
    await look(page, served.url, 'thirsty');
    await named(page, 'no link credit', /has granted no link credit/);

    fs.writeFileSync(alarms, 'memory');
    await ask(node.url, 'GET', 'overview');
    timers.push(setInterval(() => channel.sendToQueue('abandoned', Buffer.from('blocked')), 50));
    await look(page, served.url, 'drops');
    await named(page, 'alarm', /An alarm for memory of the node is raised/);
    await expect(page.getByText('Memory alarm')).toBeVisible();
  } finally {
    timers.forEach(clearInterval);
    // The page leaves before its node does.
    await page.goto('about:blank');
    served.end();
    await node.end();
  }
});

test('slow disk syncs are named right', async ({ page }) => {
  test.setTimeout(120_000);
  const node = await Node.start({ 'debug.sync_delay_ms': '80' });
  const served = await pageOf(node);
  const { channel } = await client(node);
  await channel.assertQueue('synced');
  let stopped = false;
  const publish = () => !stopped && channel.sendToQueue('synced', Buffer.from('one'), { persistent: true }, () => publish());
  for (let at = 0; at < 20; at += 1) publish();
  try {
    await look(page, served.url, 'synced');
    await named(page, 'slow disk syncs', /waits for the disk of the node, where a sync takes (8|9|1\d)\d ms/);
  } finally {
    stopped = true;
    // The page leaves before its node does.
    await page.goto('about:blank');
    served.end();
    await node.end();
  }
});

test('a shut window is named right', async ({ page }) => {
  test.setTimeout(120_000);
  const node = await Node.start({ unsettled_max_per_channel: '50' });
  const served = await pageOf(node);
  const { connection, channel } = await client(node);
  await channel.assertQueue('window');
  for (let at = 0; at < 200; at += 1) channel.sendToQueue('window', Buffer.from('one'));
  await channel.waitForConfirms();
  const own = await connection.createChannel();
  await own.consume('window', () => {});
  try {
    await look(page, served.url, 'window');
    await named(page, 'window shut', /leaves the incoming window of its session shut/);
  } finally {
    // The page leaves before its node does.
    await page.goto('about:blank');
    served.end();
    await node.end();
  }
});

test('the worst is named on the overview, and leads to lists', async ({ page }) => {
  test.setTimeout(120_000);
  const node = await Node.start();
  const served = await pageOf(node);
  const { connection, channel } = await client(node);
  try {
    for (let at = 0; at < 30; at += 1) {
      await channel.assertQueue(`archive${at}`);
      for (let n = 0; n < 15; n += 1) channel.sendToQueue(`archive${at}`, Buffer.from('old'));
    }
    const back = { deadLetterExchange: '', deadLetterRoutingKey: 'orders', messageTtl: 600_000 };
    await channel.assertQueue('retry', back);
    for (let n = 0; n < 100; n += 1) channel.sendToQueue('retry', Buffer.from('again'));
    await channel.waitForConfirms();
    await channel.assertQueue('orders', { maxLength: 5, arguments: { 'x-overflow': 'reject-publish' } });
    const own = await connection.createChannel();
    for (let n = 0; n < 10; n += 1) own.sendToQueue('orders', Buffer.from('refused'));
    await own.assertExchange('nowhere', 'topic');
    const lost = setInterval(() => own.publish('nowhere', 'a.key', Buffer.from('lost')), 20);

    await look(page, served.url, 'retry');
    const first = page.locator('.finding').first();
    await expect(first).toContainText(/no consumer on purpose: after 10 min 0 s a message goes on to orders/);
    await expect(first).toHaveClass(/note/);
    await page.goto(`${served.url}#/`);
    const section = page.locator('section', { hasText: 'What waits, and why' });
    await expect(section.locator('.finding').first()).toContainText(/^(full\s*orders|reaches no queue\s*nowhere): /, {
      timeout: 15_000,
    });
    await expect(section).toContainText('none reaches a queue: it has no binding');
    await expect(section.locator('.finding', { hasText: 'retry' })).toHaveCount(0);
    await section.getByRole('link', { name: /^full/ }).click();
    await expect(page.locator('tbody tr')).toHaveCount(1);
    await expect(page.getByRole('link', { name: 'orders' })).toBeVisible();
    await page.getByRole('button', { name: 'full only: show all' }).click();
    await expect(page.locator('tbody tr')).toHaveCount(32);
    await page.goto(`${served.url}#/exchanges/%2F/nowhere`);
    await named(page, 'reaches no queue', /messages a second come, and none reaches a queue/);
    clearInterval(lost);
  } finally {
    await page.goto('about:blank');
    served.end();
    await node.end();
  }
});
