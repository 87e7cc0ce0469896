// Starts the page: who is here, which page the address means, and what goes wrong in it.
import { html, render, useEffect, useRef, useState } from './lib.js';
import { ask, begin, me, trouble } from './core/api.js';
import { connect, connection, forget } from './core/live.js';
import { chooseVhost, chosenVhost, keepFocus, link, route, setQuery } from './core/router.js';
import { blame, Guard, Problem } from './parts/basics.js';
import { Login, Shell } from './parts/shell.js';

const load = {
  node: () => import('./pages/node.js'),
  queues: () => import('./pages/queues.js'),
  exchanges: () => import('./pages/exchanges.js'),
  clients: () => import('./pages/clients.js'),
  streams: () => import('./pages/streams.js'),
  access: () => import('./pages/access.js'),
  vhosts: () => import('./pages/vhosts.js'),
  rules: () => import('./pages/rules.js'),
  help: () => import('./pages/help.js'),
};

/** The module and the component of each page, by the first word of its address; with a slash if more words follow. */
const PAGES = /** @type {Record<string, [() => Promise<any>, string]>} */ ({
  '': [load.node, 'Overview'],
  queues: [load.queues, 'Queues'],
  'queues/': [load.queues, 'Queue'],
  exchanges: [load.exchanges, 'Exchanges'],
  'exchanges/': [load.exchanges, 'Exchange'],
  bindings: [load.exchanges, 'Bindings'],
  'bindings/': [load.exchanges, 'Bindings'],
  connections: [load.clients, 'Connections'],
  'connections/': [load.clients, 'Connection'],
  channels: [load.clients, 'Channels'],
  'channels/': [load.clients, 'Channel'],
  consumers: [load.clients, 'Consumers'],
  'stream-clients': [load.streams, 'StreamClients'],
  'super-streams': [load.streams, 'SuperStreams'],
  users: [load.access, 'Users'],
  'users/': [load.access, 'User'],
  vhosts: [load.vhosts, 'Vhosts'],
  'vhosts/': [load.vhosts, 'Vhost'],
  permissions: [load.access, 'Permissions'],
  limits: [load.access, 'Limits'],
  policies: [load.rules, 'Policies'],
  'policies/': [load.rules, 'Policy'],
  'operator-policies/': [load.rules, 'Policy'],
  definitions: [load.rules, 'Definitions'],
  traces: [load.rules, 'Traces'],
  features: [load.rules, 'Features'],
  nodes: [load.node, 'Nodes'],
  'nodes/': [load.node, 'Nodes'],
  api: [load.help, 'Api'],
  words: [load.help, 'Words'],
});

/** Lists that a virtual host limits. */
const OF_VHOSTS = new Set([
  'queues',
  'exchanges',
  'bindings',
  'connections',
  'channels',
  'consumers',
  'stream-clients',
  'super-streams',
  'policies',
]);

/** Addresses of RabbitMQ whose page has another one here. */
const MOVED = {
  'feature-flags': 'features',
  'deprecated-features': 'features',
  operator_policies: 'operator-policies',
  'cluster-name': 'nodes',
  stream: 'stream-clients',
};

/** Lists below which an object has two names: a virtual host alone stands for the list of its objects. */
const OF_TWO = new Set(['queues', 'exchanges', 'policies', 'operator-policies']);

/** @param {string[]} path */
function pageOf(path) {
  const first = path[0] ?? '';
  const word = Object.hasOwn(MOVED, first) ? MOVED[first] : first;
  if (path[0] === 'stream' && path[1] === 'super-streams') return 'super-streams';
  if (path[0] === 'stream') return 'stream-clients';
  return path.length > 1 ? `${word}/` : word;
}

function Page() {
  const { path } = route.value;
  const id = pageOf(path);
  const page = Object.hasOwn(PAGES, id) ? PAGES[id] : null;
  const key = JSON.stringify([id, ...path]);
  const [loaded, setLoaded] = useState({ id: 'none', page: /** @type {any} */ (null), error: /** @type {any} */ (null) });
  const shown = useRef(/** @type {string | null} */ (null));
  useEffect(() => {
    let gone = false;
    if (!page) return setLoaded({ id, page: null, error: null });
    const [module, name] = page;
    module().then(
      (pages) => !gone && setLoaded({ id, page: pages[name], error: null }),
      (error) => !gone && setLoaded({ id, page: null, error }),
    );
    return () => {
      gone = true;
    };
  }, [id]);
  useEffect(() => {
    // A form has the address of its list, but for the query.
    const view = `${key}${route.value.query.new ?? ''}`;
    if (loaded.id !== id || shown.current === view) return;
    const first = shown.current === null;
    shown.current = view;
    const main = document.getElementById('main');
    if (main) main.scrollTop = 0;
    const heading = /** @type {HTMLElement | null} */ (document.querySelector('main h1'));
    document.title = heading?.textContent ? `${heading.textContent.slice(0, 80)} · Leveret` : 'Leveret';
    if (!first) heading?.focus({ preventScroll: true });
  });
  const listed = path.length === 2 && OF_TWO.has(path[0]) ? path[0] : '';
  useEffect(() => {
    if (!listed) return;
    const operator = listed === 'operator-policies';
    location.replace(link([operator ? 'policies' : listed], { kind: operator && 'operator', vhost: path[1] }));
  }, [key]);
  const { vhost } = route.value.query;
  useEffect(() => {
    if (path.length !== 1 || !OF_VHOSTS.has(id)) return;
    if (vhost !== undefined) chooseVhost(vhost);
    // A list that is limited to a virtual host says so in its address.
    else if (chosenVhost.value) setQuery({ vhost: chosenVhost.value }, true);
  }, [vhost, key]);
  if (loaded.error) return html`<div class="page"><${Problem} of=${loaded.error} what="This page could not be loaded" /></div>`;
  if (loaded.id !== id) return html`<div class="page"><div class="loading" aria-busy="true"></div></div>`;
  if (!loaded.page)
    return html`<div class="page"><header class="head"><h1 tabindex="-1">No such page</h1></header><p>Nothing has the address <code>${location.hash}</code>. <a href="#/">Overview</a></p></div>`;
  if (listed) return null;
  return html`<${Guard} key=${key} instead=${broken}><${loaded.page} path=${path} /><//>`;
}

/** A page whose own code has failed: its address stays, and so does everything around it. @param {any} error */
const broken = (error) =>
  html`<div class="page"><header class="head"><h1 tabindex="-1">This page can't be shown</h1></header>
    <${Problem} of=${error} what="The page's own code has failed" /><p>It is tried again with each answer of the node. The other pages aren't concerned. <a href="#/">Overview</a></p></div>`;

function App() {
  const user = me.value;
  const name = user?.name;
  useEffect(() => {
    if (name !== undefined) {
      connect();
      // The other pages are there when somebody goes to them.
      setTimeout(() => Object.values(load).forEach((module) => module().catch(() => {})), 1500);
    } else if (user === null) forget();
  }, [name]);
  const state = connection.value;
  useEffect(() => {
    if (state === 'unauthorised' && me.value) ask();
  }, [state]);
  if (user === undefined) {
    return trouble.value
      ? html`<div class="page"><${Problem} of=${trouble.value} /><p><button type="button" onClick=${ask}>Try again</button></p></div>`
      : null;
  }
  if (user === null) return html`<${Login} />`;
  return html`<${Shell}><${Guard}><${Page} /><//><//>`;
}

// What fails outside of drawing, in a click or a key, is shown by a banner: nothing fails in silence.
addEventListener('error', ({ error }) => error && blame(error));
addEventListener('unhandledrejection', ({ reason }) => reason?.name !== 'AbortError' && blame(reason));

const root = document.getElementById('app');
if (root) render(html`<${Guard}><${App} /><//>`, root);
keepFocus();
begin();
