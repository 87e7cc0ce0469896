// The list of consumers of all queues.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { chosenVhost } from '../core/settings.js';
import { Head } from '../parts/basics.js';
import { Table, Tools, useList } from '../parts/table.js';
import { consumerColumns } from './queue.js';

export default function Consumers() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'consumers', path: vhost ? path`consumers/${vhost}` : 'consumers', columns: consumerColumns(true), always: ['consumer_tag', 'channel_details', 'queue'], sort: 'consumer_tag' });
  return html`<div class="page fill">
    <${Head} title="Consumers" />
    <${Tools} list=${list} what="consumers" />
    <${Table} list=${list} label="Consumers" rowKey=${(row) => `${row.channel_details?.name || row.channel_details?.connection_name}\n${row.queue.vhost}\n${row.queue.name}\n${row.consumer_tag}`} empty="No client consumes." />
  </div>`;
}
