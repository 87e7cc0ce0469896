// Each view in both themes: a picture, nothing that axe finds, nothing in the console, and the same at phone width.
import fs from 'node:fs';
import path from 'node:path';
import { ask } from './node.mjs';
import { API, expect, open, problems, setTheme, signIn, test, views } from './page.mjs';

const SHOTS = path.join(import.meta.dirname, 'shots');

async function all() {
  const [{ body: nodes }, { body: connections }, { body: channels }] = await Promise.all(
    ['nodes', 'connections', 'channels'].map((where) => ask(API(), 'GET', where)),
  );
  const one = Object.values(Object.fromEntries(connections.map((connection) => [connection.protocol, connection])));
  return views({ node: nodes[0].name, connections: one, channel: channels[0].name });
}

for (const theme of /** @type {const} */ (['light', 'dark'])) {
  test(`every view is without fault in ${theme}`, async ({ page }) => {
    test.setTimeout(600_000);
    fs.mkdirSync(path.join(SHOTS, theme), { recursive: true });
    await signIn(page);
    await setTheme(page, theme);
    /** @type {string[]} */
    const found = [];
    for (const [name, view] of Object.entries(await all())) {
      await open(page, view);
      await page.waitForTimeout(700);
      await page.screenshot({ path: path.join(SHOTS, theme, `${name}.png`) });
      found.push(...(await problems(page)).map((line) => `${name}: ${line}`));
    }
    expect(found).toEqual([]);
  });
}

test('the login has no fault in either theme', async ({ page }) => {
  await page.goto(process.env.PAGE ?? '');
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  for (const theme of /** @type {const} */ (['light', 'dark'])) {
    await setTheme(page, theme);
    fs.mkdirSync(path.join(SHOTS, theme), { recursive: true });
    await page.screenshot({ path: path.join(SHOTS, theme, 'login.png') });
    expect(await problems(page)).toEqual([]);
  }
});

test('nothing is cut off or wider than a phone', async ({ page }) => {
  test.setTimeout(300_000);
  await page.setViewportSize({ width: 390, height: 844 });
  fs.mkdirSync(path.join(SHOTS, 'phone'), { recursive: true });
  await signIn(page);
  /** @type {string[]} */
  const wide = [];
  for (const [name, view] of Object.entries(await all())) {
    await open(page, view);
    await page.waitForTimeout(250);
    await page.screenshot({ path: path.join(SHOTS, 'phone', `${name}.png`) });
    const width = await page.evaluate(() =>
      Math.max(document.documentElement.scrollWidth, document.querySelector('main')?.scrollWidth ?? 0),
    );
    if (width > 390) wide.push(`${name}: ${width}`);
  }
  expect(wide).toEqual([]);
  await page.getByRole('button', { name: 'Menu' }).click();
  await page.screenshot({ path: path.join(SHOTS, 'phone', 'menu.png') });
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Queues' }).click();
  await expect(page.locator('h1')).toHaveText('Queues and streams');
});
