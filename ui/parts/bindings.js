// Bindings of an exchange or a queue: the table, and the form that adds one.
import { html, useState } from '../lib.js';
import { path, post, query, remove } from '../core/api.js';
import { poke, useLive } from '../core/live.js';
import { link } from '../core/router.js';
import { Arguments, Await, ExchangeLink, Name, Outcome, QueueLink, useAction } from './basics.js';
import { Ask } from './dialog.js';
import { Pairs, Select, Text, objectOf } from './form.js';
import { Table, useLocal } from './table.js';

/** Most bindings that are listed here; the graph and the API have all. */
const SHOWN = 500;

/** @param {{row: any}} properties */
const Unbind = ({ row }) => html`<${Ask} verb="Unbind" small danger title="Remove this binding?" work=${async () => {
  await remove(path`bindings/${row.vhost}/e/${row.source}/${row.destination_type === 'exchange' ? 'e' : 'q'}/${row.destination}/${row.properties_key}`);
  poke('exchanges');
  poke('queues');
}}><p>From <b><${Name} of=${row.source} /></b> to ${row.destination_type} <b><${Name} of=${row.destination} /></b>${row.routing_key && html`, routing key <code><${Name} of=${row.routing_key} /></code>`}. Messages that this binding would have routed go elsewhere or nowhere.</p><//>`;

/**
 * @param {{where: string, side: 'source' | 'destination', vhost: string, none: any}} properties
 *   `where`: the list's path; `side`: the end that is shown
 */
export function BindingTable({ where, side, vhost, none }) {
  const live = useLive(where + query({ page: 1, page_size: SHOWN, pagination: 'true' }));
  const body = live.body;
  const all = Array.isArray(body) ? body : body?.items ?? [];
  const columns = /** @type {import('./table.js').Column[]} */ ([
    side === 'source'
      ? { id: 'source', title: 'From exchange', sort: 'source', cell: (row) => html`<${ExchangeLink} vhost=${vhost} name=${row.source} />` }
      : { id: 'destination', title: 'To', sort: 'destination', cell: (row) => (row.destination_type === 'exchange' ? html`<span class="muted">exchange </span><${ExchangeLink} vhost=${vhost} name=${row.destination} />` : html`<${QueueLink} vhost=${vhost} name=${row.destination} />`) },
    { id: 'key', title: 'Routing key', sort: 'routing_key', cell: (row) => html`<code><${Name} of=${row.routing_key} empty="(none)" /></code>` },
    { id: 'arguments', title: 'Arguments', cell: (row) => html`<${Arguments} of=${row.arguments} />` },
    { id: 'unbind', title: '', cell: (row) => (row.source === '' ? html`<span class="faint">every queue has it</span>` : html`<${Unbind} row=${row} />`) },
  ]);
  const list = useLocal(where, all, columns);
  return html`<${Await} live=${live}>${() => (all.length ? html`<${Table} list=${list} label="Bindings" short rowKey=${(row) => `${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} />${body.total_count > SHOWN ? html`<p class="muted">The first ${SHOWN} of ${body.total_count}.</p>` : null}` : html`<p class="empty">${none}</p>`)}<//>`;
}

/**
 * @param {{vhost: string, source?: string, destination?: string, kind?: 'q' | 'e'}} properties the end that is known
 */
export function Bind({ vhost, source, destination, kind: fixed }) {
  const [other, setOther] = useState('');
  const [kind, setKind] = useState('q');
  const [key, setKey] = useState('');
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const toKind = fixed ?? kind;
  const names = useLive((source === undefined ? path`exchanges/${vhost}` : toKind === 'q' ? path`queues/${vhost}` : path`exchanges/${vhost}`) + query({ page: 1, page_size: 50, name: other, columns: 'name', pagination: 'true' })).body;
  const known = (Array.isArray(names) ? names : names?.items ?? []).map(({ name }) => name).filter(Boolean);
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await post(path`bindings/${vhost}/e/${source ?? other}/${toKind}/${destination ?? other}`, { routing_key: key, arguments: objectOf(pairs) });
      poke('exchanges');
      poke('queues');
    }, 'Bound.');
  };
  return html`<form class="form" onSubmit=${submit}>
    ${source !== undefined && !fixed && html`<${Select} label="To" value=${kind} onInput=${setKind} options=${[['q', 'queue'], ['e', 'exchange']]} />`}
    <${Text} label=${source === undefined ? 'From exchange' : toKind === 'q' ? 'Queue' : 'Exchange'} value=${other} onInput=${setOther} list=${known} required />
    <${Text} label="Routing key" value=${key} onInput=${setKey} hint="Of a topic exchange: words between dots; * is one word, # any number of them." />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${[['x-match', 'text', 'Of headers exchanges: all, any, all-with-x or any-with-x', 'all']]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Bind</button></div>
  </form>`;
}

/** @param {{vhost: string, kind: 'q' | 'e', name: string}} properties */
export const GraphLink = ({ vhost, kind, name }) => html`<a href=${link(['bindings', vhost, kind, name || 'amq.default'])}>Show as a graph</a>`;

