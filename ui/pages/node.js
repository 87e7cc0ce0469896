// The node: load, memory by use, listeners, logins, maintenance, configuration.
import { html, useState } from '../lib.js';
import { get, path as encode, put, remove } from '../core/api.js';
import { at, bytes, count, percent, rate } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { to } from '../core/router.js';
import { may } from '../core/session.js';
import { Await, Empty, Facts, Head, Name, Outcome, Problem, Section, Tag, useAction } from '../parts/basics.js';
import { Chart, Period } from '../parts/chart.js';
import { Ask } from '../parts/dialog.js';
import { Text } from '../parts/form.js';
import { NodeFacts } from './overview.js';

/** @typedef {import('../parts/chart.js').Series} Series */
/** @type {Series[]} */
const MEMORY = [{ key: 'mem_used', label: 'Memory', colour: '--unacked', kind: 'level', format: bytes }];
/** @type {Series[]} */
const DISK = [{ key: 'disk_free', label: 'Free disk', colour: '--acks', kind: 'level', format: bytes }];
/** @type {Series[]} */
const WRITES = [{ key: 'io_write_bytes', label: 'Written', colour: '--in', kind: 'rate', format: bytes }];
/** @type {Series[]} */
const SYNCS = [{ key: 'io_sync_count', label: 'Syncs', colour: '--ready', kind: 'rate', format: rate }];
/** @type {Series[]} */
const SOCKETS = [
  { key: 'sockets_used', label: 'Connections', colour: '--out', kind: 'level', format: count },
  { key: 'fd_used', label: 'File descriptors', colour: '--total', kind: 'level', format: count },
];

/** Names of RabbitMQ's kinds of memory that this node tells apart. */
const KINDS = { binary: 'bodies of messages', connection_readers: 'connections before login', other_system: 'everything else', queue_procs: 'queues', connection_channels: 'channels', metrics: 'metrics', mgmt_db: 'histories', metadata_store: 'objects' };
const COLOURS = ['--unacked', '--ready', '--in', '--out', '--acks', '--again', '--total'];

function Memory({ name }) {
  const live = useLive(encode`nodes/${name}/memory`);
  return html`<${Await} live=${live}>${(body) => {
    const kinds = Object.entries(body.memory ?? {}).filter(([, value]) => typeof value === 'number' && value > 0).sort((a, b) => Number(b[1]) - Number(a[1]));
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

/** @param {{name: string}} properties */
function Node({ name }) {
  const base = encode`nodes/${name}`;
  const live = useLive(base);
  const node = live.body;
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} tags=${node && html`${node.being_drained && html`<${Tag} kind="warn">maintenance<//>`}${(node.mem_alarm || node.disk_free_alarm) && html`<${Tag} kind="bad">alarm<//>`}`}
      aside=${html`<${Period} long />${node && may.administer() && (node.being_drained
        ? html`<${Ask} verb="End maintenance" title="End maintenance?" work=${async () => { await remove(`${base}/maintenance`); poke('nodes'); }}><p>Listeners for clients open again.</p><//>`
        : html`<${Ask} verb="Maintenance" danger title="Put the node into maintenance?" work=${async () => { await put(`${base}/maintenance`); poke('nodes'); }}><p>Listeners for clients close, and all ${count(node.sockets_used)} client connections are ended. Queues and messages stay. This page goes on.</p><//>`)}`} />
    <${Await} live=${live} gone="There is no such node.">${() => html`
      <div class="columns">
        <div class="panel"><${Chart} title="Memory" path=${base} body=${node} series=${MEMORY} long /></div>
        <div class="panel"><${Chart} title="Free disk" path=${base} body=${node} series=${DISK} long /></div>
        <div class="panel"><${Chart} title="Bytes written per second" path=${base} body=${node} series=${WRITES} long /></div>
        <div class="panel"><${Chart} title="Disk syncs per second" path=${base} body=${node} series=${SYNCS} long /></div>
        <div class="panel"><${Chart} title="Connections and descriptors" path=${base} body=${node} series=${SOCKETS} long /></div>
        <${Section} title="Now"><div class="panel"><${NodeFacts} node=${node} /></div><//>
      </div>
      <div class="columns">
        <${Section} title="Memory by use"><${Memory} name=${name} /><//>
        <${Section} title="Logins since the start"><${Logins} name=${name} /><//>
        <${Section} title="Files and settings"><div class="panel"><${Facts} rows=${[
          ['Process', node.os_pid],
          ['Data', html`<span class="mono"><${Name} of=${node.db_dir} /></span>`],
          ['Logs', (node.log_files ?? []).map((file) => html`<div class="mono" key=${file}><${Name} of=${file} /></div>`)],
          ['Configuration', (node.config_files ?? []).map((file) => html`<div class="mono" key=${file}><${Name} of=${file} /></div>`)],
          ['Plugins asked for', (node.enabled_plugins ?? []).join(', ')],
          ['Mechanisms', (node.auth_mechanisms ?? []).map((one) => one.name).join(', ')],
          ['Exchange types', (node.exchange_types ?? []).map((one) => one.name).join(', ')],
        ]} /></div>${may.administer() && html`<${ClusterName} /><${Configuration} />`}<//>
      </div>`}<//>
  </div>`;
}

/** @param {{path: string[]}} properties */
export default function Nodes({ path }) {
  const names = useLive(path[1] === undefined && 'nodes?columns=name').body;
  if (path[1] !== undefined) return html`<${Node} name=${path[1]} />`;
  if (!Array.isArray(names)) return html`<div class="page"><${Head} title="Node" /><div class="loading" aria-busy="true"></div></div>`;
  if (names.length === 1) return html`<${Node} name=${names[0].name} />`;
  return html`<div class="page"><${Head} title="Nodes" /><ul class="panel">${names.map(({ name }) => html`<li key=${name}><a href=${to.node(name)}><${Name} of=${name} /></a></li>`)}</ul></div>`;
}

