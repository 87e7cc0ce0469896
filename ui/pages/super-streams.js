// Super streams with their partitions.
import { html, useState } from '../lib.js';
import { path, put, remove } from '../core/api.js';
import { count, several } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { chosenVhost } from '../core/settings.js';
import { ExchangeLink, Facts, Head, Name, Outcome, QueueLink, Section, useAction } from '../parts/basics.js';
import { vhostColumn } from '../parts/columns.js';
import { Destroy } from '../parts/dialog.js';
import { Pairs, Select, Text, objectOf } from '../parts/form.js';
import { QUEUE_ARGUMENTS } from '../parts/known.js';
import { Table, Tools, useList } from '../parts/table.js';

/** @param {{vhosts: string[]}} properties */
function Add({ vhosts }) {
  const [vhost, setVhost] = useState(chosenVhost.value || vhosts[0] || '/');
  const [name, setName] = useState('');
  const [way, setWay] = useState('count');
  const [partitions, setPartitions] = useState('3');
  const [keys, setKeys] = useState('');
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`stream/super-streams/${vhost}/${name}`, { ...(way === 'count' ? { partitions: Number(partitions) } : { 'binding-keys': keys }), arguments: objectOf(pairs) });
      poke('stream/super-streams');
    }, 'Created.');
  };
  return html`<details class="fold"><summary>Add a super stream</summary><form class="fold-body form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Select} label="Partitions" value=${way} onInput=${setWay} options=${[['count', 'numbered from 0'], ['keys', 'by binding keys']]} />
    ${way === 'count' ? html`<${Text} label="How many" type="number" min=${1} value=${partitions} onInput=${setPartitions} required />` : html`<${Text} label="Binding keys" value=${keys} onInput=${setKeys} required hint="Separated by commas; each is one partition." />`}
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS.stream.slice(0, 4).map(([key, ...rest]) => [key.slice(2), ...rest])} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add super stream</button></div>
  </form></details>`;
}

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  { id: 'name', title: 'Name', fixed: true, sort: 'name', cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.name} />` },
  ...vhostColumn(),
  { id: 'count', title: 'Partitions', num: true, sort: 'partition_count', cell: (row) => count(row.partition_count) },
  { id: 'partitions', title: 'Streams', cell: (row) => row.partitions.map((partition, at) => html`${at > 0 && ', '}<${QueueLink} vhost=${row.vhost} name=${partition.name} />`) },
  { id: 'arguments', title: 'Arguments', off: true, cell: (row) => html`<span class="mono"><${Name} of=${JSON.stringify(row.arguments)} /></span>` },
  { id: 'delete', title: '', cell: (row) => html`<${Destroy} verb="Delete" kind="super stream" name=${row.name} small work=${async () => { await remove(path`stream/super-streams/${row.vhost}/${row.name}`); poke('stream/super-streams'); poke('queues'); }}><${Facts} rows=${[['Partitions', count(row.partition_count)]]} /><p>${several(row.partition_count, 'stream')} with all messages are deleted.</p><//>` },
];

export default function SuperStreams() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'super-streams', path: vhost ? path`stream/super-streams/${vhost}` : 'stream/super-streams', columns: columns(), whole: true, sort: 'name' });
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  return html`<div class="page">
    <${Head} title="Super streams" />
    <${Tools} list=${list} what="super streams" />
    <${Table} list=${list} label="Super streams" short rowKey=${(row) => `${row.vhost}\n${row.name}`} empty="There is none." />
    ${Array.isArray(vhosts) && html`<${Section} title="New"><${Add} vhosts=${vhosts.map(({ name }) => name)} /><//>`}
  </div>`;
}
