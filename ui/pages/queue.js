// One queue or stream.
import { html } from '../lib.js';
import { path as encode, query, remove } from '../core/api.js';
import { at, bytes, count, percent, rate, several, span, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link, route, to } from '../core/router.js';
import { median, ofConsumer, ofQueue } from '../core/why.js';
import { Await, Facts, Head, Name, NameLink, Section, Tabs, Tag, UserName, VhostName, Why, WhyTag } from '../parts/basics.js';
import { Bind, BindingTable, GraphLink } from '../parts/bindings.js';
import { Chart, Period } from '../parts/chart.js';
import { quiet } from '../parts/columns.js';
import { Destroy } from '../parts/dialog.js';
import { Figures } from '../parts/figures.js';
import { Table, useLocal } from '../parts/table.js';
import { Features } from './queues.js';
import { Messages } from './queue-messages.js';
import { Aside } from './queue-aside.js';
import { Settings } from './queue-settings.js';
import { Tracking } from './queue-tracking.js';

/** @type {import('../parts/chart.js').Series[]} */
const LENGTHS = [
  { key: 'messages', label: 'Total', colour: '--total', kind: 'level', format: count },
  { key: 'messages_ready', label: 'Ready', colour: '--ready', kind: 'level', format: count },
  { key: 'messages_unacknowledged', label: 'Unacked', colour: '--unacked', kind: 'level', format: count },
];
/** @type {import('../parts/chart.js').Series[]} */
const RATES = [
  { key: 'message_stats.publish', label: 'In', colour: '--in', kind: 'rate', format: rate },
  { key: 'message_stats.deliver_get', label: 'Out', colour: '--out', kind: 'rate', format: rate },
  { key: 'message_stats.ack', label: 'Acks', colour: '--acks', kind: 'rate', format: rate },
  { key: 'message_stats.redeliver', label: 'Redelivered', colour: '--again', kind: 'rate', format: rate },
];

/** Columns of consumers, also on other pages. @param {boolean} [withQueue] @returns {import('../parts/table.js').Column[]} */
export const consumerColumns = (withQueue = false) => [
  { id: 'tag', title: 'Consumer', fixed: true, sort: 'consumer_tag', need: ['consumer_tag', 'channel_details'], cell: (row) => (row.channel_details?.connection_name ? html`<${NameLink} href=${to.connection(row.channel_details.connection_name)} of=${row.consumer_tag || '(no tag)'} />` : html`<${Name} of=${row.consumer_tag} />`) },
  ...(withQueue ? [{ id: 'queue', title: 'Queue', sort: 'queue.name', need: ['queue'], cell: (row) => html`<${NameLink} href=${to.queue(row.queue.vhost, row.queue.name)} of=${row.queue.name} />` }] : []),
  { id: 'user', title: 'User', sort: 'channel_details.user', need: ['channel_details'], cell: (row) => html`<${UserName} name=${row.channel_details?.user} />` },
  { id: 'peer', title: 'Client', sort: 'channel_details.peer_host', need: ['channel_details'], cell: (row) => (row.channel_details?.peer_host ? `${row.channel_details.peer_host}:${row.channel_details.peer_port}` : '–') },
  { id: 'wait', title: 'Waits for', sort: 'wait.reason', need: ['wait', 'queue', 'latency_us', 'prefetch_count', 'unacknowledged'], cell: (row) => html`<${WhyTag} finding=${ofConsumer(row)} />` },
  { id: 'held', title: 'Unacked', num: true, sort: 'unacknowledged', need: ['unacknowledged'], cell: (row) => quiet(row.unacknowledged) },
  { id: 'prefetch', title: 'Prefetch', num: true, sort: 'prefetch_count', need: ['prefetch_count'], hint: '0: no limit', cell: (row) => quiet(row.prefetch_count) },
  { id: 'credit', title: 'Credit', num: true, sort: 'link_credit', need: ['link_credit'], hint: 'Link credit, of AMQP 1.0', cell: (row) => (row.link_credit === null || row.link_credit === undefined ? html`<span class="zero">–</span>` : quiet(row.link_credit)) },
  { id: 'latency', title: 'Ack after', num: true, need: ['latency_us'], hint: 'Half of its acknowledgements come within this time', cell: (row) => { const half = median(row.latency_us); return half === null ? html`<span class="zero">–</span>` : span(half); } },
  { id: 'delivered', title: 'Delivered', num: true, sort: 'delivered', need: ['delivered'], cell: (row) => quiet(row.delivered) },
  { id: 'mode', title: 'Mode', need: ['ack_required', 'exclusive', 'activity_status', 'priority'], cell: (row) => html`<span class="tags">${!row.ack_required && html`<${Tag} title="Messages count as acknowledged when they are sent">no ack<//>`}${row.exclusive && html`<${Tag}>exclusive<//>`}${row.activity_status === 'single_active' && html`<${Tag} kind="accent">active<//>`}${row.activity_status === 'waiting' && html`<${Tag}>stands by<//>`}${row.priority ? html`<${Tag}>priority ${row.priority}<//>` : null}</span>` },
];

function Consumers({ queue }) {
  const list = useLocal('consumers', queue.consumer_details ?? [], consumerColumns());
  return html`<${Section} title="Consumers" aside=${html`<span class="muted">${count(queue.consumers)}</span>`}>
    ${queue.consumers > 0 ? html`<${Table} list=${list} label="Consumers" short rowKey=${(row) => `${row.channel_details?.name}\n${row.consumer_tag}`} />` : html`<p class="empty">No client consumes from it.</p>`}
  <//>`;
}

function Details({ queue }) {
  const kept = queue.conservation;
  return html`<div class="columns">
    <${Section} title="Details"><div class="panel"><${Facts} rows=${[
      ['Virtual host', html`<${VhostName} name=${queue.vhost} />`],
      ['Type', queue.type],
      ['State', queue.state],
      ['Confirmed when', { synced: 'flushed to the disk', os: 'written to the operating system', memory: 'in memory' }[queue.durability] ?? queue.durability],
      ['Policy', queue.policy && html`<a href=${to.policy(queue.vhost, queue.policy)}><${Name} of=${queue.policy} /></a>`],
      ['Operator policy', queue.operator_policy && html`<a href=${to.operatorPolicy(queue.vhost, queue.operator_policy)}><${Name} of=${queue.operator_policy} /></a>`],
      ['Consumer capacity', queue.consumers > 0 && queue.consumer_capacity !== undefined && percent(queue.consumer_capacity)],
      ['Single active consumer', queue.single_active_consumer_tag && html`<${Name} of=${queue.single_active_consumer_tag} />`],
      ['Exclusive consumer', queue.exclusive_consumer_tag && html`<${Name} of=${queue.exclusive_consumer_tag} />`],
      ['Delivery limit', queue.delivery_limit !== undefined && String(queue.delivery_limit)],
      ['Delayed retry', queue.delayed_retry],
      ['Idle since', queue.idle_since && time(queue.idle_since)],
      ['Oldest message', queue.head_message_timestamp ? time(queue.head_message_timestamp * 1000) : queue.first_timestamp ? time(queue.first_timestamp) : null],
      ['Offsets', queue.next_offset !== undefined && `${count(queue.first_offset)} to ${count(queue.next_offset - 1)}`],
      ['Segments', queue.segments !== undefined && count(queue.segments)],
      ['Refused publishes', queue.refused > 0 && count(queue.refused)],
    ]} /></div><//>
    <${Section} title="Size"><div class="panel"><${Facts} rows=${[
      ['Bodies', queue.message_bytes !== undefined && bytes(queue.message_bytes)],
      ['of them ready', queue.message_bytes_ready !== undefined && bytes(queue.message_bytes_ready)],
      ['of them unacknowledged', queue.message_bytes_unacknowledged !== undefined && bytes(queue.message_bytes_unacknowledged)],
      ['Chunks', queue.chunk_bytes !== undefined && bytes(queue.chunk_bytes)],
      ['Persistent messages', queue.messages_persistent !== undefined && count(queue.messages_persistent)],
      ['Bodies in memory', queue.messages_ram !== undefined && count(queue.messages_ram)],
      ['Memory', bytes(queue.memory)],
      ['By priority', queue.messages_by_priority && Object.entries(queue.messages_by_priority).map(([level, n]) => `${level}: ${typeof n === 'object' ? JSON.stringify(n) : count(n)}`).join(', ')],
    ]} /></div><//>
    ${kept && queue.type !== 'stream' && html`<${Section} title="Where its messages went"><div class="panel"><${Facts} rows=${[
      ['Accepted', count(kept.accepted)],
      ['Acknowledged', count(kept.settled)],
      ['Dead-lettered', count(kept.dead_lettered)],
      ['Expired', count(kept.expired)],
      ['Dropped at the limit', count(kept.dropped)],
      ['Purged', count(kept.purged)],
      ['Kept aside', count(kept.parked)],
      ['Here now', count(kept.remaining)],
    ]} /></div><//>`}
  </div>`;
}

function Overview({ queue, base }) {
  const isStream = queue.type === 'stream';
  return html`
    <${Figures} label="Messages" items=${[
      { label: 'Ready', value: count(queue.messages_ready), dot: '--ready' },
      !isStream && { label: 'Unacked', value: count(queue.messages_unacknowledged), dot: '--unacked' },
      { label: 'Total', value: count(queue.messages), dot: '--total' },
      { label: 'In', value: rate(at(queue, 'message_stats.publish_details.rate') ?? 0), unit: '/s', dot: '--in' },
      { label: 'Out', value: rate(at(queue, 'message_stats.deliver_get_details.rate') ?? 0), unit: '/s', dot: '--out' },
      { label: 'Acks', value: rate(at(queue, 'message_stats.ack_details.rate') ?? 0), unit: '/s', dot: '--acks' },
      { label: 'Consumers', value: count(queue.consumers) },
      queue.parked > 0 && { label: 'Parked', value: count(queue.parked), warn: true, href: to.queue(queue.vhost, queue.name, { tab: 'parked' }) },
      queue.messages_delayed > 0 && { label: 'Delayed', value: count(queue.messages_delayed), href: to.queue(queue.vhost, queue.name, { tab: 'delayed' }) },
    ]} />
    <div class="columns">
      <div class="panel"><${Chart} title="Messages" path=${base} body=${queue} series=${isStream ? LENGTHS.slice(0, 1) : LENGTHS} /></div>
      <div class="panel"><${Chart} title="Messages per second" path=${base} body=${queue} series=${RATES} /></div>
    </div>
    <${Consumers} queue=${queue} />
    <${Details} queue=${queue} />`;
}

function Actions({ queue, base }) {
  const counts = html`<${Facts} rows=${[
    ['Ready messages', count(queue.messages_ready)],
    ['Unacknowledged', count(queue.messages_unacknowledged)],
    ['Kept aside', queue.parked > 0 && count(queue.parked)],
    ['Delayed', queue.messages_delayed > 0 && count(queue.messages_delayed)],
    ['Consumers', count(queue.consumers)],
  ]} />`;
  return html`${queue.type !== 'stream' && html`<${Destroy} verb="Purge" kind="queue" name=${queue.name} small work=${async () => { await remove(`${base}/contents`); poke('queues'); }}>${counts}<p>All ready messages are deleted. Those that consumers hold stay with them.</p><//>`}
    <${Destroy} verb="Delete" kind=${queue.type === 'stream' ? 'stream' : 'queue'} name=${queue.name} small work=${async () => { await remove(base); poke('queues'); }} then=${() => go(link(['queues']))}>${counts}<p>The queue, its messages and its bindings are deleted. ${queue.consumers > 0 ? `${several(queue.consumers, 'consumer')} will be cancelled.` : ''}</p><//>`;
}

/** @param {{path: string[]}} properties */
export default function Queue({ path }) {
  const [, vhost, name] = path;
  const base = encode`queues/${vhost}/${name}`;
  const live = useLive(base);
  const queue = live.body;
  const bindings = useLive(`${base}/bindings${query({ page: 1, page_size: 1, pagination: 'true', columns: 'source' })}`).body;
  const tab = route.value.query.tab ?? 'overview';
  const href = (id) => to.queue(vhost, name, id === 'overview' ? {} : { tab: id });
  const type = queue?.type;
  const tabs = /** @type {[string, any, any?][]} */ ([
    ['overview', 'Overview'],
    ['messages', 'Messages'],
    ...(queue?.parked > 0 || tab === 'parked' ? [['parked', 'Parked', count(queue?.parked)]] : []),
    ...(queue?.messages_delayed > 0 || tab === 'delayed' ? [['delayed', 'Delayed', count(queue?.messages_delayed)]] : []),
    ['bindings', 'Bindings', bindings?.total_count],
    ...(type === 'stream' ? [['tracking', 'Offsets']] : []),
    ['settings', 'Arguments and policies'],
  ]);
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['queues'])}>Queues</a> in <${VhostName} name=${vhost} />`}
      tags=${queue && html`<${Tag} kind="accent">${type}<//><${Features} queue=${queue} />`} aside=${queue && html`<${Actions} queue=${queue} base=${base} />`} />
    <${Await} live=${live} gone=${html`There is no such queue${vhost ? html` in <b><${Name} of=${vhost} /></b>` : ''}. It may have been deleted. <a href=${link(['queues'], { name })}>Look for queues with a similar name</a>`}>${() => html`
      <${Why} findings=${ofQueue(queue)} />
      <div class="section-head"><${Tabs} tabs=${tabs} now=${tab} href=${href} label="Parts of this queue" /><span class="spacer"></span>${tab === 'overview' && html`<${Period} />`}</div>
      ${tab === 'messages' ? html`<${Messages} queue=${queue} base=${base} />`
        : tab === 'parked' || tab === 'delayed' ? html`<${Aside} queue=${queue} base=${base} which=${tab} key=${tab} />`
        : tab === 'bindings' ? html`<${Section} title="Bindings to this queue" aside=${html`<${GraphLink} vhost=${vhost} kind="q" name=${name} />`}><${BindingTable} where=${`${base}/bindings`} side="source" vhost=${vhost} none="No exchange leads to it." /><//>
            <${Section} title="Bind it to an exchange"><div class="panel"><${Bind} vhost=${vhost} destination=${name} kind="q" /></div><//>`
        : tab === 'tracking' && type === 'stream' ? html`<${Tracking} queue=${queue} />`
        : tab === 'settings' ? html`<${Settings} queue=${queue} base=${base} />`
        : html`<${Overview} queue=${queue} base=${base} />`}`}<//>
  </div>`;
}

