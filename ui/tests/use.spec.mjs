// Keys, roles, sessions, links that keep a view, live numbers, and a node that restarts.
import { Node, ask, pageOf } from './node.mjs';
import { API, PAGE, expect, open, signIn, test } from './page.mjs';

test('everything is reached by keyboard', async ({ page }) => {
  await page.goto(PAGE());
  await page.keyboard.type('guest');
  await page.keyboard.press('Tab');
  await page.keyboard.type('guest');
  await page.keyboard.press('Enter');
  await page.locator('.shell').waitFor();
  await expect(page).toHaveTitle('Overview · Leveret');
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await expect(page.locator('h1')).toHaveText('Queues and streams');
  await expect(page.locator('h1')).toBeFocused();
  await page.keyboard.press('/');
  await page.keyboard.type('orders.p');
  await expect(page).toHaveURL(/name=orders\.p/);
  await expect(page.locator('tbody tr')).toHaveCount(1);
  await page.locator('.table-box').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page.locator('h1')).toHaveText('orders.paid');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('warehouse');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('orders.sh');
  await expect(page.locator('.jump li').first()).toContainText('orders.shipped');
  await page.keyboard.press('Enter');
  await expect(page.locator('h1')).toHaveText('orders.shipped');
  await page.keyboard.press('?');
  await expect(page.getByRole('heading', { name: 'Keys' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.locator('dialog[open]')).toHaveCount(0);
});

test('users are offered what they may do', async ({ page }) => {
  const pages = () => page.getByRole('navigation', { name: 'Pages' });
  await signIn(page, 'plain');
  for (const title of ['Users', 'Permissions', 'Virtual hosts', 'Node', 'Definitions', 'Traces'])
    await expect(pages().getByRole('link', { name: title, exact: true })).toHaveCount(0);
  await open(page, '#/policies');
  await expect(page.getByText('Add a policy')).toHaveCount(0);
  await open(page, '#/queues/%2F/mail');
  await expect(page.locator('h1')).toHaveText('mail');
  await page.locator('summary', { hasText: 'plain' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await signIn(page, 'watcher');
  await expect(pages().getByRole('link', { name: 'Node', exact: true })).toHaveCount(1);
  await expect(pages().getByRole('link', { name: 'Users', exact: true })).toHaveCount(0);
  await page.locator('summary', { hasText: 'watcher' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await signIn(page, 'maker');
  await open(page, '#/policies');
  await expect(page.getByText('Add a policy')).toHaveCount(1);
  await open(page, '#/policies?kind=operator');
  await expect(page.getByText('Add an operator policy')).toHaveCount(0);
});

test('a user without a tag, and a wrong password, are refused in words', async ({ page }) => {
  for (const [user, password] of [
    ['untagged', 'untagged'],
    ['guest', 'wrong'],
  ]) {
    await page.goto(PAGE());
    await page.getByLabel('User', { exact: true }).fill(user);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.getByRole('alert')).toBeVisible();
    await page.reload();
  }
});

test('a session that ends elsewhere leads back to the same view', async ({ page }) => {
  await signIn(page, 'guest', '#/queues/%2F/mail');
  await expect(page.locator('.pulse')).toHaveClass(/live/);
  await page.evaluate(() => fetch('api/logout', { method: 'POST', headers: { 'X-Leveret-Request': '1' } }));
  await expect(page.getByText('Your session ended.')).toBeVisible({ timeout: 30_000 });
  await page.getByLabel('User', { exact: true }).fill('guest');
  await page.getByLabel('Password').fill('guest');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.locator('h1')).toHaveText('mail');
});

test('a slow network shows a page all the same', async ({ page }) => {
  const tools = await page.context().newCDPSession(page);
  await tools.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 300,
    downloadThroughput: 50_000,
    uploadThroughput: 50_000,
  });
  await signIn(page, 'guest', '#/queues');
  await expect(page.locator('tbody tr[data-row]').first()).toBeVisible({ timeout: 20_000 });
});

test('a view is a link, and columns are kept', async ({ page, context }) => {
  await signIn(page, 'guest', '#/queues?name=order&sort=messages&reverse=1');
  await page.getByText('Columns', { exact: true }).click();
  await page.getByLabel('Memory', { exact: true }).check();
  await expect(page).toHaveURL(/cols=[^&]*memory/);
  await expect(page.getByRole('columnheader', { name: 'Memory' })).toBeVisible();
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.getByRole('columnheader', { name: 'Memory' })).toBeVisible();
  await expect(other.getByRole('columnheader', { name: 'Total' })).toHaveAttribute('aria-sort', 'descending');
  await expect(other.getByRole('searchbox')).toHaveValue('order');
  await other.close();
});

test('numbers move within two seconds, in every one of seven tabs', async ({ context, page }) => {
  test.setTimeout(90_000);
  await signIn(page, 'guest', '#/queues');
  const tabs = [page];
  for (let n = 0; n < 6; n += 1) {
    const tab = await context.newPage();
    await tab.goto(`${PAGE()}#/queues/%2F/mail`);
    await tab.locator('.figures').waitFor();
    tabs.push(tab);
  }
  const last = tabs[6];
  await last.bringToFront();
  await expect(last.locator('.pulse')).toHaveClass(/live/);
  const before = await last.locator('.figure-value').first().textContent();
  await ask(API(), 'POST', 'exchanges/%2F/amq.default/publish', {
    properties: {},
    routing_key: 'mail',
    payload: 'one more',
    payload_encoding: 'string',
  });
  await expect(last.locator('.figure-value').first()).not.toHaveText(before ?? '', { timeout: 2500 });
});

test('the page outlives a restart of its node, and says when the session is over', async ({ page, complaints }) => {
  test.setTimeout(120_000);
  const node = await Node.start();
  const served = await pageOf(node);
  try {
    await page.goto(`${served.url}#/queues`);
    await page.getByLabel('User', { exact: true }).fill('guest');
    await page.getByLabel('Password').fill('guest');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.locator('.pulse')).toHaveClass(/live/);
    await node.stop();
    await expect(page.getByText('The node cannot be reached.')).toBeVisible();
    await node.run();
    await expect(page.getByRole('button', { name: 'Sign in' }).or(page.locator('.pulse.live'))).toBeVisible({ timeout: 15_000 });
    await expect(page).toHaveURL(/#\/queues/);
    complaints.length = 0;
  } finally {
    served.end();
    await node.end();
  }
});

test('a list of many queues is quick and scrolls smoothly', async ({ page }) => {
  test.setTimeout(180_000);
  const queues = Array.from({ length: Number(process.env.QUEUES ?? 5000) }, (_, n) => ({
    name: `many-${String(n).padStart(6, '0')}`,
    vhost: 'shop',
    durable: true,
    auto_delete: false,
    arguments: { 'x-queue-type': 'classic' },
  }));
  await ask(API(), 'DELETE', 'vhost-limits/shop/max-queues');
  const { status, body } = await ask(API(), 'POST', 'definitions', { queues });
  expect(status, JSON.stringify(body)).toBe(204);
  await signIn(page);
  await page.evaluate(() => {
    /** @type {any} */ (window).begun = performance.now();
    location.hash = '#/queues?vhost=shop&size=500&sort=name';
  });
  const milliseconds = await page.evaluate(
    () =>
      new Promise((done) => {
        const look = () =>
          document.querySelectorAll('tbody tr[data-row]').length > 20
            ? done(performance.now() - /** @type {any} */ (window).begun)
            : requestAnimationFrame(look);
        look();
      }),
  );
  const frames = await page.evaluate(
    () =>
      new Promise((done) => {
        const box = /** @type {Element} */ (document.querySelector('.table-box'));
        const begun = performance.now();
        let count = 0;
        const step = () => {
          count += 1;
          box.scrollTop += 90;
          if (performance.now() - begun < 2000) requestAnimationFrame(step);
          else done(count / 2);
        };
        requestAnimationFrame(step);
      }),
  );
  const rows = await page.locator('tbody tr[data-row]').count();
  const tools = await page.context().newCDPSession(page);
  await tools.send('HeapProfiler.enable');
  await tools.send('HeapProfiler.collectGarbage');
  const { usedSize } = /** @type {any} */ (await tools.send('Runtime.getHeapUsage'));
  console.log(
    `first rows after ${Math.round(Number(milliseconds))} ms, ${frames} frames per second, ${rows} rows drawn, ${(usedSize / 2 ** 20).toFixed(1)} MiB of heap`,
  );
  expect(rows).toBeLessThan(120);
  expect(usedSize).toBeLessThan(30 * 2 ** 20);
  expect(Number(milliseconds)).toBeLessThan(1500);
});
