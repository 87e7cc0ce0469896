// Everything by keyboard: no page needs a pointer, and the focus always has a place.
import { API, expect, open, signIn, test, views } from './page.mjs';
import { ask } from './node.mjs';

/** What has the focus, as a reader of the screen would call it. @param {import('@playwright/test').Page} page */
const focused = (page) =>
  page.evaluate(() => {
    const at = /** @type {HTMLElement} */ (document.activeElement);
    return { tag: at.tagName, name: (at.getAttribute('aria-label') ?? at.textContent ?? '').trim().slice(0, 60) };
  });

/** @param {import('@playwright/test').Page} page @param {string} selector */
async function press(page, selector, key = 'Enter') {
  await page.locator(selector).first().focus();
  await page.keyboard.press(key);
}

/** Waits until the focus is within. @param {import('@playwright/test').Page} page @param {string} selector */
const within = (page, selector) =>
  expect.poll(() => page.evaluate((one) => !!document.activeElement?.closest(one), selector), { timeout: 5000 }).toBe(true);

test('forms that open take the focus, and give it back', async ({ page }) => {
  await signIn(page);
  for (const [view, entry, heading] of [
    ['#/queues', 'Declare a queue', 'Declare a queue'],
    ['#/exchanges', 'Declare an exchange', 'Declare an exchange'],
  ]) {
    await open(page, view);
    await press(page, `main a:has-text("${entry}")`);
    await within(page, 'main h1');
    expect((await focused(page)).name).toBe(heading);
    await page.keyboard.press('Tab');
    expect((await focused(page)).tag, 'the form comes next').not.toBe('BODY');
    await page.goBack();
    await within(page, 'main h1');
  }
});

test('a queue is declared, looked at and deleted by keyboard alone', async ({ page }) => {
  await signIn(page, 'guest', '#/queues');
  await page.locator('main h1').waitFor();
  await press(page, 'main a:has-text("Declare a queue")');
  await within(page, 'main h1');
  for (let at = 0; at < 12 && (await page.evaluate(() => /** @type {any} */ (document.activeElement)?.type)) !== 'text'; at += 1)
    await page.keyboard.press('Tab');
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Enter');
  await expect(page.locator('main h1')).toHaveText('by keyboard');
  await within(page, 'main h1');
  await press(page, 'button:has-text("Delete…")');
  await within(page, 'dialog[open]');
  await page.keyboard.press('Escape');
  await expect(page.locator('dialog[open]')).toHaveCount(0);
  expect((await focused(page)).name, 'the button that opened it').toBe('Delete…');
  await page.keyboard.press('Enter');
  await within(page, 'dialog[open] input');
  await page.keyboard.type('by keyboard');
  await page.keyboard.press('Enter');
  await expect(page.locator('main h1')).toHaveText('Queues and streams');
  await within(page, 'main h1');
  expect((await ask(API(), 'GET', 'queues/%2F/by%20keyboard')).status).toBe(404);
});

test('the focus stays near when what had it goes', async ({ page }) => {
  await ask(API(), 'PUT', 'users/short-lived', { password: 'x', tags: '' });
  await ask(API(), 'PUT', 'permissions/%2F/short-lived', { configure: '', write: '', read: '' });
  await signIn(page, 'guest', '#/users/short-lived');
  await press(page, 'button:has-text("Remove…")');
  await within(page, 'dialog[open]');
  await press(page, 'dialog[open] button[type=submit]');
  await expect(page.locator('button:has-text("Remove…")')).toHaveCount(0);
  await expect.poll(async () => (await focused(page)).tag).not.toBe('BODY');
  // A form that is sent stays where it is, whatever comes of it.
  await press(page, 'form:has-text("Tags") button[type=submit]');
  await page.locator('.done, .problem').first().waitFor();
  await expect.poll(async () => (await focused(page)).tag).not.toBe('BODY');
  await ask(API(), 'DELETE', 'users/short-lived');
});

test('a chart is read by keyboard', async ({ page }) => {
  await signIn(page);
  await page.locator('canvas').first().waitFor();
  await press(page, 'canvas', 'ArrowLeft');
  await expect(page.locator('canvas').first()).toHaveAttribute('aria-label', / at \d\d:\d\d:\d\d: /);
  await page.keyboard.press('Escape');
  await expect(page.locator('canvas').first()).toHaveAttribute('aria-label', /^[^:]*: [A-Z]/);
});

test('on every page the whole content is reached by Tab, and nothing that acts is out of reach', async ({ page }) => {
  test.setTimeout(240_000);
  await signIn(page);
  const node = (await ask(API(), 'GET', 'overview')).body.node;
  const all = views({ node, connections: [], channel: (await ask(API(), 'GET', 'channels')).body[0].name });
  for (const view of Object.values(all)) {
    await open(page, view);
    const missed = await page.evaluate(() => {
      const acts = [
        ...document.querySelectorAll(
          'main a[href], main button, main input, main select, main textarea, main summary, main canvas',
        ),
      ];
      const scrolls = [...document.querySelectorAll('main *')].filter((one) => {
        const style = getComputedStyle(one);
        return (
          /auto|scroll/.test(style.overflowX + style.overflowY) &&
          (one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)
        );
      });
      const out = acts.filter((one) => /** @type {HTMLElement} */ (one).tabIndex < 0 && !(/** @type {any} */ (one).disabled));
      const shut = scrolls.filter(
        (one) =>
          /** @type {HTMLElement} */ (one).tabIndex < 0 && !one.querySelector('a[href], button, input') && one.id !== 'main',
      );
      return [...out, ...shut].map((one) => one.outerHTML.slice(0, 120));
    });
    expect(missed, view).toEqual([]);
    await page.locator('main h1').first().focus();
    const seen = new Set();
    for (let at = 0; at < 6; at += 1) {
      await page.keyboard.press('Tab');
      const { tag, name } = await focused(page);
      if (tag === 'BODY') break;
      seen.add(`${tag} ${name}`);
    }
    const some = await page.locator('main a[href], main button:not(:disabled), main input, main select').count();
    expect(seen.size > 0 || some === 0, `${view}: Tab goes into the page`).toBe(true);
  }
});
