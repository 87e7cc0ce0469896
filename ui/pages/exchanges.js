// Exchanges and bindings: lists, pages, and the graph.
import { html, useEffect, useState } from '../lib.js';
import { get, path, path as encode, post, put, query, remove } from '../core/api.js';
import { at, count, rate } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { chosenVhost, go, link, route, to } from '../core/router.js';
import { findingsOf } from '../core/why.js';
import {
  Arguments,
  Await,
  Empty,
  ExchangeLink,
  Facts,
  Figures,
  Head,
  Name,
  number,
  Outcome,
  perSecond,
  Problem,
  QueueLink,
  Section,
  Tabs,
  Tag,
  useAction,
  useVhosts,
  usualVhost,
  vhostColumn,
  VhostName,
  visible,
  Why,
  WhyTag,
} from '../parts/basics.js';
import { Chart, Period, rates } from '../parts/chart.js';
import { Ask, Check, Destroy, EXCHANGE_ARGUMENTS, objectOf, Pairs, Select, Text } from '../parts/forms.js';
import { Live, Publish } from './messages.js';
import { Table, Tools, useList, useLocal } from '../parts/table.js';

/** Most bindings that are listed here; the graph and the API have all. */
const SHOWN = 500;

const Unbind = ({ row }) =>
  html`<${Ask} verb="Unbind" small danger title="Remove this binding?" work=${async () => {
    await remove(
      path`bindings/${row.vhost}/e/${row.source}/${row.destination_type === 'exchange' ? 'e' : 'q'}/${row.destination}/${row.properties_key}`,
    );
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
  const all = Array.isArray(body) ? body : (body?.items ?? []);
  const columns = /** @type {import('../parts/table.js').Column[]} */ ([
    side === 'source'
      ? {
          id: 'source',
          title: 'From exchange',
          sort: 'source',
          cell: (row) => html`<${ExchangeLink} vhost=${vhost} name=${row.source} />`,
        }
      : {
          id: 'destination',
          title: 'To',
          sort: 'destination',
          cell: (row) =>
            row.destination_type === 'exchange'
              ? html`<span class="muted">exchange </span><${ExchangeLink} vhost=${vhost} name=${row.destination} />`
              : html`<${QueueLink} vhost=${vhost} name=${row.destination} />`,
        },
    {
      id: 'key',
      title: 'Routing key',
      sort: 'routing_key',
      cell: (row) => html`<code><${Name} of=${row.routing_key} empty="(none)" /></code>`,
    },
    { id: 'arguments', title: 'Arguments', cell: (row) => html`<${Arguments} of=${row.arguments} />` },
    {
      id: 'unbind',
      title: '',
      cell: (row) => (row.source === '' ? html`<span class="faint">every queue has it</span>` : html`<${Unbind} row=${row} />`),
    },
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
  const names = useLive(
    (source === undefined ? path`exchanges/${vhost}` : toKind === 'q' ? path`queues/${vhost}` : path`exchanges/${vhost}`) +
      query({ page: 1, page_size: 50, name: other, columns: 'name', pagination: 'true' }),
  ).body;
  const known = (Array.isArray(names) ? names : (names?.items ?? [])).map(({ name }) => name).filter(Boolean);
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await post(path`bindings/${vhost}/e/${source ?? other}/${toKind}/${destination ?? other}`, {
        routing_key: key,
        arguments: objectOf(pairs),
      });
      poke('exchanges');
      poke('queues');
    }, 'Bound.');
  };
  return html`<form class="form" onSubmit=${submit}>
    ${
      source !== undefined &&
      !fixed &&
      html`<${Select} label="To" value=${kind} onInput=${setKind} options=${[
        ['q', 'queue'],
        ['e', 'exchange'],
      ]} />`
    }
    <${Text} label=${source === undefined ? 'From exchange' : toKind === 'q' ? 'Queue' : 'Exchange'} value=${other} onInput=${setOther} list=${known} required />
    <${Text} label="Routing key" value=${key} onInput=${setKey} hint="Of a topic exchange: words between dots; * is one word, # any number of them." />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${[['x-match', 'text', 'Of headers exchanges: all, any, all-with-x or any-with-x', 'all']]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Bind</button></div>
  </form>`;
}

export const GraphLink = ({ vhost, kind, name }) =>
  html`<a href=${link(['bindings', vhost, kind, name || 'amq.default'])}>Show as a graph</a>`;

// The list of exchanges, and the form that declares one.

export const ExchangeFeatures = ({ exchange }) => html`<span class="tags">
  ${exchange.durable === false && html`<${Tag} title="Not durable: gone after a restart">transient<//>`}
  ${exchange.auto_delete && html`<${Tag} title="Deleted when its last binding goes">auto-delete<//>`}
  ${exchange.internal && html`<${Tag} title="Clients can't publish to it">internal<//>`}
  ${exchange.arguments?.['alternate-exchange'] && html`<${Tag} title=${`Alternate exchange: ${exchange.arguments['alternate-exchange']}`}>alternate<//>`}
  ${exchange.policy && html`<${Tag} kind="accent" title="Policy">${exchange.policy}<//>`}
</span>`;

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    need: ['name', 'vhost'],
    cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.name} />`,
  },
  ...vhostColumn(),
  { id: 'type', title: 'Type', sort: 'type', need: ['type'], cell: (row) => row.type },
  {
    id: 'features',
    title: 'Features',
    slack: true,
    need: ['durable', 'auto_delete', 'internal', 'arguments', 'policy'],
    cell: (row) => html`<${ExchangeFeatures} exchange=${row} />`,
  },
  {
    id: 'why',
    title: 'Goes wrong',
    need: ['why'],
    hint: 'Messages that reach no queue; open the exchange for the sentence',
    cell: (row) => html`<${WhyTag} finding=${findingsOf(row)[0]} />`,
  },
  perSecond('in', 'In /s', 'message_stats.publish_in'),
  perSecond('out', 'Out /s', 'message_stats.publish_out', { hint: 'Copies that reached queues, per second' }),
  number('in-all', 'In', 'message_stats.publish_in', { off: true }),
  number('out-all', 'Out', 'message_stats.publish_out', { off: true }),
  number('delayed', 'Delayed', 'messages_delayed', { off: true }),
  {
    id: 'by',
    title: 'Declared by',
    sort: 'user_who_performed_action',
    need: ['user_who_performed_action'],
    off: true,
    cell: (row) => row.user_who_performed_action,
  },
];

function Declare({ vhosts, types }) {
  const [vhost, setVhost] = useState(usualVhost(vhosts));
  const [type, setType] = useState('direct');
  const [name, setName] = useState('');
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [internal, setInternal] = useState(false);
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (
      await action.run(() =>
        put(path`exchanges/${vhost}/${name}`, { type, durable, auto_delete: autoDelete, internal, arguments: objectOf(pairs) }),
      )
    ) {
      poke('exchanges');
      go(to.exchange(vhost, name));
    }
  };
  const described = types.find((one) => one.name === type)?.description;
  return html`<form class="form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Select} label="Type" value=${type} onInput=${setType} options=${types.map((one) => [one.name, one.name])} hint=${described} />
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Check} label="Durable" value=${durable} onInput=${setDurable} hint="It survives a restart." />
    <${Check} label="Auto-delete" value=${autoDelete} onInput=${setAutoDelete} hint="It is deleted when its last binding goes." />
    <${Check} label="Internal" value=${internal} onInput=${setInternal} hint="Clients can't publish to it, only other exchanges." />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${EXCHANGE_ARGUMENTS} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Declare exchange</button></div>
  </form>`;
}

export function Exchanges() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'exchanges',
    path: vhost ? path`exchanges/${vhost}` : 'exchanges',
    columns: columns(),
    always: ['name', 'vhost'],
    sort: 'name',
  });
  const vhosts = useVhosts();
  const overview = useLive('overview').body;
  if (route.value.query.new) {
    return html`<div class="page"><${Head} title="Declare an exchange" above=${html`<a href=${link(['exchanges'])}>Exchanges</a>`} /><div class="panel">${vhosts && overview ? html`<${Declare} vhosts=${vhosts} types=${overview.exchange_types ?? []} />` : null}</div></div>`;
  }
  return html`<div class="page fill">
    <${Head} title="Exchanges" aside=${html`<a href=${link(['exchanges'], { new: 1 })}>Declare an exchange</a>`} />
    <${Tools} list=${list} what="exchanges" />
    <${Table} list=${list} label="Exchanges" rowKey=${(row) => `${row.vhost}\n${row.name}`} />
  </div>`;
}

// One exchange.

export function Exchange({ path }) {
  const [, vhost, asked] = path;
  const name = asked === 'amq.default' ? '' : asked;
  const base = encode`exchanges/${vhost}/${name || 'amq.default'}`;
  const live = useLive(base);
  const exchange = live.body;
  const counted = query({ page: 1, page_size: 1, pagination: 'true', columns: 'source' });
  const from = useLive(`${base}/bindings/source${counted}`).body;
  const into = useLive(name && `${base}/bindings/destination${counted}`).body;
  const tab = route.value.query.tab ?? 'overview';
  const isOwn = name === '' || name?.startsWith('amq.');
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} empty="(AMQP default)" />`} above=${html`<a href=${link(['exchanges'])}>Exchanges</a> in <${VhostName} name=${vhost} />`}
      tags=${exchange && html`<${Tag} kind="accent">${exchange.type}<//><${ExchangeFeatures} exchange=${exchange} />`}
      aside=${
        exchange &&
        !isOwn &&
        html`<${Destroy} verb="Delete" kind="exchange" name=${name} small work=${async () => {
          await remove(base);
          poke('exchanges');
        }} then=${() => go(link(['exchanges']))}>
        <${Facts} rows=${[
          ['Bindings that lead out', count(from?.total_count)],
          ['Bindings that lead in', count(into?.total_count)],
          ['Messages in per second', rate(at(exchange, 'message_stats.publish_in_details.rate') ?? 0)],
        ]} /><p>The exchange and these bindings are deleted. Queues stay. Clients that publish to it lose their channel.</p><//>`
      } />
    <${Await} live=${live} gone="There is no such exchange. It may have been deleted.">${() => html`
      <${Why} findings=${findingsOf(exchange)} />
      <div class="section-head"><${Tabs} label="Parts of this exchange" now=${tab} href=${(id) => to.exchange(vhost, name, id === 'overview' ? {} : { tab: id })} tabs=${[
        ['overview', 'Overview'],
        ['bindings', 'Bindings', from && into ? count(from.total_count + into.total_count) : undefined],
        ['live', 'Live'],
        ['publish', 'Publish'],
      ]} />${tab === 'overview' && html`<${Period} />`}</div>
      ${
        tab === 'live'
          ? html`<${Live} key=${base} where=${base} vhost=${vhost}>Messages as clients publish them to this exchange. It costs nothing while nobody looks.<//>`
          : tab === 'publish'
            ? exchange.internal
              ? html`<p class="empty">It is internal: only other exchanges lead to it.</p>`
              : html`<${Section} title="Publish a message"><div class="panel"><${Publish} vhost=${vhost} exchange=${name} /></div><//>`
            : tab === 'bindings'
              ? html`
          <${Section} title="From this exchange" aside=${html`<${GraphLink} vhost=${vhost} kind="e" name=${name} />`}><${BindingTable} where=${`${base}/bindings/source`} side="destination" vhost=${vhost} none="Nothing is bound to it: what is published to it is returned or dropped." /><//>
          ${
            name &&
            html`<${Section} title="To this exchange"><${BindingTable} where=${`${base}/bindings/destination`} side="source" vhost=${vhost} none="No other exchange leads to it." /><//>
          <${Section} title="Bind a queue or an exchange to it"><div class="panel"><${Bind} vhost=${vhost} source=${name} /></div><//>`
          }`
              : html`
          <${Figures} label="Messages" items=${[
            { label: 'In', value: rate(at(exchange, 'message_stats.publish_in_details.rate') ?? 0), unit: '/s', dot: '--in' },
            {
              label: 'Out',
              value: rate(at(exchange, 'message_stats.publish_out_details.rate') ?? 0),
              unit: '/s',
              dot: '--out',
              title: 'Copies that reached queues',
            },
            { label: 'In, in all', value: count(at(exchange, 'message_stats.publish_in') ?? 0) },
            { label: 'Out, in all', value: count(at(exchange, 'message_stats.publish_out') ?? 0) },
            exchange.messages_delayed !== undefined && { label: 'Delayed', value: count(exchange.messages_delayed) },
          ]} />
          <div class="columns"><div class="panel"><${Chart} title="Messages per second" path=${base} body=${exchange} series=${rates('publish_in', 'publish_out')} /></div>
          <${Section} title="Details"><div class="panel"><${Facts} rows=${[
            ['Type', exchange.type],
            ['Durable', exchange.durable ? 'yes' : 'no'],
            ['Auto-delete', exchange.auto_delete && 'yes'],
            ['Internal', exchange.internal && 'yes'],
            [
              'Policy',
              exchange.policy && html`<a href=${to.policy(vhost, exchange.policy)}><${Name} of=${exchange.policy} /></a>`,
            ],
            ['Declared by', html`<${Name} of=${exchange.user_who_performed_action} />`],
            ['Arguments', html`<${Arguments} of=${exchange.arguments} none="none" />`],
          ]} /></div><//></div>`
      }`}<//>
  </div>`;
}

// Bindings: all of them as a list, and around one object as a graph that one can follow.

/** Objects of a graph, neighbours asked for each, and steps to each side. */
const [NODES_MAX, NEIGHBOURS_MAX, STEPS] = [70, 40, 3];
const [WIDTH, HEIGHT, GAP_X, GAP_Y] = [172, 40, 112, 12];

/**
 * @typedef {{id: string, kind: 'e' | 'q', name: string, column: number, type?: string, more?: number, x?: number, y?: number}} Node
 * @typedef {{from: string, to: string, keys: string[], kind: '' | 'dead' | 'alternate'}} Edge
 */

/** @param {'e' | 'q'} kind @param {string} name */
const idOf = (kind, name) => `${kind}:${name}`;
const items = (answer) => (Array.isArray(answer) ? answer : (answer?.items ?? []));

/**
 * The bindings that lead to and from an object.
 * @param {string} vhost @param {Node} node @param {AbortSignal} signal
 */
async function around(vhost, node, signal) {
  const page = query({ page: 1, page_size: NEIGHBOURS_MAX, pagination: 'true' });
  const quiet = (where) =>
    get(where, signal).catch((reason) => {
      if (signal.aborted) throw reason;
      return null;
    });
  if (node.kind === 'q') {
    const base = encode`queues/${vhost}/${node.name}`;
    const [bindings, queue] = await Promise.all([
      quiet(`${base}/bindings${page}`),
      quiet(`${base}?columns=effective_arguments,type,name`),
    ]);
    return {
      gone: !queue,
      type: queue?.type,
      into: items(bindings).filter(({ source }) => source !== ''),
      out: [],
      total: bindings?.total_count,
      dead: queue?.effective_arguments?.['dead-letter-exchange']?.value,
    };
  }
  const base = encode`exchanges/${vhost}/${node.name || 'amq.default'}`;
  const [out, into, exchange] = await Promise.all([
    quiet(`${base}/bindings/source${page}`),
    node.name ? quiet(`${base}/bindings/destination${page}`) : null,
    quiet(base),
  ]);
  return {
    gone: !exchange,
    type: exchange?.type,
    into: items(into),
    out: items(out),
    total: out?.total_count,
    alternate: exchange?.arguments?.['alternate-exchange'],
  };
}

/**
 * Follows bindings from an object on, in both directions.
 * @param {string} vhost @param {'e' | 'q'} kind @param {string} name @param {AbortSignal} signal
 */
async function explore(vhost, kind, name, signal) {
  /** @type {Map<string, Node>} */
  const nodes = new Map([[idOf(kind, name), { id: idOf(kind, name), kind, name, column: 0 }]]);
  /** @type {Map<string, Edge>} */
  const edges = new Map();
  const tie = (from, target, key, kindOf = '') => {
    const id = `${from}\n${target}\n${kindOf}`;
    const edge = edges.get(id) ?? /** @type {Edge} */ ({ from, to: target, keys: [], kind: kindOf });
    if (!edge.keys.includes(key)) edge.keys.push(key);
    edges.set(id, edge);
  };
  let gone = false;
  let frontier = [...nodes.values()];
  for (let step = 0; step <= STEPS && frontier.length; step += 1) {
    const found = await Promise.all(frontier.map(async (node) => ({ node, seen: await around(vhost, node, signal) })));
    /** @type {Node[]} */
    const next = [];
    const meet = (kindOf, nameOf, column) => {
      const id = idOf(kindOf, nameOf);
      if (nodes.has(id)) return true;
      if (nodes.size >= NODES_MAX || step === STEPS) return false;
      const node = { id, kind: kindOf, name: nameOf, column };
      nodes.set(id, node);
      next.push(node);
      return true;
    };
    for (const { node, seen } of found) {
      node.type = seen.type;
      if (node.column === 0 && step === 0) gone = seen.gone;
      if (seen.total > NEIGHBOURS_MAX) node.more = seen.total - NEIGHBOURS_MAX;
      if (node.column >= 0) {
        for (const { destination, destination_type: type, routing_key: key } of seen.out)
          if (meet(type === 'queue' ? 'q' : 'e', destination, node.column + 1))
            tie(node.id, idOf(type === 'queue' ? 'q' : 'e', destination), key);
        if (typeof seen.alternate === 'string' && meet('e', seen.alternate, node.column + 1))
          tie(node.id, idOf('e', seen.alternate), '', 'alternate');
        if (typeof seen.dead === 'string' && meet('e', seen.dead, node.column + 1))
          tie(node.id, idOf('e', seen.dead), '', 'dead');
      }
      if (node.column <= 0)
        for (const { source, routing_key: key } of seen.into)
          if (meet('e', source, node.column - 1)) tie(idOf('e', source), node.id, key);
    }
    frontier = next;
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], gone };
}

/** Places of nodes: columns by steps, rows by name. @param {Node[]} nodes */
function placed(nodes) {
  const columns = [...new Set(nodes.map(({ column }) => column))].sort((a, b) => a - b);
  const rows = columns.map((column) => nodes.filter((node) => node.column === column));
  const tallest = Math.max(...rows.map((row) => row.length));
  const height = tallest * (HEIGHT + GAP_Y) + 60;
  rows.forEach((row, at) => {
    row.sort((a, b) => (a.name < b.name ? -1 : 1));
    const top = (height - row.length * (HEIGHT + GAP_Y) + GAP_Y) / 2;
    row.forEach((node, place) => {
      node.x = 20 + at * (WIDTH + GAP_X);
      node.y = top + place * (HEIGHT + GAP_Y);
    });
  });
  return { width: 40 + columns.length * (WIDTH + GAP_X) - GAP_X, height };
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Picture({ vhost, focus, graph }) {
  const { width, height } = placed(graph.nodes);
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  return html`<div class="graph" tabindex="0" role="region" aria-label="Graph of bindings"><svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
    <defs>${['', 'dead', 'alternate'].map((kind) => html`<marker id=${`arrow-${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" style=${{ fill: kind === 'dead' ? 'var(--bad)' : kind === 'alternate' ? 'var(--warn)' : 'var(--line-strong)' }} /></marker>`)}</defs>
    ${graph.edges.map((edge) => {
      const [from, target] = [byId.get(edge.from), byId.get(edge.to)];
      const back = target.x <= from.x;
      const [x1, y1, x2, y2] = back
        ? [from.x + WIDTH / 2, from.y + HEIGHT, target.x + WIDTH / 2, target.y + HEIGHT]
        : [from.x + WIDTH, from.y + HEIGHT / 2, target.x, target.y + HEIGHT / 2];
      const bend = GAP_X * 0.5;
      const low = Math.max(y1, y2) + 34;
      const label =
        edge.kind === 'dead'
          ? 'dead letters'
          : edge.kind === 'alternate'
            ? 'alternate'
            : edge.keys
                .filter(Boolean)
                .slice(0, 2)
                .map((key) => cut(visible(key), 16))
                .join(', ') + (edge.keys.length > 2 ? ` +${edge.keys.length - 2}` : '');
      return html`<g key=${`${edge.from}${edge.to}${edge.kind}`}><path class=${`edge ${edge.kind}`} d=${back ? `M${x1} ${y1}C${x1} ${low} ${x2} ${low} ${x2} ${y2}` : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end=${`url(#arrow-${edge.kind})`}><title>${visible(`${from.name || '(AMQP default)'} → ${target.name}: ${edge.keys.join(', ')}`)}</title></path>
        ${label && html`<text class="edge-label" x=${back ? (x1 + x2) / 2 : x2 - 8} y=${back ? low - 6 : y2 - 5} text-anchor=${back ? 'middle' : 'end'}>${cut(label, 22)}</text>`}</g>`;
    })}
    ${graph.nodes.map(
      (
        node,
      ) => html`<a key=${node.id} href=${node.id === focus ? (node.kind === 'q' ? to.queue(vhost, node.name) : to.exchange(vhost, node.name)) : link(['bindings', vhost, node.kind, node.name || 'amq.default'])}>
      <g class=${`node ${node.kind === 'e' ? 'exchange' : 'queue'}${node.id === focus ? ' focus' : ''}`}><title>${visible(node.name)}</title>
        <rect x=${node.x} y=${node.y} width=${WIDTH} height=${HEIGHT} rx=${node.kind === 'e' ? 20 : 6} />
        <text x=${node.x + 14} y=${node.y + 18}>${cut(visible(node.name) || '(AMQP default)', 22)}</text>
        <text class="kind" x=${node.x + 14} y=${node.y + 32}>${node.kind === 'q' ? (node.type ?? 'queue') : `${node.type ?? ''} exchange`}${node.more ? `, ${count(node.more)} more bindings` : ''}</text></g></a>`,
    )}
  </svg></div>`;
}

function Graph({ vhost, kind, name }) {
  const [graph, setGraph] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    setError(null);
    explore(vhost, kind, name, stop.signal).then(
      (found) => !stop.signal.aborted && setGraph(found),
      (reason) => !stop.signal.aborted && setError(reason),
    );
    return () => stop.abort();
  }, [vhost, kind, name]);
  const focus = idOf(kind, name);
  const ready = graph?.nodes.some((node) => node.id === focus);
  return html`<div class="page">
    <${Head} title=${html`Bindings around <${Name} of=${name} empty="(AMQP default)" />`} above=${html`<a href=${link(['bindings'])}>Bindings</a> in <${VhostName} name=${vhost} />`}
      aside=${html`<a href=${kind === 'q' ? to.queue(vhost, name) : to.exchange(vhost, name)}>Open the ${kind === 'q' ? 'queue' : 'exchange'}</a>`} />
    <p class="muted">Messages go from left to right. Choose an object to look from there; choose the one in the middle to open it. Dashed: dead letters and alternate exchanges.</p>
    <${Problem} of=${error} />
    ${ready && graph.gone ? html`<${Empty}>There is no such ${kind === 'q' ? 'queue' : 'exchange'}.<//>` : ready ? html`<${Picture} vhost=${vhost} focus=${focus} graph=${graph} />${graph.nodes.length >= NODES_MAX && html`<p class="muted">The first ${NODES_MAX} objects.</p>`}` : !error && html`<div class="loading" aria-busy="true"></div>`}
  </div>`;
}

/** @returns {import('../parts/table.js').Column[]} */
const bindingColumns = () => [
  {
    id: 'source',
    title: 'From exchange',
    fixed: true,
    sort: 'source',
    need: ['source', 'vhost'],
    cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.source} />`,
  },
  {
    id: 'graph',
    title: 'Graph',
    need: [],
    cell: (row) =>
      html`<a href=${link(['bindings', row.vhost, row.source === '' ? 'q' : 'e', row.source === '' ? row.destination : row.source])} aria-label=${`follow from ${visible(row.source || row.destination)}`}>follow</a>`,
  },
  {
    id: 'key',
    title: 'Routing key',
    sort: 'routing_key',
    need: ['routing_key'],
    cell: (row) => html`<code><${Name} of=${row.routing_key} empty="(none)" /></code>`,
  },
  {
    id: 'destination',
    title: 'To',
    sort: 'destination',
    need: ['destination', 'destination_type'],
    cell: (row) =>
      row.destination_type === 'exchange'
        ? html`<span class="muted">exchange </span><${ExchangeLink} vhost=${row.vhost} name=${row.destination} />`
        : html`<${QueueLink} vhost=${row.vhost} name=${row.destination} />`,
  },
  ...vhostColumn(),
  { id: 'arguments', title: 'Arguments', need: ['arguments'], cell: (row) => html`<${Arguments} of=${row.arguments} />` },
];

function All() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'bindings',
    path: vhost ? encode`bindings/${vhost}` : 'bindings',
    columns: bindingColumns(),
    always: ['source', 'vhost', 'destination', 'destination_type', 'properties_key'],
    sort: 'source',
    reverse: true,
  });
  return html`<div class="page fill">
    <${Head} title="Bindings" />
    <${Tools} list=${list} what="bindings" />
    <${Table} list=${list} label="Bindings" rowKey=${(row) => `${row.vhost}\n${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} empty="Nothing is bound." />
  </div>`;
}

export function Bindings({ path }) {
  const [, vhost, kind, name] = path;
  if (vhost === undefined) return html`<${All} />`;
  return html`<${Graph} vhost=${vhost} kind=${kind === 'q' ? 'q' : 'e'} name=${kind !== 'q' && name === 'amq.default' ? '' : (name ?? '')} />`;
}
