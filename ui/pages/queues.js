// The list of queues and streams, and the form that declares one.
import { html, useState } from '../lib.js';
import { path, put } from '../core/api.js';
import { percent } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link, route, to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { ofQueue } from '../core/why.js';
import { Head, NameLink, Problem, Tag, WhyTag, useAction } from '../parts/basics.js';
import { number, perSecond, size, vhostColumn } from '../parts/columns.js';
import { Check, Pairs, Select, Text, objectOf } from '../parts/form.js';
import { QUEUE_ARGUMENTS } from '../parts/known.js';
import { Table, Tools, useList } from '../parts/table.js';

/** Labels of a queue's features. @param {{queue: any}} properties */
export function Features({ queue }) {
  const given = queue.arguments ?? {};
  return html`<span class="tags">
    ${queue.durable === false && html`<${Tag} title="Not durable: gone after a restart">transient<//>`}
    ${queue.auto_delete && html`<${Tag} title="Deleted when its last consumer ends">auto-delete<//>`}
    ${queue.exclusive && html`<${Tag} title="Belongs to one connection, and is deleted with it">exclusive<//>`}
    ${given['x-single-active-consumer'] && html`<${Tag} title="One consumer at a time gets messages">single active<//>`}
    ${given['x-max-priority'] && html`<${Tag} title=${`Priorities up to ${given['x-max-priority']}`}>priorities<//>`}
    ${given['x-dead-letter-exchange'] !== undefined && html`<${Tag} title=${`Dead letters go to exchange ${given['x-dead-letter-exchange'] || '(AMQP default)'}`}>dead letters<//>`}
    ${queue.policy && html`<${Tag} kind="accent" title="Policy">${queue.policy}<//>`}
    ${queue.operator_policy && html`<${Tag} kind="warn" title="Operator policy">${queue.operator_policy}<//>`}
  </span>`;
}

/** The most important finding of a row. @param {{queue: any}} properties */
function Waits({ queue }) {
  const findings = ofQueue(queue);
  if (queue.state === 'crashed' && !findings.length) return html`<span class="why-tag bad">stopped</span>`;
  const [first] = findings.filter((finding) => finding.level !== 'note').concat(findings);
  return first ? html`<${WhyTag} finding=${first} />` : html`<span class="zero">–</span>`;
}

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name', 'vhost'], cell: (row) => html`<${NameLink} href=${to.queue(row.vhost, row.name)} of=${row.name} />` },
  ...vhostColumn(),
  { id: 'type', title: 'Type', sort: 'type', need: ['type'], cell: (row) => row.type },
  { id: 'features', title: 'Features', need: ['durable', 'auto_delete', 'exclusive', 'arguments', 'policy', 'operator_policy'], cell: (row) => html`<${Features} queue=${row} />` },
  { id: 'waits', title: 'Waits for', need: ['why', 'waits', 'state', 'messages_ready', 'messages_unacknowledged', 'parked', 'node'], hint: 'The most important reason; open the queue for the sentence', cell: (row) => html`<${Waits} queue=${row} />` },
  number('ready', 'Ready', 'messages_ready'),
  number('unacked', 'Unacked', 'messages_unacknowledged', { hint: 'Delivered and not acknowledged yet' }),
  number('total', 'Total', 'messages'),
  perSecond('in', 'In /s', 'message_stats.publish'),
  perSecond('out', 'Out /s', 'message_stats.deliver_get'),
  perSecond('ack', 'Ack /s', 'message_stats.ack'),
  number('consumers', 'Consumers', 'consumers'),
  perSecond('redeliver', 'Redelivered /s', 'message_stats.redeliver', { off: true }),
  number('capacity', 'Capacity', 'consumer_capacity', { format: percent, off: true, hint: 'The share of consumers that could take a message now' }),
  size('bytes', 'Bytes', 'message_bytes', { off: true }),
  size('memory', 'Memory', 'memory', { off: true }),
  number('persistent', 'Persistent', 'messages_persistent', { off: true }),
  number('in-memory', 'In memory', 'messages_ram', { off: true, hint: 'Messages whose bodies are in memory' }),
  number('parked', 'Parked', 'parked', { off: true, hint: 'Kept aside at their delivery limit' }),
  number('delayed', 'Delayed', 'messages_delayed', { off: true }),
  { id: 'state', title: 'State', sort: 'state', need: ['state'], off: true, cell: (row) => row.state },
  { id: 'durability', title: 'Durability', need: ['durability'], off: true, hint: 'When publishes are confirmed', cell: (row) => row.durability },
];

/** The form that declares a queue. @param {{vhosts: string[]}} properties */
function Declare({ vhosts }) {
  const [vhost, setVhost] = useState(chosenVhost.value || vhosts[0] || '/');
  const [type, setType] = useState('classic');
  const [name, setName] = useState('');
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    const declared = await action.run(() =>
      put(path`queues/${vhost}/${name}`, { durable: type !== 'classic' || durable, auto_delete: type === 'classic' && autoDelete, arguments: { ...objectOf(pairs), 'x-queue-type': type } }),
    );
    if (declared) {
      poke('queues');
      go(to.queue(vhost, name));
    }
  };
  return html`<form class="form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Select} label="Type" value=${type} onInput=${setType} options=${[['classic', 'Classic'], ['quorum', 'Quorum'], ['stream', 'Stream']]}
      hint=${{ classic: 'A queue of one node. What is confirmed is on the disk.', quorum: 'Counts deliveries on disk, keeps messages at their delivery limit aside, and can delay them.', stream: 'Keeps its messages; consumers read it from where they want, as often as they want.' }[type]} />
    <${Text} label="Name" value=${name} onInput=${setName} required />
    ${type === 'classic' && html`<${Check} label="Durable" value=${durable} onInput=${setDurable} hint="It survives a restart." />
    <${Check} label="Auto-delete" value=${autoDelete} onInput=${setAutoDelete} hint="It is deleted when its last consumer ends." />`}
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS[type]} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Declare queue</button></div>
  </form>`;
}

export default function Queues() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'queues', path: vhost ? path`queues/${vhost}` : 'queues', columns: columns(), always: ['name', 'vhost'], sort: 'name' });
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const names = Array.isArray(vhosts) ? vhosts.map(({ name }) => name) : [];
  if (route.value.query.new) {
    return html`<div class="page"><${Head} title="Declare a queue" above=${html`<a href=${link(['queues'])}>Queues</a>`} /><div class="panel">${names.length ? html`<${Declare} vhosts=${names} />` : null}</div></div>`;
  }
  return html`<div class="page fill">
    <${Head} title="Queues and streams" aside=${html`<a href=${link(['queues'], { new: 1 })}>Declare a queue</a>`} />
    <${Tools} list=${list} what="queues" />
    <${Table} list=${list} label="Queues" rowKey=${(row) => `${row.vhost}\n${row.name}`} empty=${html`There is no queue yet. <a href=${link(['queues'], { new: 1 })}>Declare one</a>, or let a client do it.`} />
  </div>`;
}

