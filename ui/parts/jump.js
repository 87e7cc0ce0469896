// "Go to": finds pages and objects by a part of their name.
import { html, useEffect, useRef, useState } from '../lib.js';
import { get, path, query } from '../core/api.js';
import { go, link, to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { Name } from './basics.js';
import { MENU } from './shell.js';

const SHOWN = 6;

/** @param {string} name */
async function find(name) {
  const vhost = chosenVhost.value;
  const of = { name, page: 1, page_size: SHOWN, pagination: 'true' };
  const ask = (where, columns) => get(where + query({ ...of, columns })).then((answer) => answer.items ?? [], () => []);
  const [queues, exchanges, connections] = await Promise.all([
    ask(vhost ? path`queues/${vhost}` : 'queues', 'name,vhost,type'),
    ask(vhost ? path`exchanges/${vhost}` : 'exchanges', 'name,vhost'),
    ask(vhost ? path`vhosts/${vhost}/connections` : 'connections', 'name,user'),
  ]);
  return [
    ...queues.map((queue) => ({ name: queue.name, kind: `${queue.type === 'stream' ? 'stream' : 'queue'} in ${queue.vhost}`, href: to.queue(queue.vhost, queue.name) })),
    ...exchanges.filter((exchange) => exchange.name).map((exchange) => ({ name: exchange.name, kind: `exchange in ${exchange.vhost}`, href: to.exchange(exchange.vhost, exchange.name) })),
    ...connections.map((connection) => ({ name: connection.name, kind: `connection of ${connection.user}`, href: to.connection(connection.name) })),
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
  const pages = MENU.flatMap(([, group]) => group).filter(([, title, allowed]) => allowed() && title.toLowerCase().includes(low)).map(([word, title]) => ({ name: title, kind: 'page', href: link(word ? [word] : []) }));
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
