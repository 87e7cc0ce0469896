// A walk over every link and every button that there is: none leads nowhere, none breaks the page.
import { expect, open, signIn, test } from './page.mjs';

test('every link leads to a view, and every button to something', async ({ page }) => {
  test.setTimeout(900_000);
  await signIn(page);
  /** @type {Set<string>} */
  const seen = new Set(['#/']);
  const queue = ['#/'];
  /** One view stands for all that show another object of its kind. @param {string} hash */
  const kind = (hash) => {
    const [place, query = ''] = hash.split('?');
    const words = place.split('/').slice(1);
    return `${words[0]}/${words.length}/${words[0] === 'queues' && words.length === 3 && /^[a-z]+(\.[a-z]+)*$/.test(words[2]) ? words[2] : ''}?${new URLSearchParams(query).get('tab') ?? ''}${new URLSearchParams(query).get('kind') ?? ''}${new URLSearchParams(query).get('of') ?? ''}`;
  };
  const kinds = new Set();
  /** @type {string[]} */
  const broken = [];
  while (queue.length) {
    const hash = /** @type {string} */ (queue.shift());
    if (kinds.has(kind(hash))) continue;
    kinds.add(kind(hash));
    await open(page, hash);
    if ((await page.locator('h1').first().textContent()) === 'No such page') broken.push(`${hash} is no page`);
    for (const href of await page.locator('a[href^="#/"]').evaluateAll((links) => links.map((one) => one.getAttribute('href')))) {
      if (href && !seen.has(href)) {
        seen.add(href);
        queue.push(href);
      }
    }
    const count = await page.locator('main button:visible, main summary:visible').count();
    for (let at = 0; at < Math.min(count, 40); at += 1) {
      const button = page.locator('main button:visible, main summary:visible').nth(at);
      if (!(await button.isVisible().catch(() => false)) || !(await button.isEnabled().catch(() => false))) continue;
      const text = (await button.textContent())?.trim() ?? '';
      // Buttons that change something are pressed by the tests of actions; here dialogs are opened and left.
      if (
        /^(Publish message|Take messages$|Convert queue|Save policy|Set permissions|Set topic|Change|Bind$|Declare|Add |Start trace|Move messages|Download$|Set$|Lift)/.test(
          text,
        )
      )
        continue;
      await button.click({ timeout: 3000 }).catch((reason) => broken.push(`${hash}: ${text}: ${String(reason).slice(0, 200)}`));
      // A dialog opens after the next frame.
      await page.waitForTimeout(60);
      if (await page.locator('dialog[open]').count()) {
        await page.keyboard.press('Escape');
        await expect(page.locator('dialog[open]')).toHaveCount(0);
      }
      if (!(await page.evaluate((one) => location.hash.split('?')[0] === one.split('?')[0], hash))) await open(page, hash);
    }
  }
  expect(broken).toEqual([]);
  expect(kinds.size).toBeGreaterThan(35);
});
