// The list of channels.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { ofConnection } from '../core/why.js';
import { Head, NameLink, Tag, UserName, WhyTag } from '../parts/basics.js';
import { number, perSecond, vhostColumn } from '../parts/columns.js';
import { Table, Tools, useList } from '../parts/table.js';

/** @param {boolean} [ofAll] @returns {import('../parts/table.js').Column[]} */
export const channelColumns = (ofAll = true) => [
  { id: 'name', title: 'Channel', fixed: true, sort: ofAll ? 'name' : 'number', need: ['name', 'number'], cell: (row) => html`<${NameLink} href=${to.channel(row.name)} of=${ofAll ? row.name : `Channel ${row.number}`} />` },
  ...(ofAll ? [...vhostColumn(), { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` }] : []),
  { id: 'mode', title: 'Mode', need: ['confirm', 'transactional'], cell: (row) => html`<span class="tags">${row.confirm && html`<${Tag}>confirms<//>`}${row.transactional && html`<${Tag}>transactions<//>`}</span>` },
  { id: 'waits', title: 'Waits for', need: ['wait', 'why', 'node', 'state'], cell: (row) => html`<${WhyTag} finding=${ofConnection(row)[0]} />` },
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

export default function Channels() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'channels', path: vhost ? path`vhosts/${vhost}/channels` : 'channels', columns: channelColumns(), always: ['name', 'vhost'], sort: 'name' });
  return html`<div class="page fill">
    <${Head} title="Channels" />
    <${Tools} list=${list} what="channels" />
    <${Table} list=${list} label="Channels" rowKey=${(row) => row.name} empty="No channel is open. Clients of AMQP 1.0 and streams have none." />
  </div>`;
}
