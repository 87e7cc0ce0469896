// Names that others choose stay text wherever they are shown.
import { ask } from './node.mjs';
import { HOSTILE, segment } from './traffic.mjs';
import { API, expect, open, signIn, test } from './page.mjs';

test('hostile names never become markup', async ({ page }) => {
  test.setTimeout(600_000);
  await signIn(page);
  const intact = async (where) => {
    expect(await page.evaluate(() => /** @type {any} */ (window).broken), where).toBeUndefined();
    expect(await page.locator('main img, main b:has-text("bold") > b, main script, main iframe').count(), where).toBe(0);
  };
  for (const view of [
    '#/queues?size=250',
    '#/exchanges?size=250',
    '#/bindings?size=250',
    '#/users',
    '#/vhosts',
    '#/policies',
    '#/permissions',
    '#/limits',
  ]) {
    await open(page, view);
    await intact(view);
  }
  for (const name of HOSTILE) {
    const encoded = encodeURIComponent(name);
    for (const view of [
      `#/queues/%2F/${encoded}`,
      `#/queues/%2F/${encoded}?tab=messages`,
      `#/queues/%2F/${encoded}?tab=bindings`,
      `#/exchanges/%2F/${encoded}`,
      `#/bindings/%2F/q/${encoded}`,
      `#/users/${encoded}`,
      `#/vhosts/${encoded}`,
      `#/policies/%2F/${encoded}`,
    ]) {
      await open(page, view);
      await intact(view);
      await expect(page.locator('main .problem, main .empty:has-text("There is no such")'), view).toHaveCount(0);
    }
  }
  await open(page, `#/queues/%2F/${encodeURIComponent('left\u202eright\u202c')}`);
  await expect(page.locator('h1 .hidden-char').first()).toHaveText('\\u{202e}');
});

/** Confirms a dialog that asks for a name. @param {import('@playwright/test').Page} page @param {string} verb */
async function confirm(page, verb) {
  await page
    .getByRole('button', { name: `${verb}…` })
    .first()
    .click();
  const dialog = page.locator('dialog[open]');
  const name = await dialog.locator('.confirm-name').textContent();
  await dialog.getByLabel('Type the name to confirm').fill(name ?? '');
  await dialog.getByRole('button', { name: verb, exact: true }).click();
  await expect(dialog).toHaveCount(0);
}

test('objects of any name are reached and deleted by the page', async ({ page }) => {
  test.setTimeout(600_000);
  await signIn(page);
  for (const name of ['.', '..', ';=..', '%2e%2e', '/', '?', '#', 'detailed', 'without-permissions', '__proto__', '\u0000']) {
    const [encoded, there] = [encodeURIComponent(name), segment(name)];
    const gone = async (where) => expect((await ask(API(), 'GET', where)).status, `${where} is deleted`).toBe(404);
    await open(page, `#/exchanges/%2F/${encoded}?tab=bindings`);
    await page.getByRole('button', { name: 'Unbind…' }).first().click();
    await page.locator('dialog[open]').getByRole('button', { name: 'Unbind' }).click();
    await expect(page.locator('dialog[open]')).toHaveCount(0);
    expect((await ask(API(), 'GET', `bindings/%2F/e/${there}/q/${there}`)).body, `the binding of ${name}`).toEqual([]);
    for (const [view, where] of [
      [`#/exchanges/%2F/${encoded}`, `exchanges/%2F/${there}`],
      [`#/queues/%2F/${encoded}`, `queues/%2F/${there}`],
      [`#/policies/%2F/${encoded}`, `policies/%2F/${there}`],
      [`#/users/${encoded}`, `users/${there}`],
      ...(name === '/' ? [] : [[`#/vhosts/${encoded}`, `vhosts/${there}`]]),
    ]) {
      expect((await ask(API(), 'GET', where)).status, `${where} is there`).toBe(200);
      await open(page, view);
      await confirm(page, 'Delete');
      await gone(where);
    }
  }
});

test('an empty name is refused when it is given, and looked for as any other', async ({ page }) => {
  const policy = { pattern: '^none$', 'apply-to': 'queues', definition: { 'max-length': 1 } };
  const refused = await ask(API(), 'PUT', 'policies/%2F/;=', policy);
  expect([refused.status, refused.body.reason]).toEqual([400, 'policy name is empty']);
  await signIn(page, 'guest', '#/exchanges/%2F/;=');
  await expect(page.locator('main h1')).toHaveText('(AMQP default)');
  await expect(page.locator('main .problem')).toHaveCount(0);
  for (const hash of ['#/policies/%2F/;=', '#/queues/%2F/;=', '#/users/;=', '#/vhosts/;=']) {
    await open(page, hash);
    await expect(page.locator('main'), hash).toContainText('There is no such ');
  }
  await open(page, '#/policies');
  await expect(page.locator('main h1')).toHaveText('Policies');
});

test('an error while drawing stays where it happened', async ({ page, complaints }) => {
  // A node, or a proxy before it, that answers something else than what was asked for, also to the stream, which then is this tab's own.
  await page.addInitScript(() => delete (/** @type {any} */ (window).SharedWorker));
  await page.route('**/api/queues/%2F/idle', (route) =>
    route.fulfill({ json: { name: 'idle', vhost: '/', why: { broken: true } } }),
  );
  await page.route('**/api/queues/%2F/mail', (route) => route.fulfill({ json: [{ name: 'mail' }] }));
  await page.route('**/api/exchanges?**', (route) =>
    route.fulfill({
      json: { items: [null, { name: 'amq.topic', vhost: '/', type: 'topic' }], page_count: 1, total_count: 2, filtered_count: 2 },
    }),
  );
  await page.route('**/api/watch?**', (route) => route.abort());
  await signIn(page);
  await open(page, '#/queues/%2F/idle');
  await expect(page.locator('main .problem')).toContainText("can't be shown");
  await open(page, '#/queues/%2F/mail');
  await expect(page.locator('main .problem').first()).toBeVisible();
  await open(page, '#/exchanges');
  await expect(page.locator('main h1')).toHaveText('Exchanges');
  await expect(page.locator('tr.fault')).toHaveCount(1);
  await expect(page.getByRole('link', { name: 'amq.topic' })).toBeVisible();
  await open(page, '#/users');
  await expect(page.locator('main h1')).toHaveText('Users');
  await expect(page.locator('main .problem')).toHaveCount(0);
  await expect(page.locator('.shell .nav')).toBeVisible();
  for (const hash of ['#/constructor', '#/__proto__/x', '#/queues/%2F/', '#/exchanges/%2F/', '#/queues/', '#/toString']) {
    await open(page, hash);
    await expect(page.locator('main .problem'), hash).toHaveCount(0);
  }
  expect(complaints.length, 'what went wrong is in the console').toBeGreaterThan(0);
  complaints.length = 0;
});
