// Changes that the page makes, asserted over HTTP.
import { ask } from './node.mjs';
import { API, expect, open, signIn, test } from './page.mjs';

/** @param {string} where */
const get = async (where) => (await ask(API(), 'GET', where)).body;

test('a queue is declared, written to, looked into, purged and deleted', async ({ page }) => {
  await signIn(page, 'guest', '#/queues?new=1');
  await page.getByLabel('Name', { exact: true }).fill('made <here>');
  await page.getByRole('button', { name: 'x-max-length', exact: true }).click();
  await page.getByLabel('Value of argument 1').fill('100');
  await page.getByRole('button', { name: 'Declare queue' }).click();
  await expect(page.locator('h1')).toHaveText('made <here>');
  const where = `queues/%2F/${encodeURIComponent('made <here>')}`;
  expect((await get(where)).arguments).toEqual({ 'x-max-length': 100, 'x-queue-type': 'classic' });

  await open(page, `#/${where}?tab=messages`);
  await page.getByText('Publish a message to this queue').click();
  await page.getByLabel('Body', { exact: true }).fill('{"a":12345678901234567890,"b":[1,2]}');
  await page.getByRole('button', { name: 'Publish message' }).click();
  await expect(page.getByText('Published and on the disk')).toBeVisible();
  await page.getByRole('button', { name: 'Look', exact: true }).click();
  await expect(page.locator('.payload')).toContainText('12345678901234567890');
  const after = await get(where);
  expect([after.messages_ready, after.message_stats?.redeliver ?? 0, after.message_stats?.get ?? 0]).toEqual([1, 0, 0]);

  await page.getByRole('button', { name: 'Publish again…' }).click();
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  await expect(page.getByText('it reached a queue')).toBeVisible();
  expect((await get(where)).messages_ready).toBe(2);
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'Purge…' }).click();
  const purge = page.getByRole('button', { name: 'Purge', exact: true });
  await expect(purge).toBeDisabled();
  await page.getByLabel('Type the name to confirm').fill('made <her');
  await expect(purge).toBeDisabled();
  await page.getByLabel('Type the name to confirm').fill('made <here>');
  await purge.click();
  await expect.poll(async () => (await get(where)).messages_ready).toBe(0);

  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByLabel('Type the name to confirm').fill('made <here>');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page.locator('h1')).toHaveText('Queues and streams');
  expect((await ask(API(), 'GET', where)).status).toBe(404);
});

test('a refusal stands where it happened, in the words of the API', async ({ page }) => {
  await signIn(page, 'guest', '#/queues?new=1');
  await page.getByLabel('Name', { exact: true }).fill('mail');
  await page.getByRole('button', { name: 'x-max-length', exact: true }).click();
  await page.getByLabel('Value of argument 1').fill('5');
  await page.getByRole('button', { name: 'Declare queue' }).click();
  await expect(page.getByRole('alert')).toContainText('inequivalent arg');
});

test('a policy shows what it would change before it is saved', async ({ page }) => {
  await signIn(page, 'guest', '#/policies');
  await page.getByText('Add a policy').click();
  await page.getByLabel('Name', { exact: true }).fill('preview');
  await page.getByLabel('Pattern').fill('^mail$');
  await page.getByLabel('Priority').fill('9');
  await page.getByRole('button', { name: 'message-ttl' }).click();
  await page.getByLabel('Value of key 1').fill('86400000');
  await page.getByRole('button', { name: 'See what it would change' }).click();
  await expect(page.getByText('It would apply to 1 queue')).toBeVisible();
  expect((await ask(API(), 'GET', 'policies/%2F/preview')).status).toBe(404);
  await page.getByRole('button', { name: 'Save policy' }).click();
  await expect(page.locator('h1')).toHaveText('preview');
  expect((await get('policies/%2F/preview')).definition).toEqual({ 'message-ttl': 86400000 });
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByLabel('Type the name to confirm').fill('preview');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect.poll(async () => (await ask(API(), 'GET', 'policies/%2F/preview')).status).toBe(404);
});

test('permissions are tested as the node matches them, and set', async ({ page }) => {
  await signIn(page, 'guest', '#/users/plain');
  await page.getByText('Set permissions, and test patterns').click();
  await page.getByLabel('configure').fill('^ORDERS');
  await expect(page.getByText('0 queues').first()).toBeVisible();
  await page.getByLabel('configure').fill('^orders\\.(new|paid)$');
  await expect(page.locator('.facts').filter({ hasText: 'configure' }).first()).toContainText(
    '2 queues: orders.new, orders.paid',
  );
  await page.getByRole('button', { name: 'Set permissions' }).click();
  await expect.poll(async () => (await get('permissions/%2F/plain')).configure).toBe('^orders\\.(new|paid)$');
});

test('a binding is made and removed', async ({ page }) => {
  await signIn(page, 'guest', '#/queues/%2F/idle?tab=bindings');
  await page.getByLabel('From exchange').fill('amq.direct');
  await page.getByLabel('Routing key').fill('a key');
  await page.getByRole('button', { name: 'Bind', exact: true }).click();
  await expect.poll(async () => (await get('bindings/%2F/e/amq.direct/q/idle')).length).toBe(1);
  const row = page.getByRole('row').filter({ hasText: 'amq.direct' });
  await row.getByRole('button', { name: 'Unbind…' }).click();
  await page.getByRole('button', { name: 'Unbind', exact: true }).click();
  await expect.poll(async () => (await get('bindings/%2F/e/amq.direct/q/idle')).length).toBe(0);
});

test('parked messages are moved to another queue', async ({ page }) => {
  const parked = (await get('queues/%2F/payments.failed')).parked;
  expect(parked).toBeGreaterThan(0);
  await signIn(page, 'guest', '#/queues/%2F/payments.failed?tab=parked');
  await page.getByText(/^Move all/).click();
  await page.getByLabel('To', { exact: true }).selectOption('queue');
  await page.getByLabel('Queue', { exact: true }).fill('idle');
  await page.getByRole('button', { name: 'Move messages' }).click();
  await expect(page.getByText(`${parked} messages moved`)).toBeVisible();
  expect((await get('queues/%2F/payments.failed')).parked).toBe(0);
  await expect(page.locator('main .empty')).toHaveText('None.');
  await expect(page.getByText(`${parked} messages moved`), 'it outlives the form').toBeVisible();
});

test('messages are copied and moved to another queue', async ({ page }) => {
  for (const name of ['from <here>', 'to there']) {
    await ask(API(), 'PUT', `queues/%2F/${encodeURIComponent(name)}`, { durable: true });
  }
  const publish = { properties: {}, routing_key: 'from <here>', payload: 'one', payload_encoding: 'string' };
  for (let n = 0; n < 3; n += 1) await ask(API(), 'POST', 'exchanges/%2F/amq.default/publish', publish);
  const ready = async () => [
    (await get(`queues/%2F/${encodeURIComponent('from <here>')}`)).messages_ready,
    (await get('queues/%2F/to%20there')).messages_ready,
  ];
  await signIn(page, 'guest', `#/queues/%2F/${encodeURIComponent('from <here>')}?tab=messages`);
  await page.getByText('Move or copy to another queue').click();
  await page.getByLabel('Do', { exact: true }).selectOption('copy');
  await page.getByLabel('Target queue', { exact: true }).fill('to there');
  await page.getByRole('button', { name: 'Copy messages' }).click();
  await expect(page.getByText('3 of 3 messages')).toBeVisible();
  await expect.poll(ready).toEqual([3, 3]);
  await page.getByLabel('Do', { exact: true }).selectOption('move');
  await page.getByRole('button', { name: 'Move messages' }).click();
  await expect.poll(ready).toEqual([0, 6]);
  const moves = page.getByRole('group', { name: /^Transfer/ });
  await expect(moves).toHaveCount(2);
  await moves.first().getByRole('button', { name: 'Forget' }).click();
  await expect(moves).toHaveCount(1);
  await page.getByLabel('Target queue', { exact: true }).fill('nowhere');
  await page.getByRole('button', { name: 'Move messages' }).click();
  await expect(page.getByRole('alert')).toContainText("no queue 'nowhere'");
});

test('a user and a virtual host are made, limited and deleted', async ({ page }) => {
  await signIn(page, 'guest', '#/users');
  await page.getByText('Add a user').click();
  await page.getByLabel('Name', { exact: true }).fill('temp');
  await page.getByLabel('Password', { exact: true }).fill('secret');
  await page.getByLabel('The same again').fill('secret');
  await page.getByLabel('monitoring').check();
  await page.getByRole('button', { name: 'Add user' }).click();
  await expect(page.locator('h1')).toHaveText('temp');
  expect((await get('users/temp')).tags).toEqual(['monitoring']);
  await page.getByLabel('Channels').fill('7');
  await page.getByRole('button', { name: 'Set', exact: true }).nth(1).click();
  await expect.poll(async () => (await get('user-limits/temp'))[0]?.value['max-channels']).toBe(7);
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByLabel('Type the name to confirm').fill('temp');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect.poll(async () => (await ask(API(), 'GET', 'users/temp')).status).toBe(404);

  await open(page, '#/vhosts');
  await page.getByText('Add a virtual host').click();
  await page.getByLabel('Name', { exact: true }).fill('temp/host');
  await page.getByRole('button', { name: 'Add virtual host' }).click();
  await expect(page.locator('h1')).toHaveText('temp/host');
  expect((await ask(API(), 'GET', 'vhosts/temp%2Fhost')).status).toBe(200);
  await ask(API(), 'DELETE', 'vhosts/temp%2Fhost');
});

test('a connection is closed with a reason', async ({ page }) => {
  const find = async () => (await get('connections')).find(({ user_provided_name: name }) => name === 'mailer');
  const { name } = await find();
  await signIn(page, 'guest', `#/connections/${encodeURIComponent(name)}`);
  await page.getByRole('button', { name: 'Close…' }).click();
  await page.getByLabel('Reason').fill('tidying up');
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await expect.poll(find).toBeUndefined();
});

test('definitions go out and in', async ({ page }) => {
  await signIn(page, 'guest', '#/definitions');
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download definitions' }).click(),
  ]);
  expect(file.suggestedFilename()).toMatch(/^definitions-.*\.json$/);
  await page
    .getByLabel('File')
    .setInputFiles({
      name: 'more.json',
      mimeType: 'application/json',
      buffer: Buffer.from(
        JSON.stringify({ queues: [{ name: 'imported', vhost: '/', durable: true, auto_delete: false, arguments: {} }] }),
      ),
    });
  await page.getByRole('button', { name: 'Import definitions…' }).click();
  await page.getByRole('button', { name: 'Import definitions', exact: true }).click();
  await expect(page.getByText('Imported.')).toBeVisible();
  expect((await ask(API(), 'GET', 'queues/%2F/imported')).status).toBe(200);
});
