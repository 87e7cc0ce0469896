// Clients of the stream protocol, with how far consumers are behind, and super streams.
import { html, useState } from '../lib.js';
import { path, put, remove } from '../core/api.js';
import { count, several } from '../core/format.js';
import { poke } from '../core/live.js';
import { chosenVhost, link, route, to } from '../core/router.js';
import {
  ExchangeLink,
  Facts,
  Fold,
  Head,
  Name,
  NameLink,
  number,
  Outcome,
  QueueLink,
  quiet,
  Section,
  size,
  Tabs,
  Tag,
  useAction,
  UserName,
  useVhosts,
  usualVhost,
  vhostColumn,
} from '../parts/basics.js';
import { Destroy, objectOf, Pairs, QUEUE_ARGUMENTS, Select, Text } from '../parts/forms.js';
import { Table, Tools, useList } from '../parts/table.js';
import { whichAndSince } from './clients.js';

const connection = {
  id: 'connection',
  title: 'Connection',
  fixed: true,
  sort: 'connection_details.name',
  need: ['connection_details'],
  cell: (row) => html`<${NameLink} href=${to.connection(row.connection_details.name)} of=${row.connection_details.name} />`,
};
const stream = {
  id: 'stream',
  title: 'Stream',
  sort: 'queue.name',
  need: ['queue'],
  cell: (row) => html`<${QueueLink} vhost=${row.queue.vhost} name=${row.queue.name} />`,
};

/** @type {Record<string, () => import('../parts/table.js').Column[]>} */
const COLUMNS = {
  connections: () => [
    {
      id: 'name',
      title: 'Name',
      fixed: true,
      sort: 'name',
      need: ['name', 'user_provided_name'],
      cell: (row) => html`<${NameLink} href=${to.connection(row.name)} of=${row.user_provided_name ?? row.name} />`,
    },
    ...vhostColumn(),
    { id: 'user', title: 'User', sort: 'user', need: ['user'], cell: (row) => html`<${UserName} name=${row.user} />` },
    { id: 'state', title: 'State', sort: 'state', need: ['state'], cell: (row) => row.state },
    number('publishers', 'Publishers', 'publishers'),
    number('subscriptions', 'Consumers', 'subscriptions'),
    size('received', 'Received', 'recv_oct'),
    size('sent', 'Sent', 'send_oct'),
    ...whichAndSince(),
  ],
  publishers: () => [
    connection,
    { id: 'id', title: 'Id', num: true, sort: 'publisher_id', need: ['publisher_id'], cell: (row) => row.publisher_id },
    stream,
    {
      id: 'reference',
      title: 'Reference',
      sort: 'reference',
      need: ['reference'],
      cell: (row) => html`<${Name} of=${row.reference} empty="–" />`,
    },
    number('published', 'Published', 'published'),
    number('confirmed', 'Confirmed', 'confirmed'),
    number('errored', 'Errors', 'errored'),
  ],
  consumers: () => [
    connection,
    { id: 'id', title: 'Id', num: true, sort: 'subscription_id', need: ['subscription_id'], cell: (row) => row.subscription_id },
    stream,
    {
      id: 'lag',
      title: 'Behind',
      num: true,
      sort: 'offset_lag',
      need: ['offset_lag'],
      hint: 'Messages between what it has read and the end of the stream',
      cell: (row) => quiet(row.offset_lag),
    },
    { id: 'offset', title: 'Offset', num: true, sort: 'offset', need: ['offset'], cell: (row) => count(row.offset) },
    number('consumed', 'Consumed', 'consumed'),
    number('credits', 'Credits', 'credits'),
    {
      id: 'activity',
      title: 'Activity',
      sort: 'activity_status',
      need: ['activity_status'],
      cell: (row) =>
        html`<${Tag} kind=${row.activity_status === 'waiting' ? '' : 'accent'}>${row.activity_status.replace('_', ' ')}<//>`,
    },
    { id: 'name', title: 'Name', need: ['properties'], cell: (row) => html`<${Name} of=${row.properties?.name} empty="–" />` },
  ],
};

function List({ kind }) {
  const vhost = chosenVhost.value;
  const list = useList({
    id: `stream-${kind}`,
    path: `stream/${kind}` + (vhost && path`/${vhost}`),
    columns: COLUMNS[kind](),
    always: ['name', 'connection_details', 'publisher_id', 'subscription_id'],
    sort: kind === 'connections' ? 'name' : kind === 'consumers' ? 'offset_lag' : 'connection_details.name',
    reverse: kind === 'consumers',
  });
  return html`<${Tools} list=${list} what=${kind} /><${Table} list=${list} label=${`Stream ${kind}`} rowKey=${(row) => row.name ?? `${row.connection_details?.name}\n${row.publisher_id ?? row.subscription_id}`} empty="No client uses the stream protocol." />`;
}

export function StreamClients() {
  const kind = ['publishers', 'consumers'].includes(route.value.query.of) ? route.value.query.of : 'connections';
  return html`<div class="page fill">
    <${Head} title="Stream clients" />
    <${Tabs} label="Kinds" now=${kind} href=${(id) => link(['stream-clients'], { of: id === 'connections' ? '' : id })} tabs=${[
      ['connections', 'Connections'],
      ['publishers', 'Publishers'],
      ['consumers', 'Consumers'],
    ]} />
    <${List} kind=${kind} key=${kind} />
  </div>`;
}

// Super streams with their partitions.

function Add({ vhosts }) {
  const [vhost, setVhost] = useState(usualVhost(vhosts));
  const [name, setName] = useState('');
  const [way, setWay] = useState('count');
  const [partitions, setPartitions] = useState('3');
  const [keys, setKeys] = useState('');
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`stream/super-streams/${vhost}/${name}`, {
        ...(way === 'count' ? { partitions: Number(partitions) } : { 'binding-keys': keys }),
        arguments: objectOf(pairs),
      });
      poke('stream/super-streams');
    }, 'Created.');
  };
  return html`<${Fold} title="Add a super stream"><form class="form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Select} label="Partitions" value=${way} onInput=${setWay} options=${[
      ['count', 'numbered from 0'],
      ['keys', 'by binding keys'],
    ]} />
    ${way === 'count' ? html`<${Text} label="How many" type="number" min=${1} value=${partitions} onInput=${setPartitions} required />` : html`<${Text} label="Binding keys" value=${keys} onInput=${setKeys} required hint="Separated by commas; each is one partition." />`}
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS.stream.slice(0, 4).map(([key, ...rest]) => [key.slice(2), ...rest])} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add super stream</button></div>
  </form><//>`;
}

/** @returns {import('../parts/table.js').Column[]} */
const superColumns = () => [
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.name} />`,
  },
  ...vhostColumn(),
  { id: 'count', title: 'Partitions', num: true, sort: 'partition_count', cell: (row) => count(row.partition_count) },
  {
    id: 'partitions',
    title: 'Streams',
    cell: (row) =>
      row.partitions.map((partition, at) => html`${at > 0 && ', '}<${QueueLink} vhost=${row.vhost} name=${partition.name} />`),
  },
  {
    id: 'arguments',
    title: 'Arguments',
    off: true,
    cell: (row) => html`<span class="mono"><${Name} of=${JSON.stringify(row.arguments)} /></span>`,
  },
  {
    id: 'delete',
    title: '',
    cell: (row) =>
      html`<${Destroy} verb="Delete" kind="super stream" name=${row.name} small work=${async () => {
        await remove(path`stream/super-streams/${row.vhost}/${row.name}`);
        poke('stream/super-streams');
        poke('queues');
      }}><${Facts} rows=${[['Partitions', count(row.partition_count)]]} /><p>${several(row.partition_count, 'stream')} with all messages are deleted.</p><//>`,
  },
];

export function SuperStreams() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'super-streams',
    path: vhost ? path`stream/super-streams/${vhost}` : 'stream/super-streams',
    columns: superColumns(),
    whole: true,
    sort: 'name',
  });
  const vhosts = useVhosts();
  return html`<div class="page">
    <${Head} title="Super streams" />
    <${Tools} list=${list} what="super streams" />
    <${Table} list=${list} label="Super streams" short rowKey=${(row) => `${row.vhost}\n${row.name}`} empty="There is none." />
    ${vhosts && html`<${Section} title="New"><${Add} vhosts=${vhosts} /><//>`}
  </div>`;
}
