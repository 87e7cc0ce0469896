// Starts the page: who is here, which page the address means, and what goes wrong in it.
import { html, render, useEffect, useRef, useState } from './lib.js';
import { connect, connection, forget } from './core/live.js';
import { route } from './core/router.js';
import { ask, me, trouble } from './core/session.js';
import { chooseVhost } from './core/settings.js';
import { Problem } from './parts/basics.js';
import { Shell } from './parts/shell.js';
import { Login } from './pages/login.js';

/** The module of each page by the first word of its address, and by the number of words. */
const PAGES = {
  '': () => import('./pages/overview.js'),
  queues: () => import('./pages/queues.js'),
  'queues/': () => import('./pages/queue.js'),
  exchanges: () => import('./pages/exchanges.js'),
  'exchanges/': () => import('./pages/exchange.js'),
  bindings: () => import('./pages/graph.js'),
  'bindings/': () => import('./pages/graph.js'),
  connections: () => import('./pages/connections.js'),
  'connections/': () => import('./pages/connection.js'),
  channels: () => import('./pages/channels.js'),
  'channels/': () => import('./pages/channel.js'),
  consumers: () => import('./pages/consumers.js'),
  'stream-clients': () => import('./pages/streams.js'),
  'super-streams': () => import('./pages/super-streams.js'),
  users: () => import('./pages/users.js'),
  'users/': () => import('./pages/user.js'),
  vhosts: () => import('./pages/vhosts.js'),
  'vhosts/': () => import('./pages/vhost.js'),
  permissions: () => import('./pages/permissions.js'),
  policies: () => import('./pages/policies.js'),
  'policies/': () => import('./pages/policy.js'),
  'operator-policies/': () => import('./pages/policy.js'),
  limits: () => import('./pages/limits.js'),
  nodes: () => import('./pages/node.js'),
  'nodes/': () => import('./pages/node.js'),
  definitions: () => import('./pages/definitions.js'),
  traces: () => import('./pages/traces.js'),
  features: () => import('./pages/features.js'),
  api: () => import('./pages/api.js'),
  words: () => import('./pages/words.js'),
};

/** Addresses of RabbitMQ whose page has another one here. */
const MOVED = { 'feature-flags': 'features', 'deprecated-features': 'features', operator_policies: 'operator-policies', 'cluster-name': 'nodes', stream: 'stream-clients' };

/** @param {string[]} path */
function pageOf(path) {
  const word = MOVED[path[0]] ?? path[0] ?? '';
  if (path[0] === 'stream' && path[1] === 'super-streams') return 'super-streams';
  if (path[0] === 'stream') return 'stream-clients';
  return path.length > 1 ? `${word}/` : word;
}

/** An error of a page's own code stays within the page. */
function Page() {
  const { path } = route.value;
  const id = pageOf(path);
  const key = [id, ...path].join('\n');
  const [loaded, setLoaded] = useState({ id: '', page: /** @type {any} */ (null), error: /** @type {any} */ (null) });
  const shown = useRef('');
  useEffect(() => {
    let gone = false;
    const load = PAGES[id];
    if (!load) return setLoaded({ id, page: null, error: null });
    load().then(
      (page) => !gone && setLoaded({ id, page: page.default, error: null }),
      (error) => !gone && setLoaded({ id, page: null, error }),
    );
    return () => {
      gone = true;
    };
  }, [id]);
  useEffect(() => {
    if (loaded.id !== id || shown.current === key) return;
    const first = shown.current === '';
    shown.current = key;
    const main = document.getElementById('main');
    if (main) main.scrollTop = 0;
    const heading = /** @type {HTMLElement | null} */ (document.querySelector('main h1'));
    document.title = heading?.textContent ? `${heading.textContent.slice(0, 80)} · Leveret` : 'Leveret';
    if (!first) heading?.focus({ preventScroll: true });
  });
  const { vhost } = route.value.query;
  useEffect(() => {
    if (vhost !== undefined && path.length === 1) chooseVhost(vhost);
  }, [vhost, path.length]);
  if (loaded.error) return html`<div class="page"><${Problem} of=${loaded.error} what="This page could not be loaded" /></div>`;
  if (loaded.id !== id) return html`<div class="page"><div class="loading" aria-busy="true"></div></div>`;
  if (!loaded.page) return html`<div class="page"><header class="head"><h1 tabindex="-1">No such page</h1></header><p>Nothing has the address <code>${location.hash}</code>. <a href="#/">Overview</a></p></div>`;
  return html`<${loaded.page} key=${key} path=${path} />`;
}

function App() {
  const user = me.value;
  const name = user?.name;
  useEffect(() => {
    if (name !== undefined) connect();
    else if (user === null) forget();
  }, [name]);
  const state = connection.value;
  useEffect(() => {
    if (state === 'unauthorised' && me.value) ask();
  }, [state]);
  if (user === undefined) {
    return trouble.value ? html`<div class="page"><${Problem} of=${trouble.value} /><p><button type="button" onClick=${ask}>Try again</button></p></div>` : null;
  }
  if (user === null) return html`<${Login} />`;
  return html`<${Shell}><${Page} /><//>`;
}

const root = document.getElementById('app');
if (root) render(html`<${App} />`, root);
ask();

