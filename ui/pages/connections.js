// The list of client connections.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { count, rate, time } from '../core/format.js';
import { to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { ofConnection } from '../core/why.js';
import { Head, Name, NameLink, Tag, UserName, When, WhyTag } from '../parts/basics.js';
import { number, quiet, size, vhostColumn } from '../parts/columns.js';
import { bytes } from '../core/format.js';
import { Table, Tools, useList } from '../parts/table.js';

/** @param {{of: any}} properties */
export const Client = ({ of }) => {
  const { product, version, platform } = of?.client_properties ?? of ?? {};
  const text = [product, version].filter((part) => typeof part === 'string').join(' ');
  return text ? html`<span title=${typeof platform === 'string' ? platform : ''}><${Name} of=${text} /></span>` : html`<span class="zero">–</span>`;
};

const perSecond = (id, title, field) => ({ id, title, num: true, sort: `${field}_details.rate`, need: [`${field}_details.rate`], cell: (row) => quiet(row[`${field}_details`]?.rate ?? 0, (value) => (value ? bytes(value) : rate(value))) });

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name', 'user_provided_name'], cell: (row) => html`<${NameLink} href=${to.connection(row.name)} of=${row.user_provided_name ?? row.name} />` },
  { id: 'peer', title: 'Client', sort: 'peer_host', need: ['peer_host', 'peer_port'], cell: (row) => `${row.peer_host}:${row.peer_port}` },
  ...vhostColumn(),
  { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` },
  { id: 'state', title: 'State', sort: 'state', need: ['state'], cell: (row) => (row.state === 'running' ? html`<span class="zero">running</span>` : html`<span class="warn">${row.state}</span>`) },
  { id: 'waits', title: 'Waits for', need: ['wait', 'why', 'node'], cell: (row) => html`<${WhyTag} finding=${ofConnection(row)[0]} />` },
  { id: 'protocol', title: 'Protocol', sort: 'protocol', need: ['protocol', 'ssl'], cell: (row) => html`${row.protocol} ${row.ssl && html`<${Tag}>TLS<//>`}` },
  number('channels', 'Channels', 'channels', { hint: 'Channels, or sessions of AMQP 1.0' }),
  perSecond('received', 'From client /s', 'recv_oct'),
  perSecond('sent', 'To client /s', 'send_oct'),
  { id: 'library', title: 'Library', need: ['client_properties'], cell: (row) => html`<${Client} of=${row} />` },
  { id: 'since', title: 'Connected', num: true, sort: 'connected_at', need: ['connected_at'], cell: (row) => html`<${When} at=${row.connected_at} />` },
  size('received-all', 'Received', 'recv_oct', { off: true }),
  size('sent-all', 'Sent', 'send_oct', { off: true }),
  size('queued', 'Unsent', 'queued_bytes', { off: true, hint: 'Bytes that wait for the client to read' }),
  number('timeout', 'Heartbeat', 'timeout', { off: true, format: (value) => (value ? `${count(value)} s` : 'none') }),
  { id: 'mechanism', title: 'Mechanism', sort: 'auth_mechanism', need: ['auth_mechanism'], off: true, cell: (row) => row.auth_mechanism },
  { id: 'address', title: 'Address', need: ['name'], off: true, cell: (row) => html`<${Name} of=${row.name} />` },
  { id: 'at', title: 'Connected at', sort: 'connected_at', need: ['connected_at'], off: true, cell: (row) => time(row.connected_at) },
];

export default function Connections() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'connections', path: vhost ? path`vhosts/${vhost}/connections` : 'connections', columns: columns(), always: ['name', 'vhost'], sort: 'name' });
  return html`<div class="page fill">
    <${Head} title="Connections" />
    <${Tools} list=${list} what="connections" />
    <${Table} list=${list} label="Connections" rowKey=${(row) => row.name} empty="No client is connected." />
  </div>`;
}
