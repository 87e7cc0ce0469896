// The list of virtual hosts, and the form that adds one.
import { html, useState } from '../lib.js';
import { path, put } from '../core/api.js';
import { count } from '../core/format.js';
import { poke } from '../core/live.js';
import { go, to } from '../core/router.js';
import { Head, Name, NameLink, Problem, Section, Tag, useAction } from '../parts/basics.js';
import { number, perSecond } from '../parts/columns.js';
import { Check, Select, Text } from '../parts/form.js';
import { Table, Tools, useList } from '../parts/table.js';

const TYPES = /** @type {[string, string][]} */ ([['classic', 'classic'], ['quorum', 'quorum'], ['stream', 'stream']]);

/**
 * Fields of a virtual host.
 * @param {{value: any, onChange: (value: any) => void}} properties
 */
export const VhostFields = ({ value, onChange }) => html`
  <${Text} label="Description" value=${value.description} onInput=${(description) => onChange({ ...value, description })} />
  <${Text} label="Tags" value=${value.tags} onInput=${(tags) => onChange({ ...value, tags })} hint="Separated by commas." />
  <${Select} label="Default queue type" value=${value.default_queue_type} onInput=${(type) => onChange({ ...value, default_queue_type: type })} options=${TYPES} hint="Of durable queues that are declared without a type." />
  <${Check} label="Protected" value=${value.protected_from_deletion} onInput=${(on) => onChange({ ...value, protected_from_deletion: on })} hint="It can't be deleted until this is taken back." />
  <${Check} label="Tracing" value=${value.tracing} onInput=${(on) => onChange({ ...value, tracing: on })} hint="A copy of each message goes to the exchange amq.rabbitmq.trace. It costs throughput." />`;

/** @param {any} value */
export const vhostBody = (value) => ({ ...value, tags: value.tags.split(',').map((tag) => tag.trim()).filter(Boolean).join(',') });

function Add() {
  const [name, setName] = useState('');
  const [value, setValue] = useState({ description: '', tags: '', default_queue_type: 'classic', protected_from_deletion: false, tracing: false });
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (await action.run(async () => { await put(path`vhosts/${name}`, vhostBody(value)); poke('vhosts'); })) go(to.vhost(name));
  };
  return html`<details class="fold"><summary>Add a virtual host</summary><form class="fold-body form" onSubmit=${submit}>
    <${Text} label="Name" value=${name} onInput=${setName} required hint="You get all permissions in it." />
    <${VhostFields} value=${value} onChange=${setValue} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add virtual host</button></div>
  </form></details>`;
}

const columns = /** @type {import('../parts/table.js').Column[]} */ ([
  { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name'], cell: (row) => html`<${NameLink} href=${to.vhost(row.name)} of=${row.name} />` },
  { id: 'description', title: 'Description', sort: 'description', need: ['description'], cell: (row) => html`<${Name} of=${row.description} empty="–" />` },
  { id: 'tags', title: 'Tags', need: ['tags', 'protected_from_deletion', 'tracing'], cell: (row) => html`<span class="tags">${row.protected_from_deletion && html`<${Tag} kind="accent">protected<//>`}${row.tracing && html`<${Tag} kind="warn">tracing<//>`}${(row.tags ?? []).map((tag) => html`<${Tag}>${tag}<//>`)}</span>` },
  { id: 'type', title: 'Default type', sort: 'default_queue_type', need: ['default_queue_type'], cell: (row) => row.default_queue_type },
  number('ready', 'Ready', 'messages_ready', { format: (value) => count(value ?? 0) }),
  number('unacked', 'Unacked', 'messages_unacknowledged', { format: (value) => count(value ?? 0) }),
  perSecond('in', 'In /s', 'message_stats.publish'),
  perSecond('out', 'Out /s', 'message_stats.deliver_get'),
]);

export default function Vhosts() {
  const list = useList({ id: 'vhosts', path: 'vhosts', columns, always: ['name'], sort: 'name' });
  return html`<div class="page">
    <${Head} title="Virtual hosts" />
    <${Tools} list=${list} what="virtual hosts" />
    <${Table} list=${list} label="Virtual hosts" rowKey=${(row) => row.name} short />
    <${Section} title="New"><${Add} /><//>
  </div>`;
}
