// Small components that every page uses, and columns that several lists have.
import { Component, html, signal, useEffect, useRef, useState } from '../lib.js';
import { may } from '../core/api.js';
import { at, bytes, count, plain, rate, span, time } from '../core/format.js';
import { now, useLive } from '../core/live.js';
import { chosenVhost, link, to } from '../core/router.js';

/** Characters that aren't seen, or that reorder or hide others. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

/** A text with hidden characters spelled out, for titles and labels. @param {string} text */
export const visible = (text) => text.replace(HIDDEN, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);

/**
 * A name that somebody else chose: isolated in its direction, hidden characters spelled out.
 * @param {{of: any, empty?: string}} properties
 */
export function Name({ of, empty = '(empty)' }) {
  const text = String(of ?? '');
  if (text === '') return html`<span class="faint">${empty}</span>`;
  const hidden = [...text.matchAll(HIDDEN)];
  if (!hidden.length) return html`<bdi class="name">${text}</bdi>`;
  const pieces = [];
  let from = 0;
  for (const match of hidden) {
    pieces.push(text.slice(from, match.index), html`<span class="hidden-char">${visible(match[0])}</span>`);
    from = (match.index ?? 0) + match[0].length;
  }
  pieces.push(text.slice(from));
  return html`<bdi class="name">${pieces}</bdi>`;
}

/** A name with a link. @param {{href: string, of: any, empty?: string, title?: string}} properties */
export const NameLink = ({ href, of, empty }) =>
  html`<a href=${href} title=${visible(String(of ?? ''))}><${Name} of=${of} empty=${empty} /></a>`;

/** @param {{vhost: string, name: string}} properties */
export const QueueLink = ({ vhost, name }) => html`<${NameLink} href=${to.queue(vhost, name)} of=${name} />`;
/** @param {{vhost: string, name: string}} properties */
export const ExchangeLink = ({ vhost, name }) =>
  html`<${NameLink} href=${to.exchange(vhost, name)} of=${name} empty="(AMQP default)" />`;
/** @param {{name: string}} properties */
export const UserName = ({ name }) =>
  may.administer() && name && name !== 'none'
    ? html`<${NameLink} href=${to.user(name)} of=${name} />`
    : html`<${Name} of=${name} />`;
/** @param {{name: string}} properties */
export const VhostName = ({ name }) =>
  may.administer() ? html`<${NameLink} href=${to.vhost(name)} of=${name} />` : html`<${Name} of=${name} />`;

/** Names of the virtual hosts that the user sees; undefined until they are known. @returns {string[] | undefined} */
export function useVhosts() {
  const { body } = useLive('vhosts?columns=name&sort=name');
  return Array.isArray(body) ? body.map(({ name }) => name) : undefined;
}

/** The virtual host that a form begins with. @param {string[]} vhosts */
export const usualVhost = (vhosts) => chosenVhost.value || (vhosts.includes('/') ? '/' : (vhosts[0] ?? '/'));

/** A small label. @param {{kind?: string, title?: string, children?: any}} properties */
export const Tag = ({ kind = '', title, children }) => html`<span class=${'tag ' + kind} title=${title}>${children}</span>`;

/** The time since a moment. @param {{at: any, word?: string}} properties */
export function When({ at, word = ' ago' }) {
  const then = new Date(at).getTime();
  if (!at || Number.isNaN(then)) return '–';
  return html`<time datetime=${new Date(then).toISOString()} title=${time(then)}>${span((now.value - then) / 1000, true)}${word}</time>`;
}

/**
 * An error where it happened, in the API's words.
 * @param {{of: any, what?: string}} properties
 */
export function Problem({ of, what }) {
  if (!of) return null;
  const reason = String(of.reason ?? of.message ?? of);
  return html`<div class="problem" role="alert">
    <strong>${what ?? (of.status ? `${of.status} ${of.error}` : (of.error ?? 'Error'))}</strong>
    <span class="pre">${visible(reason.trim()).replaceAll('\\u{a}', '\n')}</span>
  </div>`;
}

/** The last error of the page's own code that no part of it shows, such as one of a key or a click. */
export const fault = signal(/** @type {any} */ (null));

/** Keeps an error of the page's own for its reader and for the console. @param {any} error */
export function blame(error) {
  console.error(error);
  fault.value = error;
}

/** Draws what a function returns, so that its errors reach the guard around it. @param {{draw: () => any}} properties */
const Drawn = ({ draw }) => draw();

/**
 * A part of the page whose errors stay within it: their words take its place, everything around it lives on, and it is drawn anew with
 * the next answer. Children that are functions are called inside of it.
 * @extends {Component<{children?: any, instead?: (error: any) => any}, {error: any}>}
 */
export class Guard extends Component {
  constructor(properties) {
    super(properties);
    this.state = { error: null };
    this.said = '';
  }
  static getDerivedStateFromError(error) {
    return { error };
  }
  componentDidCatch(error) {
    const words = String(error?.message ?? error);
    if (this.said !== words) console.error(error);
    this.said = words;
  }
  componentWillReceiveProps() {
    if (this.state.error) this.setState({ error: null });
  }
  render() {
    const { children, instead } = this.props;
    const { error } = this.state;
    if (error) return instead ? instead(error) : html`<${Problem} of=${error} what="This part of the page can't be shown" />`;
    return typeof children === 'function' ? html`<${Drawn} draw=${children} />` : children;
  }
}

/** The same component with a guard around it. @template {(properties: any) => any} T @param {T} inner @returns {T} */
export const guarded = (inner) => /** @type {T} */ ((properties) => html`<${Guard}><${inner} ...${properties} /><//>`);

/** Something that was done. @param {{children?: any}} properties */
export const Done = ({ children }) => html`<p class="done" role="status">${children}</p>`;

/** Pairs of a name and a value; those without a value are left out. @param {{rows: [any, any][], wide?: boolean}} properties */
export const Facts = guarded(({ rows, wide }) => {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '');
  return html`<dl class=${wide ? 'facts wide' : 'facts'}>${shown.map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl>`;
});

/** A table of arguments or properties. @param {{of: any, none?: string}} properties */
export function Arguments({ of, none = '–' }) {
  const pairs = Object.entries(of && !Array.isArray(of) ? of : {});
  if (!pairs.length) return html`<span class="faint">${none}</span>`;
  return html`<dl class="arguments">${pairs.map(
    ([key, value]) =>
      html`<div><dt><${Name} of=${key} /></dt><dd>${value !== null && typeof value === 'object' && !Array.isArray(value) ? html`<${Arguments} of=${value} none="{}" />` : html`<${Name} of=${plain(value)} />`}</dd></div>`,
  )}</dl>`;
}

/** A part of a page. @param {{title: any, id?: string, aside?: any, children?: any}} properties */
export const Section = ({ title, id, aside, children }) => html`<section class="section" id=${id}>
  <div class="section-head"><h2>${title}</h2>${aside}</div><${Guard}>${children}<//></section>`;

/**
 * Something that is shown on demand. What is within isn't there, and asks for nothing, before it was opened once.
 * @param {{title: any, children?: any}} properties
 */
export function Fold({ title, children }) {
  const [opened, setOpened] = useState(false);
  return html`<details class="fold" onToggle=${(event) => event.currentTarget.open && setOpened(true)}><summary>${title}</summary>${opened && html`<div class="fold-body"><${Guard}>${children}<//></div>`}</details>`;
}

/** A question mark that leads to what a word means. @param {{word: string}} properties */
export const Help = ({ word }) =>
  html` <a class="help" href=${link(['words'], { name: word })} title=${`What is ${word}?`}><span class="sr">What is ${word}</span>?</a>`;

/** The head of a page; its heading takes the focus after a change of pages. @param {{title: any, above?: any, tags?: any, aside?: any}} properties */
export const Head = ({ title, above, tags, aside }) => html`<header class="head">
  ${above && html`<p class="above">${above}</p>`}
  <div class="head-row"><h1 tabindex="-1">${title}</h1>${tags && html`<span class="tags">${tags}</span>`}<span class="spacer"></span>${aside}</div>
</header>`;

/**
 * An answer's body, or its error, or nothing yet.
 * @param {{live: {body: any, error: any}, gone?: any, children: (body: any) => any}} properties
 */
export function Await({ live, gone, children }) {
  if (live.error?.status === 404 && gone) return html`<div class="empty">${gone}</div>`;
  if (live.error) return html`<${Problem} of=${live.error} />`;
  if (live.body === undefined) return html`<div class="loading" aria-busy="true"><span class="sr">Loading</span></div>`;
  return html`<${Guard}>${() => children(live.body)}<//>`;
}

/** Nothing to show, and why. @param {{children?: any}} properties */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/**
 * Something that is under way at most once, with its error and its outcome.
 * @returns {{busy: boolean, error: any, done: any, run: (work: () => Promise<any>, said?: any) => Promise<boolean>, clear: () => void}}
 */
export function useAction() {
  const [state, set] = useState(/** @type {{busy: boolean, error: any, done: any}} */ ({ busy: false, error: null, done: null }));
  const alive = useRef(true);
  useEffect(() => {
    alive.current = true;
    return () => {
      alive.current = false;
    };
  }, []);
  const run = async (work, said) => {
    set({ busy: true, error: null, done: null });
    try {
      const answer = await work();
      if (alive.current) set({ busy: false, error: null, done: typeof said === 'function' ? said(answer) : (said ?? null) });
      return true;
    } catch (error) {
      if (alive.current) set({ busy: false, error, done: null });
      return false;
    }
  };
  return { ...state, run, clear: () => set({ busy: false, error: null, done: null }) };
}

/** The outcome of an action. @param {{of: any}} properties */
export const Outcome = ({ of }) => html`<${Problem} of=${of.error} />${of.done && html`<${Done}>${of.done}<//>`}`;

/** Copies a text. @param {{text: string, label?: string}} properties */
export function Copy({ text, label = 'Copy' }) {
  const [copied, set] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => set(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers offer the clipboard to https and localhost only.
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    set(true);
  };
  return html`<button type="button" class="small" onClick=${copy}>${copied ? 'Copied' : label}</button>`;
}

/** Offers a text as a file. @param {string} name @param {BlobPart} content @param {string} type */
export function download(name, content, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Findings of why.js as sentences. @param {{findings: import('../core/why.js').Finding[]}} properties */
export const Why = guarded(({ findings }) => {
  if (!findings.length) return null;
  return html`<ul class="why" aria-label="What it waits for">${findings.map(
    (finding) => html`<li class=${'finding ' + finding.level} key=${finding.code}>
      <span class="finding-label">${finding.short}</span>
      <span class="finding-text">${finding.parts.map((part) => (typeof part === 'string' ? part : part.href ? html`<${NameLink} href=${part.href} of=${part.name} />` : html`<${Name} of=${part.name} />`))}
      ${finding.todo && html` <span class="todo">${finding.todo}</span>`}</span>
      ${finding.since && now.value - new Date(finding.since).getTime() > 1000 && html`<span class="finding-since" title=${`Since ${time(finding.since)}`}>for ${span((now.value - new Date(finding.since).getTime()) / 1000)}</span>`}
    </li>`,
  )}</ul>`;
});

/** The short form in a table. @param {{finding: import('../core/why.js').Finding | null | undefined}} properties */
export const WhyTag = ({ finding }) =>
  finding
    ? html`<span class=${'why-tag ' + finding.level} title=${finding.parts.map((part) => (typeof part === 'string' ? part : part.name)).join('')}>${finding.short}</span>`
    : null;

/** Tabs that are links. @param {{tabs: [string, any, any?][], now: string, href: (id: string) => string, label: string}} properties */
export const Tabs = ({ tabs, now: current, href, label }) =>
  html`<nav class="tabs" aria-label=${label}>${tabs.map(
    ([id, title, number]) =>
      html`<a href=${href(id)} aria-current=${id === current ? 'page' : undefined}>${title}${number !== undefined && html`<span class="tab-count">${number}</span>`}</a>`,
  )}</nav>`;

/** A row of buttons of which one is pressed. @param {{options: [any, string][], value: any, onChange: (value: any) => void, label: string}} properties */
export const Choice = ({ options, value, onChange, label }) =>
  html`<div class="choice" role="group" aria-label=${label}>${options.map(
    ([key, title]) =>
      html`<button type="button" aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${title}</button>`,
  )}</div>`;

// Columns that several lists have.

/** A count; zeros are faint, so that the others stand out. @param {any} value @param {(value: any) => string} [format] */
export const quiet = (value, format = count) => html`<span class=${value ? '' : 'zero'}>${format(value)}</span>`;

/**
 * A number at a path of the row.
 * @param {string} id @param {string} title @param {string} path
 * @param {{format?: (value: any) => string, off?: boolean, hint?: string}} [of]
 * @returns {import('./table.js').Column}
 */
export const number = (id, title, path, { format = count, off, hint } = {}) => ({
  id,
  title,
  num: true,
  sort: path,
  need: [path],
  off,
  hint,
  cell: (row) => quiet(at(row, path), format),
});

/** A rate. @param {string} id @param {string} title @param {string} path @param {{off?: boolean, hint?: string}} [of] */
export const perSecond = (id, title, path, of = {}) =>
  number(id, title, `${path}_details.rate`, { format: (value) => rate(value ?? 0), hint: 'per second', ...of });

/** @param {string} id @param {string} title @param {string} path @param {{off?: boolean, hint?: string}} [of] */
export const size = (id, title, path, of = {}) => number(id, title, path, { format: bytes, ...of });

/** The virtual host, unless the list is limited to one. @returns {import('./table.js').Column[]} */
export const vhostColumn = () =>
  chosenVhost.value
    ? []
    : [
        {
          id: 'vhost',
          title: 'Virtual host',
          slack: true,
          sort: 'vhost',
          need: ['vhost'],
          cell: (row) => html`<${VhostName} name=${row.vhost} />`,
        },
      ];

/** Whether the node is one of several: lists show then whose each row is. The frame sets it. */
export const isCluster = signal(false);

/** The node that an object is on, in a cluster. @returns {import('./table.js').Column[]} */
export const nodeColumn = () => [
  {
    id: 'node',
    title: 'Node',
    slack: true,
    sort: 'node',
    need: ['node'],
    off: !isCluster.value,
    cell: (row) => row.node && html`<${NodeName} name=${row.node} />`,
  },
];

/** A node, as a link to it. @param {{name: string}} properties */
export const NodeName = ({ name }) => html`<a href=${to.node(name)}><${Name} of=${name} /></a>`;

// Rows of large numbers.

/**
 * @param {{items: {label: string, value: any, unit?: string, dot?: string, href?: string, title?: string, warn?: boolean}[], label: string}} properties
 */
export const Figures = ({ items, label }) =>
  html`<div class="figures" role="group" aria-label=${label}>${items
    .filter(Boolean)
    .map(({ label: name, value, unit, dot, href, title, warn }) => {
      const inner = html`<span class=${'figure-label' + (dot ? ' dotted' : '')} style=${dot ? { '--dot': `var(${dot})` } : undefined}>${name}</span><span class=${'figure-value' + (warn ? ' warn' : '')}>${value}${unit && html`<span class="figure-unit">${unit}</span>`}</span>`;
      return href
        ? html`<a href=${href} title=${title} key=${name}>${inner}</a>`
        : html`<div title=${title} key=${name}>${inner}</div>`;
    })}</div>`;
