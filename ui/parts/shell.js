// The frame of every page: bar, navigation, banners, keys that work everywhere, "Go to", and the login.
import { html, useEffect, useRef, useState } from '../lib.js';
import { ended, get, login, logout, may, me, path, query } from '../core/api.js';
import { at, bytes, count, rate } from '../core/format.js';
import { connection, tryAgain, useLive } from '../core/live.js';
import { chooseVhost, chosenVhost, go, link, route, setQuery, setTheme, theme, to } from '../core/router.js';
import { Choice, fault, Guard, isCluster, Name, Problem, Tag, useAction, useVhosts, visible } from './basics.js';
import { Dialog } from './forms.js';

/** The hare. */
export const Mark = () => html`<img class="mark" src=${new URL('../icon.svg', import.meta.url).href} alt="" />`;

const anybody = () => true;

/** Groups of pages: first word of the address, title, who may see it, a count, and the key after `g`. */
export const MENU = /** @type {[string, [string, string, () => boolean, string?, string?][]][]} */ ([
  ['', [['', 'Overview', anybody, '', 'o']]],
  [
    'Messages',
    [
      ['queues', 'Queues', anybody, 'queues', 'q'],
      ['exchanges', 'Exchanges', anybody, 'exchanges', 'e'],
      ['bindings', 'Bindings', anybody, '', 'b'],
      ['super-streams', 'Super streams', anybody],
    ],
  ],
  [
    'Clients',
    [
      ['connections', 'Connections', anybody, 'connections', 'c'],
      ['channels', 'Channels', anybody, 'channels', 'h'],
      ['consumers', 'Consumers', anybody, 'consumers', 's'],
      ['stream-clients', 'Stream clients', anybody],
    ],
  ],
  [
    'Rules',
    [
      ['policies', 'Policies', anybody, '', 'p'],
      ['limits', 'Limits', anybody],
      ['vhosts', 'Virtual hosts', may.administer, '', 'v'],
    ],
  ],
  [
    'Access',
    [
      ['users', 'Users', may.administer, '', 'u'],
      ['permissions', 'Permissions', may.administer],
    ],
  ],
  [
    'Node',
    [
      ['nodes', 'Node', may.monitor, '', 'n'],
      ['definitions', 'Definitions', may.administer, '', 'd'],
      ['traces', 'Traces', may.administer],
      ['features', 'Features', anybody],
    ],
  ],
  [
    'Help',
    [
      ['api', 'HTTP API', anybody],
      ['words', 'Words', anybody],
    ],
  ],
]);

function Nav({ open, totals, onGo }) {
  const here = route.value.path[0] ?? '';
  const own = { 'operator-policies': 'policies', 'deprecated-features': 'features', 'feature-flags': 'features' }[here] ?? here;
  return html`<nav class=${'nav' + (open ? ' open' : '')} id="nav" aria-label="Pages">
    ${MENU.map(([group, pages]) => {
      const seen = pages.filter(([, , allowed]) => allowed());
      if (!seen.length) return null;
      return html`<div key=${group}>${group && html`<h2>${group}</h2>`}<ul>${seen.map(
        ([
          word,
          title,
          ,
          total,
        ]) => html`<li key=${word}><a href=${link(word ? [word] : [])} aria-current=${own === word ? 'page' : undefined} onClick=${onGo}>${title}
          ${total && totals?.[total] ? html`<span class="nav-count">${count(totals[total])}</span>` : null}</a></li>`,
      )}</ul></div>`;
    })}
  </nav>`;
}

function VhostChoice() {
  const names = useVhosts() ?? [];
  const chosen = chosenVhost.value;
  useEffect(() => {
    // A virtual host that is gone hides everything: all are shown again.
    if (names.length && chosen && !names.includes(chosen)) chooseVhost('');
  }, [names.join('\n'), chosen]);
  if (names.length < 2 && !chosen) return null;
  const choose = (event) => {
    chooseVhost(event.currentTarget.value);
    if (route.value.path.length === 1) setQuery({ vhost: event.currentTarget.value, page: '' });
  };
  return html`<select aria-label="Virtual host" value=${chosen} onChange=${choose}>
    <option value="">All virtual hosts</option>${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`;
}

const STATES = {
  live: ['live', 'Live: changes arrive by themselves'],
  polled: ['every 2 s', 'The node has no event stream; lists are asked for every two seconds'],
  lost: ['no connection', 'The node cannot be reached; trying again'],
  starting: ['…', 'Connecting'],
  unauthorised: ['signed out', 'The session ended'],
};

function Pulse() {
  const [text, title] = STATES[connection.value] ?? STATES.starting;
  return html`<span class=${'pulse ' + connection.value} title=${title} role="status"><span>${text}</span></span>`;
}

function UserMenu({ onKeys }) {
  const box = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const leave = (event) => {
    if (box.current && !box.current.contains(event.relatedTarget)) box.current.open = false;
  };
  const key = (event) => {
    if (event.key !== 'Escape' || !box.current) return;
    box.current.open = false;
    box.current.querySelector('summary')?.focus();
  };
  const user = me.value;
  if (!user) return null;
  return html`<details class="menu" ref=${box} onFocusOut=${leave} onKeyDown=${key}>
    <summary aria-label=${`User ${user.name}: theme, keys, sign out`}><span class="who"><${Name} of=${user.name} /></span></summary>
    <div class="menu-body" tabindex="-1">
      <div><b><${Name} of=${user.name} /></b><div class="tags">${user.tags.filter(Boolean).map((tag) => html`<${Tag}>${tag}<//>`)}</div></div>
      <${Choice} label="Theme" options=${[
        ['system', 'System'],
        ['light', 'Light'],
        ['dark', 'Dark'],
      ]} value=${theme.value} onChange=${setTheme} />
      <button type="button" onClick=${onKeys}>Keys</button>
      <button type="button" onClick=${logout}>Sign out</button>
    </div>
  </details>`;
}

/** Alarms, maintenance, and a connection that is lost. */
function Banners() {
  const { body } = useLive(
    may.monitor() &&
      'nodes?columns=name,running,reason,being_drained,maintenance_reason,mem_alarm,disk_free_alarm,mem_used,mem_limit,disk_free,disk_free_limit',
  );
  const nodes = Array.isArray(body) ? body : [];
  useEffect(() => {
    isCluster.value = nodes.length > 1;
  }, [nodes.length]);
  return html`${fault.value && html`<div class="banner bad" role="alert"><b>The page's own code has failed</b><span class="pre">${visible(String(fault.value?.message ?? fault.value))}</span><button type="button" class="small" onClick=${() => (fault.value = null)}>Close</button></div>`}
    ${connection.value === 'lost' && html`<div class="banner bad" role="alert">The node cannot be reached. What you see is how it was. <button type="button" class="small" onClick=${tryAgain}>Try now</button></div>`}
    ${nodes.map(
      (node) => html`
      ${node.running === false && html`<div class="banner bad" role="alert" key="down"><b>Node down</b><span><a href=${to.node(node.name)}><${Name} of=${node.name} /></a> can't be reached${node.reason ? `: ${visible(node.reason)}.` : '.'}</span></div>`}
      ${node.mem_alarm && html`<div class="banner bad" role="alert" key="memory"><b>Memory alarm</b><span><a href=${to.node(node.name)}><${Name} of=${node.name} /></a> uses ${bytes(node.mem_used)} of ${bytes(node.mem_limit)}: publishers are not read until it uses less.</span></div>`}
      ${node.disk_free_alarm && html`<div class="banner bad" role="alert" key="disk"><b>Disk alarm</b><span><a href=${to.node(node.name)}><${Name} of=${node.name} /></a> has ${bytes(node.disk_free)} free, below its limit of ${bytes(node.disk_free_limit)}: publishers are not read until there is more.</span></div>`}
      ${node.being_drained && html`<div class="banner warn" key="maintenance"><b>Maintenance</b><span><a href=${to.node(node.name)}><${Name} of=${node.name} /></a> takes no client connections${node.maintenance_reason ? `: ${visible(node.maintenance_reason)}.` : '.'}</span></div>`}`,
    )}`;
}

const KEYS = [
  ['/', 'Filter the list'],
  ['Ctrl K', 'Go to a queue, exchange, connection or page by name'],
  [
    'g, then a letter',
    'Go to a page: o overview, q queues, e exchanges, b bindings, c connections, h channels, s consumers, p policies, v virtual hosts, u users, n node, d definitions',
  ],
  ['↑ ↓  or  k j', 'Row by row, within a list'],
  ['Enter', 'Open the row'],
  ['[  ]', 'Previous and next page'],
  ['Esc', 'Close a dialog'],
  ['?', 'These keys'],
];

/** @param {{children?: any}} properties */
export function Shell({ children }) {
  const [nav, setNav] = useState(false);
  const [keys, setKeys] = useState(false);
  const [jump, setJump] = useState(false);
  const prefix = useRef(0);
  const overview = useLive('overview').body;

  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const key = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === 'k') {
        event.preventDefault();
        setJump(true);
        return;
      }
      const target = /** @type {HTMLElement} */ (event.target);
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        target.closest('input:not([type=checkbox]), textarea, select, dialog')
      )
        return;
      if (event.key === '/') {
        const field = /** @type {HTMLInputElement | null} */ (document.querySelector('[data-filter]'));
        if (field) {
          event.preventDefault();
          field.focus();
          field.select();
        }
      } else if (event.key === '?') setKeys(true);
      else if (event.key === '[' || event.key === ']') {
        /** @type {HTMLElement | null} */ (
          document.querySelector(`[data-page="${event.key === '[' ? 'previous' : 'next'}"]`)
        )?.click();
      } else if (event.key === 'g') prefix.current = Date.now();
      else if (Date.now() - prefix.current < 1200) {
        prefix.current = 0;
        for (const [, pages] of MENU)
          for (const [word, , allowed, , letter] of pages) if (letter === event.key && allowed()) go(link(word ? [word] : []));
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);

  const rates = [at(overview, 'message_stats.publish_details.rate'), at(overview, 'message_stats.deliver_get_details.rate')];
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById('main')?.focus();
    }}>Skip to the page</a>
    <header class="bar">
      <button type="button" class="menu-button" aria-expanded=${String(nav)} aria-controls="nav" onClick=${() => setNav(!nav)}>Menu</button>
      <a class="brand" href="#/"><${Mark} />Leveret</a>
      ${overview && html`<span class="cluster" title="The cluster's name"><${Name} of=${overview.cluster_name} /></span>`}
      <span class="spacer"></span>
      ${overview?.message_stats && html`<span class="bar-rates" title="Messages per second of the whole node"><span>in <b>${rate(rates[0])}</b>/s</span><span>out <b>${rate(rates[1])}</b>/s</span></span>`}
      <${Guard}><${Pulse} /><//>
      <button type="button" class="plain" onClick=${() => setJump(true)} title="Go to a queue, exchange, connection or page  Ctrl K">Go to…</button>
      <${Guard}><${VhostChoice} /><//>
      <${Guard}><${UserMenu} onKeys=${() => setKeys(true)} /><//>
    </header>
    <${Guard}><${Nav} open=${nav} totals=${overview?.object_totals} onGo=${() => setNav(false)} /><//>
    <main class="main" id="main" tabindex="-1"><${Guard}><${Banners} /><//>${children}</main>
    <${Dialog} open=${keys} onClose=${() => setKeys(false)} label="Keys">
      <div class="dialog-body"><h2>Keys</h2><dl class="facts">${KEYS.map(([name, does]) => html`<div><dt><kbd>${name}</kbd></dt><dd>${does}</dd></div>`)}</dl>
      <div class="dialog-end"><button type="button" onClick=${() => setKeys(false)} autofocus>Close</button></div></div>
    <//>
    <${Dialog} open=${jump} onClose=${() => setJump(false)} label="Go to"><${Guard}><${Jump} onGo=${() => setJump(false)} /><//><//>
  </div>`;
}

// "Go to": finds pages and objects by a part of their name.

const SHOWN = 6;

/** @param {string} name */
async function find(name) {
  const vhost = chosenVhost.value;
  const of = { name, page: 1, page_size: SHOWN, pagination: 'true' };
  const ask = (where, columns) =>
    get(where + query({ ...of, columns })).then(
      (answer) => answer.items ?? [],
      () => [],
    );
  const [queues, exchanges, connections] = await Promise.all([
    ask(vhost ? path`queues/${vhost}` : 'queues', 'name,vhost,type'),
    ask(vhost ? path`exchanges/${vhost}` : 'exchanges', 'name,vhost'),
    ask(vhost ? path`vhosts/${vhost}/connections` : 'connections', 'name,user'),
  ]);
  return [
    ...queues.map((queue) => ({
      name: queue.name,
      kind: `${queue.type === 'stream' ? 'stream' : 'queue'} in ${queue.vhost}`,
      href: to.queue(queue.vhost, queue.name),
    })),
    ...exchanges
      .filter((exchange) => exchange.name)
      .map((exchange) => ({
        name: exchange.name,
        kind: `exchange in ${exchange.vhost}`,
        href: to.exchange(exchange.vhost, exchange.name),
      })),
    ...connections.map((connection) => ({
      name: connection.name,
      kind: `connection of ${connection.user}`,
      href: to.connection(connection.name),
    })),
  ];
}

/** @param {{onGo: () => void}} properties */
export function Jump({ onGo }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState(/** @type {any[]} */ ([]));
  const [at, setAt] = useState(0);
  const asked = useRef(0);
  useEffect(() => {
    setAt(0);
    if (!text) return setFound([]);
    const number = (asked.current += 1);
    const timer = setTimeout(async () => {
      const results = await find(text);
      if (asked.current === number) setFound(results);
    }, 120);
    return () => clearTimeout(timer);
  }, [text]);
  const low = text.toLowerCase();
  const pages = MENU.flatMap(([, group]) => group)
    .filter(([, title, allowed]) => allowed() && title.toLowerCase().includes(low))
    .map(([word, title]) => ({ name: title, kind: 'page', href: link(word ? [word] : []) }));
  const rows = [...(text ? pages.slice(0, 4) : pages), ...found];
  const key = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const next = Math.max(0, Math.min(rows.length - 1, at + step));
      setAt(next);
      document.getElementById(`jump-${next}`)?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' && rows[at]) {
      event.preventDefault();
      onGo();
      go(rows[at].href);
    }
  };
  return html`<div class="jump">
    <input type="text" aria-label="Name of a page, queue, exchange or connection" placeholder="Page, queue, exchange or connection" value=${text} onInput=${(event) => setText(event.currentTarget.value)} onKeyDown=${key}
      role="combobox" aria-expanded="true" aria-controls="jump-list" aria-activedescendant=${rows[at] ? `jump-${at}` : undefined} autocomplete="off" spellcheck=${false} autofocus />
    <ul id="jump-list" role="listbox" aria-label="Results">${rows.map((row, index) => html`<li role="presentation" key=${row.href}><a id=${`jump-${index}`} role="option" aria-selected=${String(index === at)} tabindex="-1" href=${row.href} onClick=${onGo}><${Name} of=${row.name} /><span class="kind"><${Name} of=${row.kind} /></span></a></li>`)}</ul>
    ${text && !rows.length && html`<p class="empty">Nothing has such a name.</p>`}
  </div>`;
}

// The form that stands before everything else.

export function Login() {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(() => login(name, password));
  };
  const refused = action.error?.status === 401;
  return html`<main class="login"><form onSubmit=${submit}>
    <h1 class="brand"><${Mark} />Leveret</h1>
    ${ended.value && !action.error && html`<p class="muted" role="status">Your session ended. Sign in to go on where you were.</p>`}
    <label>User<input type="text" name="username" value=${name} onInput=${(event) => setName(event.currentTarget.value)} autocomplete="username" autocapitalize="none" spellcheck=${false} required autofocus /></label>
    <label>Password<input type="password" name="password" value=${password} onInput=${(event) => setPassword(event.currentTarget.value)} autocomplete="current-password" /></label>
    <${Problem} of=${action.error} what=${refused ? 'Not signed in' : undefined} />
    ${refused && html`<p class="muted">The name or the password is wrong, or the user has no tag that lets it use this page (management, policymaker, monitoring, administrator). <b>guest</b> may sign in from the node's own machine only.</p>`}
    <button type="submit" class="primary" disabled=${action.busy}>Sign in</button>
  </form></main>`;
}
