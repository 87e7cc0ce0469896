// Traces of messages that are written to files of the node.
import { html, useState } from '../lib.js';
import { BASE, path, put, remove } from '../core/api.js';
import { bytes, count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { Await, Empty, Head, Name, Outcome, Section, useAction } from '../parts/basics.js';
import { Ask, Destroy } from '../parts/dialog.js';
import { Select, Text } from '../parts/form.js';
import { Table, useLocal } from '../parts/table.js';

/** @param {{vhosts: string[]}} properties */
function Start({ vhosts }) {
  const [vhost, setVhost] = useState(vhosts[0] ?? '/');
  const [name, setName] = useState('');
  const [format, setFormat] = useState('text');
  const [pattern, setPattern] = useState('#');
  const [most, setMost] = useState('1000');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`traces/${vhost}/${name}`, { format, pattern, ...(most ? { max_payload_bytes: Number(most) } : {}) });
      poke('traces');
      poke('trace-files');
    }, 'Started.');
  };
  return html`<form class="panel form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required hint="Also the name of the file." />
    <${Select} label="Format" value=${format} onInput=${setFormat} options=${[['text', 'text'], ['json', 'JSON, one object a line']]} />
    <${Text} label="Pattern" value=${pattern} onInput=${setPattern} required hint="# is everything, publish.EXCHANGE what is published there, deliver.QUEUE what leaves a queue." />
    <${Text} label="Bytes of each body" type="number" min=${0} value=${most} onInput=${setMost} hint="Longer bodies are cut." />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Start trace</button></div>
  </form>`;
}

export default function Traces() {
  const traces = useLive('traces');
  const files = useLive('trace-files');
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const running = useLocal('traces', Array.isArray(traces.body) ? traces.body : [], [
    { id: 'name', title: 'Name', sort: 'name', cell: (row) => html`<${Name} of=${row.name} />` },
    { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${Name} of=${row.vhost} />` },
    { id: 'pattern', title: 'Pattern', cell: (row) => html`<code><${Name} of=${row.pattern} /></code>` },
    { id: 'format', title: 'Format', cell: (row) => row.format },
    { id: 'most', title: 'Bytes of each body', num: true, cell: (row) => (row.max_payload_bytes === undefined ? 'all' : count(row.max_payload_bytes)) },
    { id: 'stop', title: '', cell: (row) => html`<${Ask} verb="Stop" small title=${`Stop the trace ${row.name}?`} work=${async () => { await remove(path`traces/${row.vhost}/${row.name}`); poke('traces'); }}><p>Its file stays.</p><//>` },
  ]);
  const kept = useLocal('trace-files', Array.isArray(files.body) ? files.body : [], [
    { id: 'name', title: 'File', sort: 'name', cell: (row) => html`<a href=${BASE + path`trace-files/${row.name}`} target="_blank" rel="noopener"><${Name} of=${row.name} /></a>` },
    { id: 'size', title: 'Size', num: true, sort: 'size', cell: (row) => bytes(row.size) },
    { id: 'delete', title: '', cell: (row) => html`<${Destroy} verb="Delete" kind="trace file" name=${row.name} small work=${async () => { await remove(path`trace-files/${row.name}`); poke('trace-files'); }}><p>${bytes(row.size)} are deleted.</p><//>` },
  ]);
  return html`<div class="page">
    <${Head} title="Traces" />
    <p class="muted">Copies of messages that are published to a virtual host and delivered from it, in a file. While a trace runs, each message costs more.</p>
    <${Section} title="Running"><${Await} live=${traces}>${(rows) => (rows.length ? html`<${Table} list=${running} label="Traces" short rowKey=${(row) => `${row.vhost}\n${row.name}`} />` : html`<${Empty}>No trace runs.<//>`)}<//><//>
    <${Section} title="Files"><${Await} live=${files}>${(rows) => (rows.length ? html`<${Table} list=${kept} label="Trace files" short rowKey=${(row) => row.name} />` : html`<${Empty}>There is no file.<//>`)}<//><//>
    <${Section} title="New">${Array.isArray(vhosts) && html`<${Start} vhosts=${vhosts.map(({ name }) => name)} />`}<//>
  </div>`;
}
