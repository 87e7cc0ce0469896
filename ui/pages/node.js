// The overview, and the page of a node.
import { html, useState } from '../lib.js';
import { get, may, path as encode, put, query, remove } from '../core/api.js';
import { at, bytes, count, percent, rate, several, span, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { link, route, to } from '../core/router.js';
import { ofItem } from '../core/why.js';
import {
  Await,
  Empty,
  Facts,
  Figures,
  Head,
  Name,
  NameLink,
  NodeName,
  Outcome,
  Problem,
  quiet,
  Section,
  Tag,
  useAction,
  When,
  Why,
} from '../parts/basics.js';
import { Chart, Period, WORST, counter, flow, lengths, level, rates } from '../parts/chart.js';
import { Ask, Text } from '../parts/forms.js';

const churn = (what, gone = 'closed') => [
  flow(`churn_rates.${what}_created`, 'Opened', '--in'),
  flow(`churn_rates.${what}_${gone}`, 'Closed', '--again'),
];

/** Reasons, each with the number of objects that have it, as links to the lists that have them. */
function Reasons({ of }) {
  return html`<p class="tags">${of.map(({ code, severity, short: word, objects }) => html`<a key=${severity + code} class=${`why-tag ${severity}`} href=${link([UNROUTED.has(code) ? 'exchanges' : 'queues'], { why: code })}>${word} <b>${count(objects)}</b></a> `)}</p>`;
}

/** Reasons that exchanges have. */
const UNROUTED = new Set(['unroutable', 'returned']);

/** What somebody should look at, the worst first, of everything. */
function Attention() {
  const { body, error } = useLive('attention?limit=8');
  if (error) return html`<${Section} title="What waits, and why"><${Problem} of=${error} /><//>`;
  const items = body?.items ?? [];
  if (!items.length) return null;
  const more = body.total_count - items.length;
  return html`<${Section} title="What waits, and why">
    <${Reasons} of=${body.reasons.filter(({ severity }) => severity !== 'note')} />
    <${Why} findings=${items.map(ofItem)} />
    ${more > 0 && html`<p><a href=${link(['queues'], { severity: items[items.length - 1].severity })}>and ${several(more, 'other')}</a></p>`}<//>`;
}

/** The last events of the node. */
function Events() {
  const rows = useLive('events').body;
  if (!Array.isArray(rows) || !rows.length) return null;
  return html`<${Section} title="What happened"><ul class="panel">${rows
    .slice(-12)
    .reverse()
    .map(
      (event) =>
        html`<li key=${event.at + event.what}><span class="muted"><${When} at=${event.at} /></span> <span class=${WORST.test(event.kind) ? 'bad' : ''}>${event.kind.replaceAll('_', ' ')}</span>: <${Name} of=${event.what} /></li>`,
    )}</ul><//>`;
}

/** Used and most, with a warning near the end. */
function Share({ used, most, format = count }) {
  if (!most || most > 1e18) return format(used);
  return html`${format(used)} <span class="muted">of ${format(most)} (${percent(used / most)})</span>`;
}

export const NodeFacts = ({ node }) =>
  html`<${Facts} rows=${[
    ['Name', html`<${NameLink} href=${to.node(node.name)} of=${node.name} />`],
    ['Running for', span(node.uptime / 1000)],
    ['Version', `Leveret ${node.leveret_version ?? ''}, compatible with RabbitMQ ${node.rabbitmq_version ?? ''}`],
    [
      'Memory',
      html`<${Share} used=${node.mem_used} most=${node.mem_limit} format=${bytes} /> ${node.mem_alarm && html`<${Tag} kind="bad">alarm<//>`}`,
    ],
    [
      'Disk',
      html`${bytes(node.disk_free)} free <span class="muted">limit ${bytes(node.disk_free_limit)}</span> ${node.disk_free_alarm && html`<${Tag} kind="bad">alarm<//>`}`,
    ],
    ['File descriptors', html`<${Share} used=${node.fd_used} most=${node.fd_total} />`],
    ['Connections', count(node.sockets_used)],
    ['Cores', count(node.processors)],
    [
      'Disk syncs',
      `${count(node.io_sync_count)}, ${node.io_sync_avg_time < 1 ? 'under 1 ms' : `${count(node.io_sync_avg_time)} ms`} on average`,
    ],
  ]} />`;

/** The state of a node, as tags. */
const State = ({ node }) =>
  html`<span class="tags">${
    node.running === false
      ? html`<${Tag} kind="bad" title=${node.reason}>down<//>`
      : html`<${Tag} kind=${node.being_drained ? 'warn' : ''}>${node.being_drained ? 'maintenance' : 'running'}<//>`
  }${(node.mem_alarm || node.disk_free_alarm) && html`<${Tag} kind="bad">alarm<//>`}</span>`;

/** The nodes of a cluster. */
const NodesTable = ({ nodes }) =>
  html`<${Section} title="Nodes"><div class="table-box plain-table"><table aria-label="Nodes"><thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Running for</th><th scope="col" class="num">Memory</th><th scope="col" class="num">Free disk</th><th scope="col" class="num">Connections</th><th scope="col" class="num">Cores</th></tr></thead>
    <tbody>${nodes.map(
      (node) =>
        html`<tr key=${node.name}><td><${NodeName} name=${node.name} /></td><td><${State} node=${node} /></td>${
          node.running === false
            ? html`<td colspan="5" class="warn">${node.reason ?? 'It has not been reached.'}</td>`
            : html`<td>${span(node.uptime / 1000)}</td><td class="num">${bytes(node.mem_used)}</td><td class="num">${bytes(node.disk_free)}</td><td class="num">${count(node.sockets_used)}</td><td class="num">${count(node.processors)}</td>`
        }</tr>`,
    )}</tbody></table></div><//>`;

/** The links of these nodes to others: whether they stand, their traffic, and how far the other side is behind. */
function LinksTable({ nodes }) {
  const links = nodes.flatMap((node) => (node.links ?? []).map((to) => ({ from: node.name, ...to })));
  if (!links.length) return null;
  const one = nodes.length === 1;
  return html`<${Section} title="Links between nodes"><div class="table-box plain-table"><table aria-label="Links between nodes"><thead><tr>${!one && html`<th scope="col">From</th>`}<th scope="col">To</th><th scope="col">State</th><th scope="col" class="num">Sent /s</th><th scope="col" class="num">Received /s</th><th scope="col" class="num">Sent</th><th scope="col" class="num">Received</th><th scope="col" class="num" title="Entries of replicated queues and of the metadata that the other node has not got yet">Behind</th></tr></thead>
    <tbody>${links.map((to) => {
      const perSecond = (key) => bytes(at(to, `stats.${key}_details.rate`) ?? 0);
      const kinds = (to.kinds ?? []).map((kind) => `${kind.up} ${kind.kind}`).join(', ');
      return html`<tr key=${`${to.from}\n${to.name}`}>${!one && html`<td><${NodeName} name=${to.from} /></td>`}<td><${NodeName} name=${to.name} /></td>${
        to.state === 'up'
          ? html`<td><span title=${kinds}><${Tag}>up<//></span></td>`
          : html`<td class="warn"><${Tag} kind="bad">down<//> ${to.reason}</td>`
      }<td class="num">${perSecond('send_bytes')}</td><td class="num">${perSecond('recv_bytes')}</td><td class="num">${bytes(at(to, 'stats.send_bytes') ?? 0)}</td><td class="num">${bytes(at(to, 'stats.recv_bytes') ?? 0)}</td><td class="num">${to.entries_behind === undefined ? '–' : quiet(to.entries_behind)}</td></tr>`;
    })}</tbody></table></div><//>`;
}

export function Overview() {
  const live = useLive('overview');
  const nodes = useLive(may.monitor() && 'nodes').body;
  const shown = route.value.query.charts ?? 'messages';
  return html`<div class="page">
    <${Head} title="Overview" tags=${live.body?.durability && html`<${Tag} title=${`Confirmed messages are ${live.body.durability}`}>confirms: ${live.body.durability.replace(/\s*\(.*/, '')}<//>`} aside=${may.monitor() && html`<${Period} of="node" />`} />
    <${Await} live=${live}>${(body) => {
      const totals = body.object_totals ?? {};
      const stats = (key) => rate(at(body, `message_stats.${key}_details.rate`) ?? 0);
      const base = 'overview';
      return html`
        <${Figures} label="Totals" items=${[
          { label: 'Ready', value: count(at(body, 'queue_totals.messages_ready') ?? 0), dot: '--ready' },
          { label: 'Unacked', value: count(at(body, 'queue_totals.messages_unacknowledged') ?? 0), dot: '--unacked' },
          { label: 'In', value: stats('publish'), unit: '/s', dot: '--in' },
          { label: 'Out', value: stats('deliver_get'), unit: '/s', dot: '--out' },
          { label: 'Acks', value: stats('ack'), unit: '/s', dot: '--acks' },
          { label: 'Queues', value: count(totals.queues), href: link(['queues']) },
          { label: 'Exchanges', value: count(totals.exchanges), href: link(['exchanges']) },
          { label: 'Connections', value: count(totals.connections), href: link(['connections']) },
          { label: 'Channels', value: count(totals.channels), href: link(['channels']) },
          totals.consumers !== undefined && { label: 'Consumers', value: count(totals.consumers), href: link(['consumers']) },
        ]} />
        <${Attention} />
        ${
          may.monitor() &&
          html`
          <div class="section-head"><nav class="tabs" aria-label="Charts">${[
            ['messages', 'Messages'],
            ['churn', 'Churn'],
          ].map(
            ([id, title]) =>
              html`<a href=${link([], { charts: id === 'messages' ? '' : id })} aria-current=${id === shown ? 'page' : undefined}>${title}</a>`,
          )}</nav></div>
          <div class="columns" key=${shown}>${
            shown === 'churn'
              ? html`<div class="panel"><${Chart} title="Connections" path=${base} body=${body} series=${churn('connection')} of="node" /></div>
                <div class="panel"><${Chart} title="Channels and sessions" path=${base} body=${body} series=${churn('channel')} of="node" /></div>
                <div class="panel"><${Chart} title="Queues" path=${base} body=${body} series=${churn('queue', 'deleted')} of="node" /></div>
                <div class="panel"><${Chart} title="Messages that no queue took" path=${base} body=${body} series=${rates('return_unroutable', 'drop_unroutable')} of="node" /></div>`
              : html`<div class="panel"><${Chart} title="Messages in queues" path=${base} body=${body} series=${lengths('queue_totals.')} of="node" past="history/node" /></div>
                <div class="panel"><${Chart} title="Messages per second" path=${base} body=${body} series=${rates('publish', 'confirm', 'deliver_get', 'ack', 'redeliver', 'drop_unroutable')} of="node" /></div>`
          }</div>
          <div class="columns">
            ${Array.isArray(nodes) && nodes.length > 1 && html`<${NodesTable} nodes=${nodes} /><${LinksTable} nodes=${nodes} />`}
            ${(Array.isArray(nodes) && nodes.length === 1 ? nodes : []).map((node) => html`<${Section} title="Node" key=${node.name}><div class="panel"><${NodeFacts} node=${node} /></div><//>`)}
            <${Section} title="Listeners"><div class="table-box plain-table"><table><thead><tr><th scope="col">Protocol</th><th scope="col">Address</th><th scope="col" class="num">Port</th><th scope="col">TLS</th></tr></thead>
              <tbody>${(body.listeners ?? []).map((one) => html`<tr key=${`${one.protocol}${one.ip_address}${one.port}`}><td>${one.protocol}</td><td><${Name} of=${one.ip_address} /></td><td class="num">${one.port}</td><td>${one.tls ? 'yes' : 'no'}</td></tr>`)}</tbody></table></div><//>
            <${Events} />
          </div>`
        }`;
    }}<//>
  </div>`;
}

// The node: load, memory by use, listeners, logins, maintenance, configuration.

/** Names of RabbitMQ's kinds of memory that this node tells apart. */
const KINDS = {
  binary: 'bodies of messages',
  connection_readers: 'connections before login',
  other_system: 'everything else',
  queue_procs: 'queues',
  connection_channels: 'channels',
  metrics: 'metrics',
  mgmt_db: 'histories',
  metadata_store: 'objects',
};
const COLOURS = ['--unacked', '--ready', '--in', '--out', '--acks', '--again', '--total'];

function Memory({ name }) {
  const live = useLive(encode`nodes/${name}/memory`);
  return html`<${Await} live=${live}>${(body) => {
    const kinds = Object.entries(body.memory ?? {})
      .filter(([, value]) => typeof value === 'number' && value > 0)
      .sort((a, b) => Number(b[1]) - Number(a[1]));
    const all = kinds.reduce((sum, [, value]) => sum + Number(value), 0);
    return html`<div class="panel stack"><div class="bars" role="img" aria-label="Memory by use">${kinds.map(([kind, value], index) => html`<span key=${kind} title=${`${KINDS[kind] ?? kind}: ${bytes(value)}`} style=${{ width: `${(Number(value) / all) * 100}%`, '--dot': `var(${COLOURS[index % COLOURS.length]})` }}></span>`)}</div>
      <dl class="facts">${kinds.map(([kind, value], index) => html`<div key=${kind}><dt class="legend-entry" style=${{ '--dot': `var(${COLOURS[index % COLOURS.length]})` }}>${KINDS[kind] ?? kind.replaceAll('_', ' ')}</dt><dd>${bytes(value)} <span class="muted">${percent(Number(value) / all)}</span></dd></div>`)}
        <div><dt>resident, as the system counts it</dt><dd>${bytes(at(body, 'memory.total.rss'))}</dd></div></dl></div>`;
  }}<//>`;
}

function Logins({ name }) {
  const rows = useLive(encode`auth/attempts/${name}`).body;
  if (!Array.isArray(rows) || !rows.length) return html`<${Empty}>Nobody has tried to log in.<//>`;
  return html`<div class="table-box plain-table"><table><thead><tr><th scope="col">Protocol</th><th scope="col" class="num">Succeeded</th><th scope="col" class="num">Failed</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.protocol}><td>${row.protocol}</td><td class="num">${count(row.auth_attempts_succeeded)}</td><td class=${'num' + (row.auth_attempts_failed ? ' warn' : '')}>${count(row.auth_attempts_failed)}</td></tr>`)}</tbody></table></div>`;
}

function Configuration() {
  const [text, setText] = useState('');
  const [error, setError] = useState(/** @type {any} */ (null));
  const open = async (event) => {
    if (!event.currentTarget.open || text) return;
    try {
      setText(String(await get('config/effective')));
    } catch (reason) {
      setError(reason);
    }
  };
  return html`<details class="fold" onToggle=${open}><summary>Effective configuration</summary><div class="fold-body"><${Problem} of=${error} /><pre class="log" tabindex="0" role="region" aria-label="Effective configuration">${text}</pre></div></details>`;
}

function ClusterName() {
  const name = useLive('cluster-name').body?.name;
  const [draft, setDraft] = useState('');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put('cluster-name', { name: draft });
      poke('cluster-name');
      poke('overview');
      setDraft('');
    }, 'Changed.');
  };
  return html`<form class="panel form" onSubmit=${submit}><${Text} label="Cluster name" value=${draft} placeholder=${name ?? ''} onInput=${setDraft} required hint="Clients, metrics and federation show it." /><${Outcome} of=${action} />
    <div class="form-end"><button type="submit" disabled=${!draft || action.busy}>Change name</button></div></form>`;
}

const LEVELS = ['debug', 'info', 'warning', 'error'];

/** The end of the node's log, as it grows. */
function LogTail({ name }) {
  const [level, setLevel] = useState('info');
  const [text, setText] = useState('');
  const live = useLive(encode`nodes/${name}/log` + query({ lines: 200, level }));
  const low = text.toLowerCase();
  return html`<${Section} title="Log" aside=${html`<span class="muted">the last 200 lines, from the memory of the node</span>`}>
    <div class="table-tools"><label class="check">Level <select value=${level} onChange=${(event) => setLevel(event.currentTarget.value)}>${LEVELS.map((one) => html`<option value=${one}>${one}${one === 'error' ? '' : ' and above'}</option>`)}</select></label>
    <input type="search" data-filter aria-label="Filter lines" placeholder="Filter lines  /" value=${text} onInput=${(event) => setText(event.currentTarget.value)} spellcheck=${false} /></div>
    <${Await} live=${live}>${({ lines }) => {
      const shown = lines.filter((line) => line.text.toLowerCase().includes(low)).reverse();
      return html`<div class="panel log" tabindex="0" role="region" aria-label="Lines of the log, the newest first">${shown.map((line) => html`<div key=${line.number} class=${line.level}><span class="muted">${time(line.time)}</span> [${line.level}] <${Name} of=${line.text} /></div>`)}${!shown.length && html`<span class="muted">${lines.length ? 'No line has this text.' : 'No line of this level so far.'}</span>`}</div>`;
    }}<//><//>`;
}

function Node({ name }) {
  const base = encode`nodes/${name}`;
  const live = useLive(base);
  const node = live.body;
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} tags=${node && html`${node.being_drained && html`<${Tag} kind="warn">maintenance<//>`}${(node.mem_alarm || node.disk_free_alarm) && html`<${Tag} kind="bad">alarm<//>`}`}
      aside=${html`<${Period} of="node" />${
        node &&
        may.administer() &&
        (node.being_drained
          ? html`<${Ask} verb="End maintenance" title="End maintenance?" work=${async () => {
              await remove(`${base}/maintenance`);
              poke('nodes');
            }}><p>Listeners for clients open again.</p><//>`
          : html`<${Ask} verb="Maintenance" danger title="Put the node into maintenance?" work=${async () => {
              await put(`${base}/maintenance`);
              poke('nodes');
            }}><p>Listeners for clients close, and all ${count(node.sockets_used)} client connections are ended. Queues and messages stay. This page goes on.</p><//>`)
      }`} />
    <${Await} live=${live} gone="There is no such node.">${() => html`
      <div class="columns">
        <div class="panel"><${Chart} title="Memory" path=${base} body=${node} series=${[level('mem_used', 'Memory', '--unacked', bytes)]} of="node" past="history/node" /></div>
        <div class="panel"><${Chart} title="Free disk" path=${base} body=${node} series=${[level('disk_free', 'Free disk', '--acks', bytes)]} of="node" past="history/node" /></div>
        <div class="panel"><${Chart} title="Bytes written per second" path=${base} body=${node} series=${[counter('io_write_bytes', 'Written', '--in', bytes)]} of="node" /></div>
        <div class="panel"><${Chart} title="Disk syncs per second" path=${base} body=${node} series=${[counter('io_sync_count', 'Syncs', '--ready')]} of="node" /></div>
        <div class="panel"><${Chart} title="Connections and descriptors" path=${base} body=${node} series=${[level('sockets_used', 'Connections', '--out'), level('fd_used', 'File descriptors', '--total')]} of="node" /></div>
        <${Section} title="Now"><div class="panel"><${NodeFacts} node=${node} /></div><//>
      </div>
      <${LinksTable} nodes=${[node]} />
      <div class="columns">
        <${Section} title="Memory by use"><${Memory} name=${name} /><//>
        <${Section} title="Logins since the start"><${Logins} name=${name} /><//>
        <${Section} title="Files and settings"><div class="panel"><${Facts} rows=${[
          ['Process', node.os_pid],
          ['Data', html`<span class="mono"><${Name} of=${node.db_dir} /></span>`],
          ['Logs', (node.log_files ?? []).map((file) => html`<div class="mono" key=${file}><${Name} of=${file} /></div>`)],
          [
            'Configuration',
            (node.config_files ?? []).map((file) => html`<div class="mono" key=${file}><${Name} of=${file} /></div>`),
          ],
          ['Plugins asked for', (node.enabled_plugins ?? []).join(', ')],
          ['Mechanisms', (node.auth_mechanisms ?? []).map((one) => one.name).join(', ')],
          ['Exchange types', (node.exchange_types ?? []).map((one) => one.name).join(', ')],
        ]} /></div>${may.administer() && html`<${ClusterName} /><${Configuration} />`}<//>
      </div>
      ${may.administer() && html`<${LogTail} name=${name} />`}`}<//>
  </div>`;
}

export function Nodes({ path }) {
  const names = useLive(path[1] === undefined && 'nodes').body;
  if (path[1] !== undefined) return html`<${Node} name=${path[1]} />`;
  if (!Array.isArray(names))
    return html`<div class="page"><${Head} title="Node" /><div class="loading" aria-busy="true"></div></div>`;
  if (names.length === 1) return html`<${Node} name=${names[0].name} />`;
  return html`<div class="page"><${Head} title="Nodes" /><${NodesTable} nodes=${names} /><${LinksTable} nodes=${names} /></div>`;
}
