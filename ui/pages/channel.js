// One channel.
import { html } from '../lib.js';
import { path as encode } from '../core/api.js';
import { at, count, rate, time } from '../core/format.js';
import { useLive } from '../core/live.js';
import { link, to } from '../core/router.js';
import { ofConnection } from '../core/why.js';
import { Await, Facts, Head, Name, NameLink, Section, Tag, UserName, VhostName, Why } from '../parts/basics.js';
import { Chart, Period } from '../parts/chart.js';
import { Figures } from '../parts/figures.js';
import { Table, useLocal } from '../parts/table.js';
import { consumerColumns } from './queue.js';

/** @type {import('../parts/chart.js').Series[]} */
const RATES = [
  { key: 'message_stats.publish', label: 'In', colour: '--in', kind: 'rate', format: rate },
  { key: 'message_stats.confirm', label: 'Confirms', colour: '--total', kind: 'rate', format: rate },
  { key: 'message_stats.deliver_get', label: 'Out', colour: '--out', kind: 'rate', format: rate },
  { key: 'message_stats.ack', label: 'Acks', colour: '--acks', kind: 'rate', format: rate },
  { key: 'message_stats.redeliver', label: 'Redelivered', colour: '--again', kind: 'rate', format: rate },
];

/** @param {{path: string[]}} properties */
export default function Channel({ path }) {
  const name = path[1];
  const base = encode`channels/${name}`;
  const live = useLive(base);
  const consumers = useLocal('consumers', live.body?.consumer_details ?? [], consumerColumns(true));
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['channels'])}>Channels</a>`} aside=${html`<${Period} />`}
      tags=${live.body && html`${live.body.confirm && html`<${Tag}>confirms<//>`}${live.body.transactional && html`<${Tag}>transactions<//>`}`} />
    <${Await} live=${live} gone=${html`This channel is closed. <a href=${link(['channels'])}>See those that are open</a>`}>${(channel) => html`
      <${Why} findings=${ofConnection(channel)} />
      <${Figures} label="Messages" items=${[
        { label: 'Unacked', value: count(channel.messages_unacknowledged), dot: '--unacked' },
        { label: 'Unconfirmed', value: count(channel.messages_unconfirmed) },
        { label: 'Prefetch', value: channel.prefetch_count ? count(channel.prefetch_count) : 'no limit' },
        { label: 'Consumers', value: count(channel.consumer_count) },
        { label: 'In', value: rate(at(channel, 'message_stats.publish_details.rate') ?? 0), unit: '/s', dot: '--in' },
        { label: 'Out', value: rate(at(channel, 'message_stats.deliver_get_details.rate') ?? 0), unit: '/s', dot: '--out' },
      ]} />
      <div class="columns">
        <div class="panel"><${Chart} title="Messages per second" path=${base} body=${channel} series=${RATES} /></div>
        <${Section} title="Details"><div class="panel"><${Facts} rows=${[
          ['Connection', html`<${NameLink} href=${to.connection(channel.connection_details.name)} of=${channel.connection_details.name} />`],
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
