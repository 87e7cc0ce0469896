// The whole node at a glance.
import { html } from '../lib.js';
import { at, bytes, count, percent, rate, span } from '../core/format.js';
import { useLive } from '../core/live.js';
import { link, route, to } from '../core/router.js';
import { may } from '../core/session.js';
import { ofQueue } from '../core/why.js';
import { Await, Facts, Head, Name, NameLink, Section, Tag, Why } from '../parts/basics.js';
import { Chart, Period } from '../parts/chart.js';
import { Figures } from '../parts/figures.js';

/** @typedef {import('../parts/chart.js').Series} Series */
/** @type {Series[]} */
const LENGTHS = [
  { key: 'queue_totals.messages', label: 'Total', colour: '--total', kind: 'level', format: count },
  { key: 'queue_totals.messages_ready', label: 'Ready', colour: '--ready', kind: 'level', format: count },
  { key: 'queue_totals.messages_unacknowledged', label: 'Unacked', colour: '--unacked', kind: 'level', format: count },
];
/** @type {Series[]} */
const RATES = [
  { key: 'message_stats.publish', label: 'In', colour: '--in', kind: 'rate', format: rate },
  { key: 'message_stats.confirm', label: 'Confirms', colour: '--total', kind: 'rate', format: rate },
  { key: 'message_stats.deliver_get', label: 'Out', colour: '--out', kind: 'rate', format: rate },
  { key: 'message_stats.ack', label: 'Acks', colour: '--acks', kind: 'rate', format: rate },
  { key: 'message_stats.redeliver', label: 'Redelivered', colour: '--again', kind: 'rate', format: rate },
];
/** @type {Series[]} */
const UNROUTED = [
  { key: 'message_stats.return_unroutable', label: 'Returned', colour: '--ready', kind: 'rate', format: rate },
  { key: 'message_stats.drop_unroutable', label: 'Dropped', colour: '--again', kind: 'rate', format: rate },
];
/** @param {string} what @returns {Series[]} */
const churn = (what, made = 'created', gone = 'closed') => [
  { key: `churn_rates.${what}_${made}`, label: 'Opened', colour: '--in', kind: 'rate', format: rate },
  { key: `churn_rates.${what}_${gone}`, label: 'Closed', colour: '--again', kind: 'rate', format: rate },
];

/** Queues that somebody should look at, the longest first. */
function Attention() {
  const { body } = useLive('queues?page=1&page_size=25&pagination=true&sort=messages&sort_reverse=true&columns=name,vhost,node,why,waits,messages_ready,messages_unacknowledged,parked,failure,state');
  const rows = (body?.items ?? []).flatMap((queue) => ofQueue(queue).filter(({ level }) => level !== 'note').slice(0, 1).map((finding) => ({ queue, finding })));
  if (!rows.length) return null;
  return html`<${Section} title="What waits, and why" aside=${html`<span class="muted">of the 25 longest queues</span>`}>
    <${Why} findings=${rows.slice(0, 8).map(({ queue, finding }) => ({ ...finding, code: `${queue.vhost}\n${queue.name}`, parts: [{ name: queue.name, href: to.queue(queue.vhost, queue.name) }, ': ', ...finding.parts] }))} />
    ${rows.length > 8 && html`<p><a href=${link(['queues'], { sort: 'messages', reverse: 1 })}>and ${rows.length - 8} more</a></p>`}<//>`;
}

/** Used and most, with a warning near the end. @param {{used: number, most: number, format?: (value: any) => string, reverse?: boolean}} properties */
function Share({ used, most, format = count }) {
  if (!most || most > 1e18) return format(used);
  return html`${format(used)} <span class="muted">of ${format(most)} (${percent(used / most)})</span>`;
}

/** @param {{node: any}} properties */
export const NodeFacts = ({ node }) => html`<${Facts} rows=${[
  ['Name', html`<${NameLink} href=${to.node(node.name)} of=${node.name} />`],
  ['Running for', span(node.uptime / 1000)],
  ['Version', `Leveret ${node.leveret_version ?? ''}, compatible with RabbitMQ ${node.rabbitmq_version ?? ''}`],
  ['Memory', html`<${Share} used=${node.mem_used} most=${node.mem_limit} format=${bytes} /> ${node.mem_alarm && html`<${Tag} kind="bad">alarm<//>`}`],
  ['Disk', html`${bytes(node.disk_free)} free <span class="muted">limit ${bytes(node.disk_free_limit)}</span> ${node.disk_free_alarm && html`<${Tag} kind="bad">alarm<//>`}`],
  ['File descriptors', html`<${Share} used=${node.fd_used} most=${node.fd_total} />`],
  ['Connections', count(node.sockets_used)],
  ['Cores', count(node.processors)],
  ['Disk syncs', `${count(node.io_sync_count)}, ${node.io_sync_avg_time < 1 ? 'under 1 ms' : `${count(node.io_sync_avg_time)} ms`} on average`],
]} />`;

export default function Overview() {
  const live = useLive('overview');
  const nodes = useLive(may.monitor() && 'nodes').body;
  const shown = route.value.query.charts ?? 'messages';
  return html`<div class="page">
    <${Head} title="Overview" tags=${live.body && html`<${Tag} title="When publishes of durable messages are confirmed">${{ synced: 'confirms are on the disk', os: 'confirms are written, not flushed', memory: 'confirms are in memory' }[live.body.durability] ?? live.body.durability}<//>`} aside=${may.monitor() && html`<${Period} long />`} />
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
        ${may.monitor() && html`
          <div class="section-head"><nav class="tabs" aria-label="Charts">${[['messages', 'Messages'], ['churn', 'Churn']].map(([id, title]) => html`<a href=${link([], { charts: id === 'messages' ? '' : id })} aria-current=${id === shown ? 'page' : undefined}>${title}</a>`)}</nav></div>
          <div class="columns" key=${shown}>${shown === 'churn'
            ? html`<div class="panel"><${Chart} title="Connections" path=${base} body=${body} series=${churn('connection')} long /></div>
                <div class="panel"><${Chart} title="Channels and sessions" path=${base} body=${body} series=${churn('channel')} long /></div>
                <div class="panel"><${Chart} title="Queues" path=${base} body=${body} series=${churn('queue', 'created', 'deleted')} long /></div>
                <div class="panel"><${Chart} title="Messages that no queue took" path=${base} body=${body} series=${UNROUTED} long /></div>`
            : html`<div class="panel"><${Chart} title="Messages in queues" path=${base} body=${body} series=${LENGTHS} long /></div>
                <div class="panel"><${Chart} title="Messages per second" path=${base} body=${body} series=${RATES} long /></div>`}</div>
          <div class="columns">
            ${(Array.isArray(nodes) ? nodes : []).map((node) => html`<${Section} title="Node" key=${node.name}><div class="panel"><${NodeFacts} node=${node} /></div><//>`)}
            <${Section} title="Listeners"><div class="table-box plain-table"><table><thead><tr><th scope="col">Protocol</th><th scope="col">Address</th><th scope="col" class="num">Port</th><th scope="col">TLS</th></tr></thead>
              <tbody>${(body.listeners ?? []).map((one) => html`<tr key=${`${one.protocol}${one.ip_address}${one.port}`}><td>${one.protocol}</td><td><${Name} of=${one.ip_address} /></td><td class="num">${one.port}</td><td>${one.tls ? 'yes' : 'no'}</td></tr>`)}</tbody></table></div><//>
          </div>`}`;
    }}<//>
  </div>`;
}

