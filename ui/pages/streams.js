// Clients of the stream protocol: connections, publishers, and consumers with what they are behind.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { count } from '../core/format.js';
import { link, route, to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { Head, Name, NameLink, QueueLink, Tabs, Tag, UserName, When } from '../parts/basics.js';
import { number, quiet, size, vhostColumn } from '../parts/columns.js';
import { Table, Tools, useList } from '../parts/table.js';
import { Client } from './connections.js';

const connection = { id: 'connection', title: 'Connection', fixed: true, sort: 'connection_details.name', need: ['connection_details'], cell: (row) => html`<${NameLink} href=${to.connection(row.connection_details.name)} of=${row.connection_details.name} />` };
const stream = { id: 'stream', title: 'Stream', sort: 'queue.name', need: ['queue'], cell: (row) => html`<${QueueLink} vhost=${row.queue.vhost} name=${row.queue.name} />` };

/** @type {Record<string, () => import('../parts/table.js').Column[]>} */
const COLUMNS = {
  connections: () => [
    { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name', 'user_provided_name'], cell: (row) => html`<${NameLink} href=${to.connection(row.name)} of=${row.user_provided_name ?? row.name} />` },
    ...vhostColumn(),
    { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` },
    { id: 'state', title: 'State', sort: 'state', need: ['state'], cell: (row) => row.state },
    number('publishers', 'Publishers', 'publishers'),
    number('subscriptions', 'Consumers', 'subscriptions'),
    size('received', 'Received', 'recv_oct'),
    size('sent', 'Sent', 'send_oct'),
    { id: 'library', title: 'Library', need: ['client_properties'], cell: (row) => html`<${Client} of=${row} />` },
    { id: 'since', title: 'Connected', num: true, sort: 'connected_at', need: ['connected_at'], cell: (row) => html`<${When} at=${row.connected_at} />` },
  ],
  publishers: () => [
    connection, { id: 'id', title: 'Id', num: true, sort: 'publisher_id', need: ['publisher_id'], cell: (row) => row.publisher_id }, stream,
    { id: 'reference', title: 'Reference', sort: 'reference', need: ['reference'], cell: (row) => html`<${Name} of=${row.reference} empty="–" />` },
    number('published', 'Published', 'published'), number('confirmed', 'Confirmed', 'confirmed'), number('errored', 'Errors', 'errored'),
  ],
  consumers: () => [
    connection, { id: 'id', title: 'Id', num: true, sort: 'subscription_id', need: ['subscription_id'], cell: (row) => row.subscription_id }, stream,
    { id: 'lag', title: 'Behind', num: true, sort: 'offset_lag', need: ['offset_lag'], hint: 'Messages between what it has read and the end of the stream', cell: (row) => quiet(row.offset_lag) },
    { id: 'offset', title: 'Offset', num: true, sort: 'offset', need: ['offset'], cell: (row) => count(row.offset) },
    number('consumed', 'Consumed', 'consumed'), number('credits', 'Credits', 'credits'),
    { id: 'activity', title: 'Activity', sort: 'activity_status', need: ['activity_status'], cell: (row) => html`<${Tag} kind=${row.activity_status === 'waiting' ? '' : 'accent'}>${row.activity_status.replace('_', ' ')}<//>` },
    { id: 'name', title: 'Name', need: ['properties'], cell: (row) => html`<${Name} of=${row.properties?.name} empty="–" />` },
  ],
};

/** @param {{kind: string}} properties */
function List({ kind }) {
  const vhost = chosenVhost.value;
  const list = useList({ id: `stream-${kind}`, path: vhost ? path`stream/${kind}/${vhost}` : `stream/${kind}`, columns: COLUMNS[kind](), always: ['name', 'connection_details', 'publisher_id', 'subscription_id'], sort: kind === 'connections' ? 'name' : kind === 'consumers' ? 'offset_lag' : 'connection_details.name', reverse: kind === 'consumers' });
  return html`<${Tools} list=${list} what=${kind} /><${Table} list=${list} label=${`Stream ${kind}`} rowKey=${(row) => row.name ?? `${row.connection_details?.name}\n${row.publisher_id ?? row.subscription_id}`} empty="No client uses the stream protocol." />`;
}

export default function StreamClients() {
  const kind = ['publishers', 'consumers'].includes(route.value.query.of) ? route.value.query.of : 'connections';
  return html`<div class="page fill">
    <${Head} title="Stream clients" />
    <${Tabs} label="Kinds" now=${kind} href=${(id) => link(['stream-clients'], { of: id === 'connections' ? '' : id })} tabs=${[['connections', 'Connections'], ['publishers', 'Publishers'], ['consumers', 'Consumers']]} />
    <${List} kind=${kind} key=${kind} />
  </div>`;
}
