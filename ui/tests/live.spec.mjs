// Live taps: messages of a queue and an exchange as they pass; and the log of the node as it grows.
import path from 'node:path';
import { ask } from './node.mjs';
import { API, expect, problems, setTheme, signIn, test } from './page.mjs';

/** @param {string} exchange @param {string} key @param {string} payload */
const publish = (exchange, key, payload) =>
  ask(API(), 'POST', `exchanges/%2F/${exchange}/publish`, {
    properties: { headers: { origin: 'spec' } },
    routing_key: key,
    payload,
    payload_encoding: 'string',
  });

test('a queue shows messages as they come, by keyboard, until it is deleted', async ({ page }) => {
  await ask(API(), 'PUT', 'queues/%2F/tapped', { durable: true, arguments: {} });
  await signIn(page, 'guest', '#/queues/%2F/tapped');
  await page.getByRole('link', { name: 'Live', exact: true }).focus();
  await page.keyboard.press('Enter');
  const start = page.getByRole('button', { name: 'Start' });
  await expect(page.getByText('Stopped.')).toBeVisible();
  await start.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByText('Watching.')).toBeVisible();
  for (const text of ['{"number":1}', 'two', '<b>three</b>']) await publish('amq.default', 'tapped', text);
  const rows = page.locator('.messages details');
  await expect(rows).toHaveCount(3);
  await expect(rows.first()).toContainText('<b>three</b>');
  await rows.nth(2).locator('summary').focus();
  await page.keyboard.press('Enter');
  await expect(rows.nth(2).locator('.payload')).toContainText('"number": 1');
  await expect(rows.nth(2)).toContainText('origin');
  await expect(page.locator('.result')).toHaveText('3 messages shown, 0 passed over');
  for (const theme of /** @type {const} */ (['light', 'dark'])) {
    await setTheme(page, theme);
    await page.screenshot({ path: path.join(import.meta.dirname, 'shots', theme, 'queue-live-on.png') });
    expect(await problems(page)).toEqual([]);
  }

  await page.keyboard.press('/');
  await page.keyboard.type('TWO');
  await expect(rows).toHaveCount(1);
  await page.getByLabel('Filter what is shown').fill('');
  await page.getByRole('button', { name: 'Pause' }).click();
  await publish('amq.default', 'tapped', 'four');
  await expect(page.locator('.result')).toHaveText('4 messages shown, 0 passed over');
  await expect(rows).toHaveCount(3);
  await page.getByRole('button', { name: 'Go on' }).click();
  await expect(rows).toHaveCount(4);
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(rows).toHaveCount(0);

  await ask(API(), 'DELETE', 'queues/%2F/tapped');
  await expect(
    page.getByText("the queue 'tapped' in vhost '/' was deleted").or(page.getByText('There is no such queue')).first(),
  ).toBeVisible();
});

test('an exchange shows what is published, and counts what it passes over', async ({ page }) => {
  await signIn(page, 'guest', '#/exchanges/%2F/orders?tab=live');
  await page.getByLabel('At most').selectOption('1');
  await page.getByRole('button', { name: 'Start' }).click();
  // The shop publishes 400 a second.
  await expect(page.locator('.messages details').first()).toContainText('"order"');
  await expect(page.locator('.result')).toContainText(/[1-9][\d,]* passed over/);
  await page.getByRole('button', { name: 'Stop' }).click();
  await expect(page.getByText('Stopped.')).toBeVisible();
});

test('a tap of what one may not read is refused in the words of the API', async ({ page }) => {
  await ask(API(), 'PUT', 'users/blind', { password: 'blind', tags: 'management' });
  await ask(API(), 'PUT', 'permissions/%2F/blind', { configure: '', write: '', read: '^$' });
  await signIn(page, 'blind', '#/queues/%2F/mail?tab=live');
  await page.getByRole('button', { name: 'Start' }).click();
  await expect(page.getByRole('alert')).toContainText("read access to queue 'mail'");
  await expect(page.getByText('Stopped.')).toBeVisible();
  await ask(API(), 'DELETE', 'users/blind');
});

test('the log of the node grows on its page, for administrators', async ({ page }) => {
  const name = (await ask(API(), 'GET', 'overview')).body.node;
  await signIn(page, 'guest', `#/nodes/${name}`);
  const log = page.getByRole('region', { name: 'Lines of the log, the newest first' });
  await ask(API(), 'GET', 'whoami', undefined, 'ghost<b>:nothing');
  await expect(log.locator('.warning').first()).toContainText("User 'ghost<b>' failed to authenticate");
  for (const theme of /** @type {const} */ (['light', 'dark'])) {
    await setTheme(page, theme);
    await log.scrollIntoViewIfNeeded();
    await page.screenshot({ path: path.join(import.meta.dirname, 'shots', theme, 'node-log.png') });
    expect(await problems(page)).toEqual([]);
  }
  await page.getByLabel('Filter lines').fill('GHOST<');
  await expect(log.locator('div')).toHaveCount(1);
  await page.getByLabel('Level').selectOption('error');
  await expect(log).toContainText('No line');
  await page
    .getByRole('button', { name: 'guest' })
    .or(page.locator('summary', { hasText: 'guest' }))
    .first()
    .click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await signIn(page, 'watcher', `#/nodes/${name}`);
  await expect(page.getByRole('heading', { name: 'Memory by use' })).toBeVisible();
  await expect(page.getByRole('heading', { name: 'Log', exact: true })).toHaveCount(0);
});
