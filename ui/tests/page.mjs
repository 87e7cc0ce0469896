// Steps that the tests share: sign in, go to a view, and fail at anything that the console complains of.
import { expect, test as base } from '@playwright/test';
import AxeBuilder from '@axe-core/playwright';

export const PAGE = () => process.env.PAGE ?? '';
export const API = () => process.env.NODE_API ?? '';

/** Answers that a test expects to be refused; the browser's console has a line for each. */
const REFUSED = /Failed to load resource.*(40[0-9]|412|503)/;

/** @type {any} */
export const test = base.extend({
  /** Lines of the console that are errors, other than refusals. */
  complaints: [
    async ({ page }, use) => {
      /** @type {string[]} */
      const complaints = [];
      page.on('console', (line) => line.type() === 'error' && !REFUSED.test(line.text()) && complaints.push(line.text()));
      page.on('pageerror', (error) => complaints.push(String(error.stack)));
      await use(complaints);
      expect(complaints).toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };

/** @param {import('@playwright/test').Page} page @param {string} [user] @param {string} [view] */
export async function signIn(page, user = 'guest', view = '#/') {
  await page.goto(PAGE() + view);
  await page.getByLabel('User', { exact: true }).fill(user);
  await page.getByLabel('Password').fill(user);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('.shell').waitFor();
}

/** @param {import('@playwright/test').Page} page @param {string} view */
export async function open(page, view) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, view);
  await page.locator('main h1').first().waitFor();
  await page.waitForTimeout(150);
  await page.locator('main [aria-busy=true]').first().waitFor({ state: 'detached' });
}

/** @param {import('@playwright/test').Page} page @param {'light' | 'dark'} theme */
export const setTheme = (page, theme) =>
  page.evaluate((name) => {
    localStorage.setItem('leveret.theme', name);
    document.documentElement.dataset.theme = name;
  }, theme);

/** Findings of axe. @param {import('@playwright/test').Page} page */
export async function problems(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary?.slice(0, 240)}`),
  );
}

/** Every kind of view, with something to show. @param {{node: string, connections: any[], channel: string}} names */
export const views = ({ node, connections, channel }) => ({
  overview: '#/',
  churn: '#/?charts=churn',
  queues: '#/queues',
  'queues-columns':
    '#/queues?cols=name,ready,unacked,total,in,out,ack,consumers,redeliver,capacity,bytes,memory,persistent,in-memory,parked,delayed,state,durability',
  'queues-filtered': '#/queues?name=%5Eorders&regex=1&sort=messages&reverse=1',
  'queue-new': '#/queues?new=1',
  queue: '#/queues/%2F/orders.shipped',
  'queue-quorum': '#/queues/%2F/work',
  'queue-stream': '#/queues/%2F/log',
  'queue-messages': '#/queues/%2F/mail?tab=messages&n=10',
  'queue-json': '#/queues/%2F/orders.shipped?tab=messages&n=10',
  'queue-live': '#/queues/%2F/orders.shipped?tab=live',
  'exchange-live': '#/exchanges/%2F/orders?tab=live',
  'stream-messages': '#/queues/%2F/log?tab=messages&n=10',
  'queue-parked': '#/queues/%2F/payments.failed?tab=parked',
  'queue-bindings': '#/queues/%2F/mail?tab=bindings',
  'queue-settings': '#/queues/%2F/orders.paid?tab=settings',
  'stream-offsets': '#/queues/%2F/log?tab=tracking',
  'queue-none': '#/queues/%2F/none',
  exchanges: '#/exchanges',
  'exchange-new': '#/exchanges?new=1',
  exchange: '#/exchanges/%2F/orders',
  'exchange-bindings': '#/exchanges/%2F/orders?tab=bindings',
  'exchange-publish': '#/exchanges/%2F/orders?tab=publish',
  'exchange-default': '#/exchanges/%2F/amq.default',
  bindings: '#/bindings',
  graph: '#/bindings/%2F/e/orders',
  'graph-queue': '#/bindings/%2F/q/orders.paid',
  'super-streams': '#/super-streams',
  connections: '#/connections',
  ...Object.fromEntries(
    connections.map(({ protocol, name }) => [
      `connection-${protocol.replace(/\W+/g, '')}`,
      `#/connections/${encodeURIComponent(name)}`,
    ]),
  ),
  channels: '#/channels',
  channel: `#/channels/${encodeURIComponent(channel)}`,
  consumers: '#/consumers',
  'stream-clients': '#/stream-clients',
  'stream-consumers': '#/stream-clients?of=consumers',
  policies: '#/policies',
  'operator-policies': '#/policies?kind=operator',
  policy: '#/policies/%2F/short',
  'operator-policy': '#/operator-policies/%2F/ceiling',
  limits: '#/limits',
  vhosts: '#/vhosts',
  vhost: '#/vhosts/shop',
  users: '#/users',
  user: '#/users/maker',
  permissions: '#/permissions',
  node: `#/nodes/${encodeURIComponent(node)}`,
  definitions: '#/definitions',
  traces: '#/traces',
  features: '#/features',
  api: '#/api',
  words: '#/words',
  nothing: '#/no/such/page',
});
