// One connection with its channels, or its sessions and links.
import { html, useState } from '../lib.js';
import { path as encode, remove } from '../core/api.js';
import { bytes, count, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link } from '../core/router.js';
import { may, me } from '../core/session.js';
import { SHORT, level, ofConnection } from '../core/why.js';
import { Arguments, Await, Empty, Facts, Head, Name, QueueLink, Section, Tag, UserName, VhostName, Why } from '../parts/basics.js';
import { Chart, Period } from '../parts/chart.js';
import { quiet } from '../parts/columns.js';
import { Ask } from '../parts/dialog.js';
import { Figures } from '../parts/figures.js';
import { Text } from '../parts/form.js';
import { Table, useLocal } from '../parts/table.js';
import { channelColumns } from './channels.js';

/** @type {import('../parts/chart.js').Series[]} */
const BYTES = [
  { key: 'recv_oct', label: 'From client', colour: '--in', kind: 'rate', format: bytes },
  { key: 'send_oct', label: 'To client', colour: '--out', kind: 'rate', format: bytes },
];

function Channels({ name }) {
  const live = useLive(encode`connections/${name}/channels`);
  const list = useLocal('channels', Array.isArray(live.body) ? live.body : [], channelColumns(false));
  return html`<${Section} title="Channels"><${Await} live=${live}>${(rows) => (rows.length ? html`<${Table} list=${list} label="Channels" short rowKey=${(row) => row.name} />` : html`<${Empty}>It has opened no channel.<//>`)}<//><//>`;
}

/** @param {{wait: any}} properties */
const Wait = ({ wait }) => (wait ? html`<span class=${`why-tag ${level(wait.reason, wait.seconds)}`} title=${`Since ${time(wait.since)}`}>${SHORT[wait.reason] ?? wait.reason}</span>` : html`<span class="zero">–</span>`);

function Session({ session, vhost }) {
  const incoming = useLocal('incoming', session.incoming_links ?? [], [
    { id: 'name', title: 'Link', sort: 'link_name', cell: (row) => html`<${Name} of=${row.link_name} />` },
    { id: 'target', title: 'Publishes to', sort: 'target_address', cell: (row) => html`<${Name} of=${row.target_address} empty="(each message names it)" />` },
    { id: 'credit', title: 'Credit', num: true, sort: 'credit', cell: (row) => quiet(row.credit) },
    { id: 'unconfirmed', title: 'Unconfirmed', num: true, sort: 'unconfirmed_messages', cell: (row) => quiet(row.unconfirmed_messages) },
    { id: 'count', title: 'Deliveries', num: true, sort: 'delivery_count', cell: (row) => quiet(row.delivery_count) },
  ]);
  const outgoing = useLocal('outgoing', session.outgoing_links ?? [], [
    { id: 'name', title: 'Link', sort: 'link_name', cell: (row) => html`<${Name} of=${row.link_name} />` },
    { id: 'queue', title: 'Consumes from', sort: 'queue_name', cell: (row) => (row.queue_name ? html`<${QueueLink} vhost=${vhost} name=${row.queue_name} />` : html`<${Name} of=${row.source_address} />`) },
    { id: 'wait', title: 'Waits for', sort: 'wait.reason', cell: (row) => html`<${Wait} wait=${row.wait} />` },
    { id: 'credit', title: 'Credit', num: true, sort: 'credit', cell: (row) => quiet(row.credit) },
    { id: 'count', title: 'Deliveries', num: true, sort: 'delivery_count', cell: (row) => quiet(row.delivery_count) },
    { id: 'settled', title: 'Settled', cell: (row) => (row.send_settled ? 'when sent' : 'by the client') },
  ]);
  return html`<div class="panel stack">
    <h3>Session ${session.channel_number}</h3>
    <${Figures} label="Windows" items=${[
      { label: 'Incoming window', value: count(session.incoming_window) },
      { label: 'Client\'s window', value: count(session.remote_incoming_window), warn: session.remote_incoming_window === 0, title: 'Transfers that the client accepts now' },
      { label: 'Unsettled', value: count(session.outgoing_unsettled_deliveries) },
      { label: 'Waiting to be sent', value: count(session.pending_deliveries) },
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
    { id: 'stream', title: 'Stream', sort: 'queue.name', cell: (row) => html`<${QueueLink} vhost=${vhost} name=${row.queue.name} />` },
    { id: 'reference', title: 'Reference', sort: 'reference', cell: (row) => html`<${Name} of=${row.reference} empty="–" />` },
    { id: 'published', title: 'Published', num: true, sort: 'published', cell: (row) => quiet(row.published) },
    { id: 'confirmed', title: 'Confirmed', num: true, sort: 'confirmed', cell: (row) => quiet(row.confirmed) },
    { id: 'errored', title: 'Errors', num: true, sort: 'errored', cell: (row) => quiet(row.errored) },
  ]);
  const two = useLocal('subscriptions', consumers, [
    { id: 'id', title: 'Consumer', sort: 'subscription_id', cell: (row) => row.subscription_id },
    { id: 'stream', title: 'Stream', sort: 'queue.name', cell: (row) => html`<${QueueLink} vhost=${vhost} name=${row.queue.name} />` },
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
  return html`<${Ask} verb="Close" danger small title="Close this connection?" work=${async () => { await remove(encode`connections/${connection.name}`, reason ? { 'X-Reason': header() } : {}); poke('connections'); }} then=${() => go(link(['connections']))}>
    <p>${count(connection.channels)} channels or sessions end with it. What its consumers hold goes back to the queues. Most clients connect again by themselves.</p>
    <div class="form"><${Text} label="Reason" value=${reason} onInput=${setReason} hint="The client is told, and so is the log." /></div><//>`;
}

/** @param {{path: string[]}} properties */
export default function Connection({ path }) {
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
      <${Why} findings=${ofConnection(connection)} />
      <div class="columns">
        <div class="panel"><${Chart} title="Bytes per second" path=${base} body=${connection} series=${BYTES} /></div>
        <${Section} title="Details"><div class="panel"><${Facts} rows=${[
          ['Name', html`<${Name} of=${connection.name} />`],
          ['User', html`<${UserName} name=${connection.user} />`],
          ['Virtual host', html`<${VhostName} name=${connection.vhost} />`],
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
      ${isStream ? html`<${StreamParts} name=${name} vhost=${connection.vhost} />` : isOne ? html`<${Sessions} name=${name} vhost=${connection.vhost} />` : html`<${Channels} name=${name} />`}
      ${isOne && connection.message_stats && html`<${Section} title="Messages since it connected"><div class="panel"><${Facts} rows=${[['Published', count(connection.message_stats.publish)], ['Confirmed', count(connection.message_stats.confirm)], ['Delivered', count(connection.message_stats.deliver)], ['Acknowledged', count(connection.message_stats.ack)], ['Redelivered', count(connection.message_stats.redeliver)]]} /></div><//>`}
      <${Section} title="What the client says of itself"><div class="panel"><${Arguments} of=${connection.client_properties} none="nothing" /></div><//>`}<//>
  </div>`;
}

