// Connections, channels and consumers.
import { html, useState } from '../lib.js';
import { may, me, path, path as encode, remove } from '../core/api.js';
import { at, bytes, count, rate, span, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { chosenVhost, go, link, to } from '../core/router.js';
import { findingsOf, median, ofConsumer, short } from '../core/why.js';
import {
  Arguments,
  Await,
  Empty,
  Facts,
  Figures,
  Head,
  Name,
  NameLink,
  number,
  perSecond,
  QueueLink,
  quiet,
  Section,
  size,
  Tag,
  UserName,
  vhostColumn,
  nodeColumn,
  NodeName,
  VhostName,
  When,
  Why,
  WhyTag,
} from '../parts/basics.js';
import { Chart, Period, flow, rates } from '../parts/chart.js';
import { Ask, Text } from '../parts/forms.js';
import { Table, Tools, useList, useLocal } from '../parts/table.js';

export const Client = ({ of }) => {
  const { product, version, platform } = of?.client_properties ?? of ?? {};
  const text = [product, version].filter((part) => typeof part === 'string').join(' ');
  return text
    ? html`<span title=${typeof platform === 'string' ? platform : ''}><${Name} of=${text} /></span>`
    : html`<span class="zero">–</span>`;
};

const octets = (id, title, field) => ({
  id,
  title,
  num: true,
  sort: `${field}_details.rate`,
  need: [`${field}_details.rate`],
  cell: (row) => quiet(row[`${field}_details`]?.rate ?? 0, (value) => (value ? bytes(value) : rate(value))),
});

/** What a client is, and how long it has been here, also for connections of streams. */
export const whichAndSince = () => [
  { id: 'library', title: 'Library', slack: true, need: ['client_properties'], cell: (row) => html`<${Client} of=${row} />` },
  {
    id: 'since',
    title: 'Open for',
    num: true,
    sort: 'connected_at',
    need: ['connected_at'],
    cell: (row) => html`<${When} at=${row.connected_at} word="" />`,
  },
];

/** @returns {import('../parts/table.js').Column[]} */
const connectionColumns = () => [
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    need: ['name', 'user_provided_name'],
    cell: (row) => html`<${NameLink} href=${to.connection(row.name)} of=${row.user_provided_name ?? row.name} />`,
  },
  {
    id: 'peer',
    title: 'Client',
    slack: true,
    sort: 'peer_host',
    need: ['peer_host', 'peer_port'],
    cell: (row) => `${row.peer_host}:${row.peer_port}`,
  },
  ...vhostColumn(),
  ...nodeColumn(),
  { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` },
  {
    id: 'state',
    title: 'State',
    sort: 'state',
    need: ['state'],
    off: true,
    cell: (row) =>
      row.state === 'running' ? html`<span class="zero">running</span>` : html`<span class="warn">${row.state}</span>`,
  },
  {
    id: 'waits',
    title: 'Waits for',
    need: ['wait', 'why', 'node'],
    cell: (row) => html`<${WhyTag} finding=${findingsOf(row)[0]} />`,
  },
  {
    id: 'protocol',
    title: 'Protocol',
    sort: 'protocol',
    need: ['protocol', 'ssl'],
    cell: (row) => html`${row.protocol} ${row.ssl && html`<${Tag}>TLS<//>`}`,
  },
  number('channels', 'Channels', 'channels', { hint: 'Channels, or sessions of AMQP 1.0' }),
  octets('received', 'From client /s', 'recv_oct'),
  octets('sent', 'To client /s', 'send_oct'),
  ...whichAndSince(),
  size('received-all', 'Received', 'recv_oct', { off: true }),
  size('sent-all', 'Sent', 'send_oct', { off: true }),
  size('queued', 'Unsent', 'queued_bytes', { off: true, hint: 'Bytes that wait for the client to read' }),
  number('timeout', 'Heartbeat', 'timeout', { off: true, format: (value) => (value ? `${count(value)} s` : 'none') }),
  {
    id: 'mechanism',
    title: 'Mechanism',
    sort: 'auth_mechanism',
    need: ['auth_mechanism'],
    off: true,
    cell: (row) => row.auth_mechanism,
  },
  { id: 'address', title: 'Address', need: ['name'], off: true, cell: (row) => html`<${Name} of=${row.name} />` },
  {
    id: 'at',
    title: 'Connected at',
    sort: 'connected_at',
    need: ['connected_at'],
    off: true,
    cell: (row) => time(row.connected_at),
  },
];

export function Connections() {
  const vhost = chosenVhost.value;
  // In the order in which they came: for any other one the node asks every connection, ten times as long with 18,000 of them.
  const list = useList({
    id: 'connections',
    path: vhost ? path`vhosts/${vhost}/connections` : 'connections',
    columns: connectionColumns(),
    always: ['name', 'vhost'],
  });
  return html`<div class="page fill">
    <${Head} title="Connections" />
    <${Tools} list=${list} what="connections" />
    <${Table} list=${list} label="Connections" rowKey=${(row) => row.name} empty="No client is connected." />
  </div>`;
}

// One connection with its channels, or its sessions and links.

function OwnChannels({ name }) {
  const live = useLive(encode`connections/${name}/channels`);
  const list = useLocal('channels', Array.isArray(live.body) ? live.body : [], channelColumns(false));
  return html`<${Section} title="Channels"><${Await} live=${live}>${(rows) => (rows.length ? html`<${Table} list=${list} label="Channels" short rowKey=${(row) => row.name} />` : html`<${Empty}>It has opened no channel.<//>`)}<//><//>`;
}

const Wait = ({ wait }) =>
  wait
    ? html`<span class="why-tag note" title=${`Since ${time(wait.since)}`}>${short(wait.reason)}</span>`
    : html`<span class="zero">–</span>`;

function Session({ session, vhost }) {
  const incoming = useLocal('incoming', session.incoming_links ?? [], [
    { id: 'name', title: 'Link', sort: 'link_name', cell: (row) => html`<${Name} of=${row.link_name} />` },
    {
      id: 'target',
      title: 'Publishes to',
      sort: 'target_address',
      cell: (row) => html`<${Name} of=${row.target_address} empty="(each message names it)" />`,
    },
    { id: 'credit', title: 'Credit', num: true, sort: 'credit', cell: (row) => quiet(row.credit) },
    {
      id: 'unconfirmed',
      title: 'Unconfirmed',
      num: true,
      sort: 'unconfirmed_messages',
      cell: (row) => quiet(row.unconfirmed_messages),
    },
    { id: 'count', title: 'Deliveries', num: true, sort: 'delivery_count', cell: (row) => quiet(row.delivery_count) },
  ]);
  const outgoing = useLocal('outgoing', session.outgoing_links ?? [], [
    { id: 'name', title: 'Link', sort: 'link_name', cell: (row) => html`<${Name} of=${row.link_name} />` },
    {
      id: 'queue',
      title: 'Consumes from',
      sort: 'queue_name',
      cell: (row) =>
        row.queue_name
          ? html`<${QueueLink} vhost=${vhost} name=${row.queue_name} />`
          : html`<${Name} of=${row.source_address} />`,
    },
    { id: 'wait', title: 'Waits for', sort: 'wait.reason', cell: (row) => html`<${Wait} wait=${row.wait} />` },
    { id: 'credit', title: 'Credit', num: true, sort: 'credit', cell: (row) => quiet(row.credit) },
    { id: 'count', title: 'Deliveries', num: true, sort: 'delivery_count', cell: (row) => quiet(row.delivery_count) },
    { id: 'settled', title: 'Settled', cell: (row) => (row.send_settled ? 'when sent' : 'by the client') },
  ]);
  return html`<div class="panel stack">
    <h3>Session ${session.channel_number}</h3>
    <${Figures} label="Windows" items=${[
      { label: 'Our window', value: count(session.incoming_window) },
      {
        label: 'Its window',
        value: count(session.remote_incoming_window),
        warn: session.remote_incoming_window === 0,
        title: 'Transfers that the client accepts now',
      },
      { label: 'Unsettled', value: count(session.outgoing_unsettled_deliveries) },
      { label: 'Unsent', value: count(session.pending_deliveries) },
    ]} />
    ${incoming.rows.length > 0 && html`<${Table} list=${incoming} label="Links on which the client publishes" short rowKey=${(row) => String(row.handle)} />`}
    ${outgoing.rows.length > 0 && html`<${Table} list=${outgoing} label="Links on which the client consumes" short rowKey=${(row) => String(row.handle)} />`}
    ${!incoming.rows.length && !outgoing.rows.length && html`<p class="faint">No links.</p>`}
  </div>`;
}

function Sessions({ name, vhost }) {
  const live = useLive(encode`connections/${name}/sessions`);
  return html`<${Section} title="Sessions and links"><${Await} live=${live}>${(rows) => (rows.length ? rows.map((session) => html`<${Session} session=${session} vhost=${vhost} key=${session.channel_number} />`) : html`<${Empty}>It has begun no session.<//>`)}<//><//>`;
}

function StreamParts({ name, vhost }) {
  const publishers = useLive(encode`stream/connections/${vhost}/${name}/publishers`).body ?? [];
  const consumers = useLive(encode`stream/connections/${vhost}/${name}/consumers`).body ?? [];
  const one = useLocal('publishers', publishers, [
    { id: 'id', title: 'Publisher', sort: 'publisher_id', cell: (row) => row.publisher_id },
    {
      id: 'stream',
      title: 'Stream',
      sort: 'queue.name',
      cell: (row) => html`<${QueueLink} vhost=${vhost} name=${row.queue.name} />`,
    },
    { id: 'reference', title: 'Reference', sort: 'reference', cell: (row) => html`<${Name} of=${row.reference} empty="–" />` },
    { id: 'published', title: 'Published', num: true, sort: 'published', cell: (row) => quiet(row.published) },
    { id: 'confirmed', title: 'Confirmed', num: true, sort: 'confirmed', cell: (row) => quiet(row.confirmed) },
    { id: 'errored', title: 'Errors', num: true, sort: 'errored', cell: (row) => quiet(row.errored) },
  ]);
  const two = useLocal('subscriptions', consumers, [
    { id: 'id', title: 'Consumer', sort: 'subscription_id', cell: (row) => row.subscription_id },
    {
      id: 'stream',
      title: 'Stream',
      sort: 'queue.name',
      cell: (row) => html`<${QueueLink} vhost=${vhost} name=${row.queue.name} />`,
    },
    { id: 'offset', title: 'Offset', num: true, sort: 'offset', cell: (row) => count(row.offset) },
    { id: 'lag', title: 'Behind', num: true, sort: 'offset_lag', cell: (row) => quiet(row.offset_lag) },
    { id: 'credits', title: 'Credits', num: true, sort: 'credits', cell: (row) => quiet(row.credits) },
    { id: 'consumed', title: 'Consumed', num: true, sort: 'consumed', cell: (row) => quiet(row.consumed) },
  ]);
  return html`<div class="columns">
    <${Section} title="Publishers">${one.rows.length ? html`<${Table} list=${one} label="Publishers" short rowKey=${(row) => String(row.publisher_id)} />` : html`<${Empty}>None.<//>`}<//>
    <${Section} title="Consumers">${two.rows.length ? html`<${Table} list=${two} label="Consumers" short rowKey=${(row) => String(row.subscription_id)} />` : html`<${Empty}>None.<//>`}<//>
  </div>`;
}

function Close({ connection }) {
  const [reason, setReason] = useState('');
  // Header values are Latin-1: other characters are left out.
  const header = () => reason.replace(/[^\x20-\x7e]/g, '?');
  return html`<${Ask} verb="Close" danger small title="Close this connection?" work=${async () => {
    await remove(encode`connections/${connection.name}`, reason ? { 'X-Reason': header() } : {});
    poke('connections');
  }} then=${() => go(link(['connections']))}>
    <p>${count(connection.channels)} channels or sessions end with it. What its consumers hold goes back to the queues. Most clients connect again by themselves.</p>
    <div class="form"><${Text} label="Reason" value=${reason} onInput=${setReason} hint="The client is told, and so is the log." /></div><//>`;
}

export function Connection({ path }) {
  const name = path[1];
  const base = encode`connections/${name}`;
  const live = useLive(base);
  const connection = live.body;
  const isOne = connection?.protocol?.includes('1-0') || connection?.protocol?.includes('1.0');
  const isStream = connection?.publishers !== undefined;
  const mayClose = connection && (may.administer() || connection.user === me.value?.name);
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${connection?.user_provided_name ?? name} />`} above=${html`<a href=${link(['connections'])}>Connections</a>`}
      tags=${connection && html`<${Tag} kind="accent">${connection.protocol}<//>${connection.ssl && html`<${Tag}>${connection.ssl_protocol}<//>`}${connection.state !== 'running' && html`<${Tag} kind="warn">${connection.state}<//>`}`}
      aside=${html`${connection && html`<${Period} />`}${mayClose && html`<${Close} connection=${connection} />`}`} />
    <${Await} live=${live} gone=${html`This connection is closed. <a href=${link(['connections'])}>See those that are open</a>`}>${() => html`
      <${Why} findings=${findingsOf(connection)} />
      <div class="columns">
        <div class="panel"><${Chart} title="Bytes per second" path=${base} body=${connection} series=${[flow('recv_oct', 'From client', '--in', bytes), flow('send_oct', 'To client', '--out', bytes)]} /></div>
        <${Section} title="Details"><div class="panel"><${Facts} rows=${[
          ['Name', html`<${Name} of=${connection.name} />`],
          ['User', html`<${UserName} name=${connection.user} />`],
          ['Virtual host', html`<${VhostName} name=${connection.vhost} />`],
          ['Node', connection.node && html`<${NodeName} name=${connection.node} />`],
          ['Connected', time(connection.connected_at)],
          ['Container', connection.container_id && html`<${Name} of=${connection.container_id} />`],
          ['Heartbeat', connection.timeout ? `${count(connection.timeout)} s` : 'none'],
          ['Largest frame', bytes(connection.frame_max)],
          ['Most channels', count(connection.channel_max)],
          ['Mechanism', connection.auth_mechanism],
          ['Received', `${bytes(connection.recv_oct)} in ${count(connection.recv_cnt)} reads`],
          ['Sent', `${bytes(connection.send_oct)} in ${count(connection.send_cnt)} writes`],
          ['Waiting to be sent', connection.queued_bytes > 0 && bytes(connection.queued_bytes)],
          ['Cipher', connection.ssl && `${connection.ssl_cipher} ${connection.ssl_hash}`],
          ['Certificate', connection.peer_cert_subject && html`<${Name} of=${connection.peer_cert_subject} />`],
          ['Issued by', connection.peer_cert_issuer && html`<${Name} of=${connection.peer_cert_issuer} />`],
          ['Valid', connection.peer_cert_validity],
        ]} /></div><//>
      </div>
      ${isStream ? html`<${StreamParts} name=${name} vhost=${connection.vhost} />` : isOne ? html`<${Sessions} name=${name} vhost=${connection.vhost} />` : html`<${OwnChannels} name=${name} />`}
      ${
        isOne &&
        connection.message_stats &&
        html`<${Section} title="Messages since it connected"><div class="panel"><${Facts} rows=${[
          ['Published', count(connection.message_stats.publish)],
          ['Confirmed', count(connection.message_stats.confirm)],
          ['Delivered', count(connection.message_stats.deliver)],
          ['Acknowledged', count(connection.message_stats.ack)],
          ['Redelivered', count(connection.message_stats.redeliver)],
        ]} /></div><//>`
      }
      <${Section} title="What the client says of itself"><div class="panel"><${Arguments} of=${connection.client_properties} none="nothing" /></div><//>`}<//>
  </div>`;
}

// The list of channels.

/** @param {boolean} [ofAll] @returns {import('../parts/table.js').Column[]} */
export const channelColumns = (ofAll = true) => [
  {
    id: 'name',
    title: 'Channel',
    fixed: true,
    sort: ofAll ? 'name' : 'number',
    need: ['name', 'number'],
    cell: (row) => html`<${NameLink} href=${to.channel(row.name)} of=${ofAll ? row.name : `Channel ${row.number}`} />`,
  },
  ...(ofAll
    ? [
        ...vhostColumn(),
        ...nodeColumn(),
        { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` },
      ]
    : []),
  {
    id: 'mode',
    title: 'Mode',
    need: ['confirm', 'transactional'],
    cell: (row) =>
      html`<span class="tags">${row.confirm && html`<${Tag}>confirms<//>`}${row.transactional && html`<${Tag}>transactions<//>`}</span>`,
  },
  {
    id: 'waits',
    title: 'Waits for',
    need: ['wait', 'why', 'node', 'state'],
    cell: (row) => html`<${WhyTag} finding=${findingsOf(row)[0]} />`,
  },
  number('consumers', 'Consumers', 'consumer_count'),
  number('prefetch', 'Prefetch', 'prefetch_count'),
  number('unacked', 'Unacked', 'messages_unacknowledged'),
  number('unconfirmed', 'Unconfirmed', 'messages_unconfirmed'),
  perSecond('in', 'In /s', 'message_stats.publish'),
  perSecond('confirms', 'Confirms /s', 'message_stats.confirm'),
  perSecond('out', 'Out /s', 'message_stats.deliver_get'),
  perSecond('acks', 'Acks /s', 'message_stats.ack'),
  number('uncommitted', 'Uncommitted', 'messages_uncommitted', { off: true }),
  number('global', 'Global prefetch', 'global_prefetch_count', { off: true }),
];

export function Channels() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'channels',
    path: vhost ? path`vhosts/${vhost}/channels` : 'channels',
    columns: channelColumns(),
    always: ['name', 'vhost'],
    sort: 'name',
  });
  return html`<div class="page fill">
    <${Head} title="Channels" />
    <${Tools} list=${list} what="channels" />
    <${Table} list=${list} label="Channels" rowKey=${(row) => row.name} empty="No channel is open. Clients of AMQP 1.0 and streams have none." />
  </div>`;
}

// One channel.

export function Channel({ path }) {
  const name = path[1];
  const base = encode`channels/${name}`;
  const live = useLive(base);
  const consumers = useLocal('consumers', live.body?.consumer_details ?? [], consumerColumns(true));
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['channels'])}>Channels</a>`} aside=${html`<${Period} />`}
      tags=${live.body && html`${live.body.confirm && html`<${Tag}>confirms<//>`}${live.body.transactional && html`<${Tag}>transactions<//>`}`} />
    <${Await} live=${live} gone=${html`This channel is closed. <a href=${link(['channels'])}>See those that are open</a>`}>${(
      channel,
    ) => html`
      <${Why} findings=${findingsOf(channel)} />
      <${Figures} label="Messages" items=${[
        { label: 'Unacked', value: count(channel.messages_unacknowledged), dot: '--unacked' },
        { label: 'Unconfirmed', value: count(channel.messages_unconfirmed) },
        { label: 'Prefetch', value: channel.prefetch_count ? count(channel.prefetch_count) : 'no limit' },
        { label: 'Consumers', value: count(channel.consumer_count) },
        { label: 'In', value: rate(at(channel, 'message_stats.publish_details.rate') ?? 0), unit: '/s', dot: '--in' },
        { label: 'Out', value: rate(at(channel, 'message_stats.deliver_get_details.rate') ?? 0), unit: '/s', dot: '--out' },
      ]} />
      <div class="columns">
        <div class="panel"><${Chart} title="Messages per second" path=${base} body=${channel} series=${rates('publish', 'confirm', 'deliver_get', 'ack', 'redeliver')} /></div>
        <${Section} title="Details"><div class="panel"><${Facts} rows=${[
          [
            'Connection',
            html`<${NameLink} href=${to.connection(channel.connection_details.name)} of=${channel.connection_details.name} />`,
          ],
          ['User', html`<${UserName} name=${channel.user} />`],
          ['Virtual host', html`<${VhostName} name=${channel.vhost} />`],
          ['State', channel.state],
          ['Shared prefetch', channel.global_prefetch_count && count(channel.global_prefetch_count)],
          ['Uncommitted messages', channel.transactional && count(channel.messages_uncommitted)],
          ['Uncommitted acks', channel.transactional && count(channel.acks_uncommitted)],
          ['Idle since', channel.idle_since && time(channel.idle_since)],
        ]} /></div><//>
      </div>
      ${consumers.rows.length > 0 && html`<${Section} title="Consumers"><${Table} list=${consumers} label="Consumers" short rowKey=${(row) => row.consumer_tag} /><//>`}`}<//>
  </div>`;
}

// The list of consumers of all queues.

/** Columns of consumers, also on other pages. @param {boolean} [withQueue] @returns {import('../parts/table.js').Column[]} */
export const consumerColumns = (withQueue = false) => [
  {
    id: 'tag',
    title: 'Consumer',
    fixed: true,
    sort: 'consumer_tag',
    need: ['consumer_tag', 'channel_details'],
    cell: (row) =>
      row.channel_details?.connection_name
        ? html`<${NameLink} href=${to.connection(row.channel_details.connection_name)} of=${row.consumer_tag || '(no tag)'} />`
        : html`<${Name} of=${row.consumer_tag} />`,
  },
  ...(withQueue
    ? [
        {
          id: 'queue',
          title: 'Queue',
          sort: 'queue.name',
          need: ['queue'],
          cell: (row) => html`<${NameLink} href=${to.queue(row.queue.vhost, row.queue.name)} of=${row.queue.name} />`,
        },
      ]
    : []),
  {
    id: 'user',
    title: 'User',
    sort: 'channel_details.user',
    need: ['channel_details'],
    cell: (row) => html`<${UserName} name=${row.channel_details?.user} />`,
  },
  {
    id: 'peer',
    title: 'Client',
    sort: 'channel_details.peer_host',
    need: ['channel_details'],
    cell: (row) => (row.channel_details?.peer_host ? `${row.channel_details.peer_host}:${row.channel_details.peer_port}` : '–'),
  },
  {
    id: 'wait',
    title: 'Waits for',
    sort: 'wait.reason',
    need: ['wait', 'why', 'queue'],
    cell: (row) => html`<${WhyTag} finding=${ofConsumer(row)} />`,
  },
  {
    id: 'held',
    title: 'Unacked',
    num: true,
    sort: 'unacknowledged',
    need: ['unacknowledged'],
    cell: (row) => quiet(row.unacknowledged),
  },
  {
    id: 'prefetch',
    title: 'Prefetch',
    num: true,
    sort: 'prefetch_count',
    need: ['prefetch_count'],
    hint: '0: no limit',
    cell: (row) => quiet(row.prefetch_count),
  },
  {
    id: 'credit',
    title: 'Credit',
    num: true,
    sort: 'link_credit',
    need: ['link_credit'],
    hint: 'Link credit, of AMQP 1.0',
    cell: (row) =>
      row.link_credit === null || row.link_credit === undefined ? html`<span class="zero">–</span>` : quiet(row.link_credit),
  },
  {
    id: 'latency',
    title: 'Wait',
    num: true,
    need: ['latency_us'],
    hint: 'Half of its messages waited at most this long in the queue before they were delivered',
    cell: (row) => {
      const half = median(row.latency_us);
      return half === null ? html`<span class="zero">–</span>` : span(half);
    },
  },
  { id: 'delivered', title: 'Delivered', num: true, sort: 'delivered', need: ['delivered'], cell: (row) => quiet(row.delivered) },
  {
    id: 'mode',
    title: 'Mode',
    need: ['ack_required', 'exclusive', 'activity_status', 'priority'],
    cell: (row) =>
      html`<span class="tags">${!row.ack_required && html`<${Tag} title="Messages count as acknowledged when they are sent">no ack<//>`}${row.exclusive && html`<${Tag}>exclusive<//>`}${row.activity_status === 'single_active' && html`<${Tag} kind="accent">active<//>`}${row.activity_status === 'waiting' && html`<${Tag}>stands by<//>`}${row.priority ? html`<${Tag}>priority ${row.priority}<//>` : null}</span>`,
  },
];

export function Consumers() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'consumers',
    path: vhost ? path`consumers/${vhost}` : 'consumers',
    columns: consumerColumns(true),
    always: ['consumer_tag', 'channel_details', 'queue'],
    sort: 'consumer_tag',
  });
  return html`<div class="page fill">
    <${Head} title="Consumers" />
    <${Tools} list=${list} what="consumers" />
    <${Table} list=${list} label="Consumers" rowKey=${(row) => `${row.channel_details?.name || row.channel_details?.connection_name}\n${row.queue.vhost}\n${row.queue.name}\n${row.consumer_tag}`} empty="No client consumes." />
  </div>`;
}

// Clients of the stream protocol: connections, publishers, and consumers with what they are behind.
