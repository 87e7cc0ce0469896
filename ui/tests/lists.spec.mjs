// The filter of a list finds what stands on the screen.
import { expect, open, signIn, test } from './page.mjs';

test('a filter finds names, numbers, states, features, policies and reasons as they are shown', async ({ page }) => {
  await signIn(page);
  await open(page, '#/queues?cols=name,type,features,waits,ready,state');
  const filter = page.locator('[data-filter]');
  for (const [text, name] of [
    ['AIL', 'mail'],
    ['300', 'mail'],
    ['quorum', 'payments.failed'],
    ['Short', 'orders.new'],
    ['running', 'idle'],
    ['no consumers', 'mail'],
  ]) {
    await page.keyboard.press('/');
    await expect(filter).toBeFocused();
    await page.keyboard.type(text);
    // Every queue of the test runs.
    if (text !== 'running') await expect(page.locator('.result')).toContainText(' of ');
    await expect(page.getByRole('link', { name, exact: true }), `${name} by ${text}`).toBeVisible();
    await filter.fill('');
    await filter.blur();
  }
  await filter.fill('nothing is called so');
  await expect(page.locator('.empty')).toHaveText('Nothing here is like that.');
  await open(page, '#/queues?name=%5Eorders&regex=1');
  await expect(page.locator('tbody tr')).toHaveCount(3);
});

test('every list has a filter', async ({ page }) => {
  await signIn(page);
  for (const view of [
    '#/queues',
    '#/exchanges',
    '#/bindings',
    '#/connections',
    '#/channels',
    '#/consumers',
    '#/stream-clients',
    '#/super-streams',
    '#/policies',
    '#/users',
    '#/vhosts',
  ]) {
    await open(page, view);
    await expect(page.locator('[data-filter]'), view).toHaveCount(1);
  }
});
