// Addresses. Each view is a link: its place stands behind `#/` as in RabbitMQ, its filters in a query behind that.
import { signal } from '../lib.js';
import { quoted } from './format.js';

/**
 * @typedef {{path: string[], query: Record<string, string>}} Route
 */

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A segment's name: as in the paths of requests, one behind `;=` may be empty. @param {string} text */
const named = (text) => decoded(text.startsWith(';=') ? text.slice(2) : text);

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#?\/?/, '').split('?', 2);
  /** @type {Record<string, string>} */
  const pairs = {};
  for (const pair of query.split('&').filter(Boolean)) {
    const [key, ...value] = pair.split('=');
    // A key such as __proto__ is nothing that a page asks for.
    if (!(decoded(key) in Object.prototype)) pairs[decoded(key)] = decoded(value.join('='));
  }
  return { path: path.split('/').filter(Boolean).map(named), query: pairs };
}

/**
 * @param {string[]} path
 * @param {Record<string, any>} [query] empty values are left out
 */
export function link(path, query = {}) {
  const pairs = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '' && value !== false,
  );
  const text = pairs.map(([key, value]) => `${quoted(key)}=${quoted(String(value))}`).join('&');
  return `#/${path.map((name) => (name === '' ? ';=' : quoted(String(name)))).join('/')}${text ? '?' + text : ''}`;
}

export const route = signal(parse(location.hash));
addEventListener('hashchange', () => {
  route.value = parse(location.hash);
});

/** @param {string} hash */
export function go(hash) {
  location.hash = hash;
}

/**
 * Changes the query of the current address.
 * @param {Record<string, any>} changes
 * @param {boolean} [replace] whether Back skips the present one, as for a filter that is being typed
 */
export function setQuery(changes, replace = false) {
  const hash = link(route.value.path, { ...route.value.query, ...changes });
  if (hash === location.hash) return;
  if (!replace) return go(hash);
  history.replaceState(null, '', hash);
  route.value = parse(hash);
}

/** Where objects are shown. */
export const to = {
  /** @param {string} vhost @param {string} name @param {Record<string, any>} [query] */
  queue: (vhost, name, query) => link(['queues', vhost, name], query),
  /** @param {string} vhost @param {string} name @param {Record<string, any>} [query] */
  exchange: (vhost, name, query) => link(['exchanges', vhost, name || 'amq.default'], query),
  /** @param {string} name @param {Record<string, any>} [query] */
  connection: (name, query) => link(['connections', name], query),
  /** @param {string} name */
  channel: (name) => link(['channels', name]),
  /** @param {string} name */
  user: (name) => link(['users', name]),
  /** @param {string} name */
  vhost: (name) => link(['vhosts', name]),
  /** @param {string} vhost @param {string} name */
  policy: (vhost, name) => link(['policies', vhost, name]),
  /** @param {string} vhost @param {string} name */
  operatorPolicy: (vhost, name) => link(['operator-policies', vhost, name]),
  /** @param {string} name @param {Record<string, any>} [query] */
  node: (name, query) => link(['nodes', name], query),
};

// Choices of the user, kept in the browser.

/** @param {string} key @returns {string | null} */
function read(key) {
  try {
    return localStorage.getItem('leveret.' + key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string | null} value */
function write(key, value) {
  try {
    if (value === null) localStorage.removeItem('leveret.' + key);
    else localStorage.setItem('leveret.' + key, value);
  } catch {
    // Without storage a choice holds until the tab is closed.
  }
}

/** `system`, `light` or `dark`. */
export const theme = signal(read('theme') ?? 'system');

/** @param {string} name */
export function setTheme(name) {
  theme.value = name;
  write('theme', name === 'system' ? null : name);
  const root = document.documentElement;
  if (name === 'system') delete root.dataset.theme;
  else root.dataset.theme = name;
}

/** The virtual host that lists are limited to; empty for all. */
export const chosenVhost = signal(read('vhost') ?? '');

/** @param {string} name */
export function chooseVhost(name) {
  chosenVhost.value = name;
  write('vhost', name || null);
}

/** @param {string} table @returns {string | null} the ids of columns, separated by commas */
export const columnsOf = (table) => read('columns.' + table);
/** @param {string} table @param {string | null} ids */
export const keepColumns = (table, ids) => write('columns.' + table, ids);

/** The period of charts, in seconds. */
export const period = signal(Number(read('period')) || 600);
/** @param {number} seconds */
export function setPeriod(seconds) {
  period.value = seconds;
  write('period', String(seconds));
}

addEventListener('storage', (event) => {
  if (event.key === 'leveret.theme') setTheme(event.newValue ?? 'system');
});

/**
 * Gives the focus a place when what had it goes: a button that is disabled while its request runs gets it back, and for a part that is
 * gone the nearest one around it that takes the focus stands in, else the page's heading.
 */
export function keepFocus() {
  /** What had the focus last, and all around it. @type {Element[]} */
  let last = [];
  const lost = () => !document.activeElement || document.activeElement === document.body;
  const mend = () => {
    if (!last.length || !lost() || document.querySelector('dialog[open]')) return;
    const [own, ...around] = last;
    if (own.isConnected && !(/** @type {any} */ (own).disabled)) return /** @type {HTMLElement} */ (own).focus({ preventScroll: true });
    const near = around.find((one) => one.isConnected && one.id !== 'main' && one.matches('[tabindex]:not(dialog), summary, form'));
    const beside = near?.matches('form') ? near.querySelector('button:not(:disabled), input') : near;
    const target = beside ?? document.querySelector('main h1') ?? document.getElementById('main');
    /** @type {HTMLElement | null} */ (target)?.focus({ preventScroll: true });
  };
  addEventListener('focusin', ({ target }) => {
    last = [];
    for (let one = /** @type {Element | null} */ (target); one && one !== document.body; one = one.parentElement) last.push(one);
  });
  // Somebody clicks beside everything: then nothing has the focus on purpose.
  addEventListener('pointerdown', () => (last = []), true);
  new MutationObserver(() => last.length && lost() && mend()).observe(document.body, { childList: true, subtree: true });
  // A browser takes the focus from what is disabled only at the next frame, and tells nobody.
  const disabled = () => last.length && (/** @type {any} */ (last[0]).disabled ? again() : mend());
  const again = () => requestAnimationFrame(() => requestAnimationFrame(() => lost() && /** @type {any} */ (last[0])?.dataset?.page && mend()));
  new MutationObserver(disabled).observe(document.body, { attributes: true, attributeFilter: ['disabled'], subtree: true });
}
