// Names that others choose stay text wherever they are shown.
import { HOSTILE } from './traffic.mjs';
import { expect, open, signIn, test } from './page.mjs';

test('hostile names never become markup', async ({ page }) => {
  test.setTimeout(240_000);
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
