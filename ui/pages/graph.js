// Bindings: all of them as a list, and around one object as a graph that one can follow.
import { html, useEffect, useState } from '../lib.js';
import { get, path as encode, query } from '../core/api.js';
import { count } from '../core/format.js';
import { link, to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { Arguments, Empty, ExchangeLink, Head, Name, Problem, QueueLink, VhostName, visible } from '../parts/basics.js';
import { vhostColumn } from '../parts/columns.js';
import { Table, Tools, useList } from '../parts/table.js';

/** Objects of a graph, neighbours asked for each, and steps to each side. */
const [NODES_MAX, NEIGHBOURS_MAX, STEPS] = [70, 40, 3];
const [WIDTH, HEIGHT, GAP_X, GAP_Y] = [190, 40, 130, 12];

/**
 * @typedef {{id: string, kind: 'e' | 'q', name: string, column: number, type?: string, more?: number, x?: number, y?: number}} Node
 * @typedef {{from: string, to: string, keys: string[], kind: '' | 'dead' | 'alternate'}} Edge
 */

/** @param {'e' | 'q'} kind @param {string} name */
const idOf = (kind, name) => `${kind}:${name}`;
const items = (answer) => (Array.isArray(answer) ? answer : answer?.items ?? []);

/**
 * What leads to and from an object.
 * @param {string} vhost @param {Node} node @param {AbortSignal} signal
 */
async function around(vhost, node, signal) {
  const page = query({ page: 1, page_size: NEIGHBOURS_MAX, pagination: 'true' });
  const quiet = (where) => get(where, signal).catch((reason) => {
    if (signal.aborted) throw reason;
    return null;
  });
  if (node.kind === 'q') {
    const base = encode`queues/${vhost}/${node.name}`;
    const [bindings, queue] = await Promise.all([quiet(`${base}/bindings${page}`), quiet(`${base}?columns=effective_arguments,type,name`)]);
    return { gone: !queue, type: queue?.type, into: items(bindings).filter(({ source }) => source !== ''), out: [], total: bindings?.total_count, dead: queue?.effective_arguments?.['dead-letter-exchange']?.value };
  }
  const base = encode`exchanges/${vhost}/${node.name || 'amq.default'}`;
  const [out, into, exchange] = await Promise.all([quiet(`${base}/bindings/source${page}`), node.name ? quiet(`${base}/bindings/destination${page}`) : null, quiet(base)]);
  return { gone: !exchange, type: exchange?.type, into: items(into), out: items(out), total: out?.total_count, alternate: exchange?.arguments?.['alternate-exchange'] };
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
    const edge = edges.get(id) ?? { from, to: target, keys: [], kind: /** @type {Edge['kind']} */ (kindOf) };
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
        for (const { destination, destination_type: type, routing_key: key } of seen.out) if (meet(type === 'queue' ? 'q' : 'e', destination, node.column + 1)) tie(node.id, idOf(type === 'queue' ? 'q' : 'e', destination), key);
        if (typeof seen.alternate === 'string' && meet('e', seen.alternate, node.column + 1)) tie(node.id, idOf('e', seen.alternate), '', 'alternate');
        if (typeof seen.dead === 'string' && meet('e', seen.dead, node.column + 1)) tie(node.id, idOf('e', seen.dead), '', 'dead');
      }
      if (node.column <= 0) for (const { source, routing_key: key } of seen.into) if (meet('e', source, node.column - 1)) tie(idOf('e', source), node.id, key);
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
      const [x1, y1, x2, y2] = back ? [from.x + WIDTH / 2, from.y + HEIGHT, target.x + WIDTH / 2, target.y + HEIGHT] : [from.x + WIDTH, from.y + HEIGHT / 2, target.x, target.y + HEIGHT / 2];
      const bend = GAP_X * 0.5;
      const low = Math.max(y1, y2) + 34;
      const label = edge.kind === 'dead' ? 'dead letters' : edge.kind === 'alternate' ? 'alternate' : edge.keys.filter(Boolean).slice(0, 2).map((key) => cut(visible(key), 16)).join(', ') + (edge.keys.length > 2 ? ` +${edge.keys.length - 2}` : '');
      return html`<g key=${`${edge.from}${edge.to}${edge.kind}`}><path class=${`edge ${edge.kind}`} d=${back ? `M${x1} ${y1}C${x1} ${low} ${x2} ${low} ${x2} ${y2}` : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end=${`url(#arrow-${edge.kind})`}><title>${visible(`${from.name || '(AMQP default)'} → ${target.name}: ${edge.keys.join(', ')}`)}</title></path>
        ${label && html`<text class="edge-label" x=${back ? (x1 + x2) / 2 : x2 - 8} y=${back ? low - 6 : y2 - 5} text-anchor=${back ? 'middle' : 'end'}>${cut(label, 22)}</text>`}</g>`;
    })}
    ${graph.nodes.map((node) => html`<a key=${node.id} href=${node.id === focus ? (node.kind === 'q' ? to.queue(vhost, node.name) : to.exchange(vhost, node.name)) : link(['bindings', vhost, node.kind, node.name || 'amq.default'])} aria-label=${`${node.kind === 'q' ? 'Queue' : 'Exchange'} ${visible(node.name) || '(AMQP default)'}`}>
      <g class=${`node ${node.kind === 'e' ? 'exchange' : 'queue'}${node.id === focus ? ' focus' : ''}`}><title>${visible(node.name)}</title>
        <rect x=${node.x} y=${node.y} width=${WIDTH} height=${HEIGHT} rx=${node.kind === 'e' ? 20 : 6} />
        <text x=${node.x + 14} y=${node.y + 18}>${cut(visible(node.name) || '(AMQP default)', 25)}</text>
        <text class="kind" x=${node.x + 14} y=${node.y + 32}>${node.kind === 'q' ? node.type ?? 'queue' : `${node.type ?? ''} exchange`}${node.more ? `, ${count(node.more)} more bindings` : ''}</text></g></a>`)}
  </svg></div>`;
}

function Graph({ vhost, kind, name }) {
  const [graph, setGraph] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    setError(null);
    explore(vhost, kind, name, stop.signal).then((found) => !stop.signal.aborted && setGraph(found), (reason) => !stop.signal.aborted && setError(reason));
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
const columns = () => [
  { id: 'source', title: 'From exchange', fixed: true, sort: 'source', need: ['source', 'vhost'], cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.source} />` },
  { id: 'key', title: 'Routing key', sort: 'routing_key', need: ['routing_key'], cell: (row) => html`<code><${Name} of=${row.routing_key} empty="(none)" /></code>` },
  { id: 'destination', title: 'To', sort: 'destination', need: ['destination', 'destination_type'], cell: (row) => (row.destination_type === 'exchange' ? html`<span class="muted">exchange </span><${ExchangeLink} vhost=${row.vhost} name=${row.destination} />` : html`<${QueueLink} vhost=${row.vhost} name=${row.destination} />`) },
  ...vhostColumn(),
  { id: 'arguments', title: 'Arguments', need: ['arguments'], cell: (row) => html`<${Arguments} of=${row.arguments} />` },
  { id: 'graph', title: 'Graph', need: [], cell: (row) => html`<a href=${link(['bindings', row.vhost, row.source === '' ? 'q' : 'e', row.source === '' ? row.destination : row.source])} aria-label=${`Graph around ${visible(row.source || row.destination)}`}>follow</a>` },
];

function All() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'bindings', path: vhost ? encode`bindings/${vhost}` : 'bindings', columns: columns(), always: ['source', 'vhost', 'destination', 'destination_type', 'properties_key'], sort: 'source', reverse: true });
  return html`<div class="page fill">
    <${Head} title="Bindings" />
    <${Tools} list=${list} what="bindings" />
    <${Table} list=${list} label="Bindings" rowKey=${(row) => `${row.vhost}\n${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} empty="Nothing is bound." />
  </div>`;
}

/** @param {{path: string[]}} properties */
export default function Bindings({ path }) {
  const [, vhost, kind, name] = path;
  if (vhost === undefined) return html`<${All} />`;
  return html`<${Graph} vhost=${vhost} kind=${kind === 'q' ? 'q' : 'e'} name=${kind !== 'q' && name === 'amq.default' ? '' : name ?? ''} />`;
}
