// Queues and streams: the list, the form that declares one, and the page of one.
import { html, useState } from '../lib.js';
import { path, path as encode, post, put, query, remove } from '../core/api.js';
import { at, bytes, count, percent, plain, rate, several, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { chosenVhost, go, link, route, to } from '../core/router.js';
import { findingsOf } from '../core/why.js';
import { Bind, BindingTable, GraphLink } from './exchanges.js';
import { Aside, Live, Messages } from './messages.js';
import { Transfers } from './transfers.js';
import {
  Arguments,
  Await,
  Empty,
  Facts,
  Figures,
  Fold,
  Head,
  Help,
  Name,
  NameLink,
  number,
  Outcome,
  perSecond,
  Problem,
  Section,
  size,
  Tabs,
  Tag,
  useAction,
  useVhosts,
  usualVhost,
  vhostColumn,
  nodeColumn,
  NodeName,
  VhostName,
  Why,
  WhyTag,
} from '../parts/basics.js';
import { consumerColumns } from './clients.js';
import { Chart, Period, lengths, rates } from '../parts/chart.js';
import { Check, Destroy, objectOf, Pairs, pairsOf, QUEUE_ARGUMENTS, Select, Text } from '../parts/forms.js';
import { Table, Tools, useList, useLocal } from '../parts/table.js';

/** Labels of a queue's features. */
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

/** The most important finding of a row. */
function Waits({ queue }) {
  const findings = findingsOf(queue);
  if (queue.state === 'crashed' && !findings.length) return html`<span class="why-tag bad">stopped</span>`;
  const [first] = findings.filter((finding) => finding.level !== 'note').concat(findings);
  return first ? html`<${WhyTag} finding=${first} />` : html`<span class="zero">–</span>`;
}

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    need: ['name', 'vhost'],
    cell: (row) => html`<${NameLink} href=${to.queue(row.vhost, row.name)} of=${row.name} />`,
  },
  ...vhostColumn(),
  ...nodeColumn(),
  { id: 'type', title: 'Type', slack: true, sort: 'type', need: ['type'], cell: (row) => row.type },
  {
    id: 'features',
    title: 'Features',
    slack: true,
    need: ['durable', 'auto_delete', 'exclusive', 'arguments', 'policy', 'operator_policy'],
    cell: (row) => html`<${Features} queue=${row} />`,
  },
  {
    id: 'waits',
    title: 'Waits for',
    need: ['why', 'state', 'node'],
    hint: 'The most important reason; open the queue for the sentence',
    cell: (row) => html`<${Waits} queue=${row} />`,
  },
  number('ready', 'Ready', 'messages_ready'),
  number('unacked', 'Unacked', 'messages_unacknowledged', { hint: 'Delivered and not acknowledged yet' }),
  number('total', 'Total', 'messages'),
  perSecond('in', 'In /s', 'message_stats.publish'),
  perSecond('out', 'Out /s', 'message_stats.deliver_get'),
  perSecond('ack', 'Ack /s', 'message_stats.ack'),
  number('consumers', 'Consumers', 'consumers'),
  perSecond('redeliver', 'Redelivered /s', 'message_stats.redeliver', { off: true }),
  number('capacity', 'Capacity', 'consumer_capacity', {
    format: percent,
    off: true,
    hint: 'The share of consumers that could take a message now',
  }),
  size('bytes', 'Bytes', 'message_bytes', { off: true }),
  size('memory', 'Memory', 'memory', { off: true }),
  number('persistent', 'Persistent', 'messages_persistent', { off: true }),
  number('in-memory', 'In memory', 'messages_ram', { off: true, hint: 'Messages whose bodies are in memory' }),
  number('parked', 'Parked', 'parked', { off: true, hint: 'Kept aside at their delivery limit' }),
  number('delayed', 'Delayed', 'messages_delayed', { off: true }),
  { id: 'state', title: 'State', sort: 'state', need: ['state'], off: true, cell: (row) => row.state },
  {
    id: 'durability',
    title: 'Durability',
    need: ['durability'],
    off: true,
    hint: 'When publishes are confirmed',
    cell: (row) => row.durability,
  },
];

/** The form that declares a queue. */
function Declare({ vhosts }) {
  const [vhost, setVhost] = useState(usualVhost(vhosts));
  const [type, setType] = useState('classic');
  const [name, setName] = useState('');
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    const declared = await action.run(() =>
      put(path`queues/${vhost}/${name}`, {
        durable: type !== 'classic' || durable,
        auto_delete: type === 'classic' && autoDelete,
        arguments: { ...objectOf(pairs), 'x-queue-type': type },
      }),
    );
    if (declared) {
      poke('queues');
      go(to.queue(vhost, name));
    }
  };
  return html`<form class="form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Select} label="Type" value=${type} onInput=${setType} options=${[
      ['classic', 'Classic'],
      ['quorum', 'Quorum'],
      ['stream', 'Stream'],
    ]}
      hint=${{ classic: 'A queue of one node. What is confirmed is on the disk.', quorum: 'Counts deliveries on disk, keeps messages at their delivery limit aside, and can delay them.', stream: 'Keeps its messages; consumers read it from where they want, as often as they want.' }[type]} />
    <${Text} label="Name" value=${name} onInput=${setName} required />
    ${
      type === 'classic' &&
      html`<${Check} label="Durable" value=${durable} onInput=${setDurable} hint="It survives a restart." />
    <${Check} label="Auto-delete" value=${autoDelete} onInput=${setAutoDelete} hint="It is deleted when its last consumer ends." />`
    }
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS[type]} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Declare queue</button></div>
  </form>`;
}

export function Queues() {
  const vhost = chosenVhost.value;
  const list = useList({
    id: 'queues',
    path: vhost ? path`queues/${vhost}` : 'queues',
    columns: columns(),
    always: ['name', 'vhost'],
    sort: 'name',
  });
  const vhosts = useVhosts();
  if (route.value.query.new) {
    return html`<div class="page"><${Head} title="Declare a queue" above=${html`<a href=${link(['queues'])}>Queues</a>`} /><div class="panel">${vhosts && html`<${Declare} vhosts=${vhosts} />`}</div></div>`;
  }
  return html`<div class="page fill">
    <${Head} title="Queues and streams" aside=${html`<a href=${link(['queues'], { new: 1 })}>Declare a queue</a>`} />
    <${Tools} list=${list} what="queues" />
    <${Table} list=${list} label="Queues" rowKey=${(row) => `${row.vhost}\n${row.name}`} empty=${html`There is no queue yet. <a href=${link(['queues'], { new: 1 })}>Declare one</a>, or let a client do it.`} />
  </div>`;
}

// One queue or stream.

function Consumers({ queue }) {
  const list = useLocal('consumers', queue.consumer_details ?? [], consumerColumns());
  return html`<${Section} title="Consumers" aside=${html`<span class="muted">${count(queue.consumers)}</span>`}>
    ${queue.consumers > 0 ? html`<${Table} list=${list} label="Consumers" short rowKey=${(row) => `${row.channel_details?.name}\n${row.consumer_tag}`} />` : html`<p class="empty">No client consumes from it.</p>`}
  <//>`;
}

function Details({ queue }) {
  const kept = queue.conservation;
  return html`<div class="columns">
    <${Section} title="Details"><div class="panel"><${Facts} rows=${[
      ['Virtual host', html`<${VhostName} name=${queue.vhost} />`],
      ['Type', queue.type],
      ['State', queue.state],
      [
        html`Confirmed when<${Help} word="Confirm" />`,
        { synced: 'flushed to the disk', os: 'written to the operating system', memory: 'in memory' }[queue.durability] ??
          queue.durability,
      ],
      ['Node', queue.node && html`<${NodeName} name=${queue.node} />`],
      [
        'Members',
        queue.members?.length > 0 && queue.members.map((name, at) => html`${at > 0 && ', '}<${NodeName} name=${name} />`),
      ],
      ['Policy', queue.policy && html`<a href=${to.policy(queue.vhost, queue.policy)}><${Name} of=${queue.policy} /></a>`],
      [
        'Operator policy',
        queue.operator_policy &&
          html`<a href=${to.operatorPolicy(queue.vhost, queue.operator_policy)}><${Name} of=${queue.operator_policy} /></a>`,
      ],
      [
        html`Consumer capacity<${Help} word="Capacity" />`,
        queue.consumers > 0 && queue.consumer_capacity !== undefined && percent(queue.consumer_capacity),
      ],
      [
        html`Single active consumer<${Help} word="Single active consumer" />`,
        queue.single_active_consumer_tag && html`<${Name} of=${queue.single_active_consumer_tag} />`,
      ],
      ['Exclusive consumer', queue.exclusive_consumer_tag && html`<${Name} of=${queue.exclusive_consumer_tag} />`],
      ['Delivery limit', queue.delivery_limit !== undefined && String(queue.delivery_limit)],
      ['Delayed retry', queue.delayed_retry],
      ['Idle since', queue.idle_since && time(queue.idle_since)],
      [
        'Oldest message',
        queue.head_message_timestamp
          ? time(queue.head_message_timestamp * 1000)
          : queue.first_timestamp
            ? time(queue.first_timestamp)
            : null,
      ],
      ['Offsets', queue.next_offset !== undefined && `${count(queue.first_offset)} to ${count(queue.next_offset - 1)}`],
      ['Segments', queue.segments !== undefined && count(queue.segments)],
      ['Refused publishes', queue.refused > 0 && count(queue.refused)],
    ]} /></div><//>
    <${Section} title="Size"><div class="panel"><${Facts} rows=${[
      ['Bodies', queue.message_bytes !== undefined && bytes(queue.message_bytes)],
      ['of them ready', queue.message_bytes_ready !== undefined && bytes(queue.message_bytes_ready)],
      ['of them unacknowledged', queue.message_bytes_unacknowledged !== undefined && bytes(queue.message_bytes_unacknowledged)],
      ['Chunks', queue.chunk_bytes !== undefined && bytes(queue.chunk_bytes)],
      ['Persistent messages', queue.messages_persistent !== undefined && count(queue.messages_persistent)],
      ['Bodies in memory', queue.messages_ram !== undefined && count(queue.messages_ram)],
      ['Memory', bytes(queue.memory)],
      [
        'By priority',
        queue.messages_by_priority &&
          Object.entries(queue.messages_by_priority)
            .map(([level, n]) => `${level}: ${typeof n === 'object' ? JSON.stringify(n) : count(n)}`)
            .join(', '),
      ],
    ]} /></div><//>
    ${
      kept &&
      queue.type !== 'stream' &&
      html`<${Section} title="Where its messages went"><div class="panel"><${Facts} rows=${[
        ['Accepted', count(kept.accepted)],
        ['Acknowledged', count(kept.settled)],
        [html`Dead-lettered<${Help} word="Dead letter" />`, count(kept.dead_lettered)],
        ['Expired', count(kept.expired)],
        ['Dropped at the limit', count(kept.dropped)],
        ['Purged', count(kept.purged)],
        [html`Kept aside<${Help} word="Parked" />`, count(kept.parked)],
        ['Here now', count(kept.remaining)],
      ]} /></div><//>`
    }
  </div>`;
}

function Overview({ queue, base }) {
  const isStream = queue.type === 'stream';
  const past = encode`history/queues/${queue.vhost}/${queue.name}`;
  return html`
    <${Figures} label="Messages" items=${[
      { label: 'Ready', value: count(queue.messages_ready), dot: '--ready' },
      !isStream && { label: 'Unacked', value: count(queue.messages_unacknowledged), dot: '--unacked' },
      { label: 'Total', value: count(queue.messages), dot: '--total' },
      { label: 'In', value: rate(at(queue, 'message_stats.publish_details.rate') ?? 0), unit: '/s', dot: '--in' },
      { label: 'Out', value: rate(at(queue, 'message_stats.deliver_get_details.rate') ?? 0), unit: '/s', dot: '--out' },
      { label: 'Acks', value: rate(at(queue, 'message_stats.ack_details.rate') ?? 0), unit: '/s', dot: '--acks' },
      { label: 'Consumers', value: count(queue.consumers) },
      queue.parked > 0 && {
        label: 'Parked',
        value: count(queue.parked),
        warn: true,
        href: to.queue(queue.vhost, queue.name, { tab: 'parked' }),
      },
      queue.messages_delayed > 0 && {
        label: 'Delayed',
        value: count(queue.messages_delayed),
        href: to.queue(queue.vhost, queue.name, { tab: 'delayed' }),
      },
    ]} />
    <div class="columns">
      <div class="panel"><${Chart} title="Messages" path=${base} past=${past} of="queue" body=${queue} series=${isStream ? lengths().slice(0, 1) : lengths()} /></div>
      <div class="panel"><${Chart} title="Messages per second" path=${base} past=${past} of="queue" body=${queue} series=${rates('publish', 'deliver_get', 'ack', 'redeliver')} /></div>
    </div>
    <${Consumers} queue=${queue} />
    <${Details} queue=${queue} />`;
}

function Actions({ queue, base }) {
  const counts = html`<${Facts} rows=${[
    ['Ready messages', count(queue.messages_ready)],
    ['Unacknowledged', count(queue.messages_unacknowledged)],
    ['Kept aside', queue.parked > 0 && count(queue.parked)],
    ['Delayed', queue.messages_delayed > 0 && count(queue.messages_delayed)],
    ['Consumers', count(queue.consumers)],
  ]} />`;
  return html`${
    queue.type !== 'stream' &&
    html`<${Destroy} verb="Purge" kind="queue" name=${queue.name} small work=${async () => {
      await remove(`${base}/contents`);
      poke('queues');
    }}>${counts}<p>All ready messages are deleted. Those that consumers hold stay with them.</p><//>`
  }
    <${Destroy} verb="Delete" kind=${queue.type === 'stream' ? 'stream' : 'queue'} name=${queue.name} small work=${async () => {
      await remove(base);
      poke('queues');
    }} then=${() => go(link(['queues']))}>${counts}<p>The queue, its messages and its bindings are deleted. ${queue.consumers > 0 ? `${several(queue.consumers, 'consumer')} will be cancelled.` : ''}</p><//>`;
}

export function Queue({ path }) {
  const [, vhost, name] = path;
  const base = encode`queues/${vhost}/${name}`;
  const live = useLive(base);
  const queue = live.body;
  const bindings = useLive(`${base}/bindings${query({ page: 1, page_size: 1, pagination: 'true', columns: 'source' })}`).body;
  const tab = route.value.query.tab ?? 'overview';
  const href = (id) => to.queue(vhost, name, id === 'overview' ? {} : { tab: id });
  const type = queue?.type;
  const tabs = /** @type {[string, any, any?][]} */ ([
    ['overview', 'Overview'],
    ['messages', 'Messages'],
    ...(queue?.parked > 0 || tab === 'parked' ? [['parked', 'Parked', count(queue?.parked)]] : []),
    ...(queue?.messages_delayed > 0 || tab === 'delayed' ? [['delayed', 'Delayed', count(queue?.messages_delayed)]] : []),
    ['live', 'Live'],
    ['bindings', 'Bindings', bindings?.total_count],
    ...(type === 'stream' ? [['tracking', 'Offsets']] : []),
    ['settings', 'Arguments and policies'],
  ]);
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['queues'])}>Queues</a> in <${VhostName} name=${vhost} />`}
      tags=${queue && html`<${Tag} kind="accent">${type}<//><${Features} queue=${queue} />`} aside=${queue && html`<${Actions} queue=${queue} base=${base} />`} />
    <${Await} live=${live} gone=${html`There is no such queue${vhost ? html` in <b><${Name} of=${vhost} /></b>` : ''}. It may have been deleted. <a href=${link(['queues'], { name })}>Look for queues with a similar name</a>`}>${() => html`
      <${Why} findings=${findingsOf(queue)} />
      <div class="section-head"><${Tabs} tabs=${tabs} now=${tab} href=${href} label="Parts of this queue" />${tab === 'overview' && html`<${Period} of="queue" />`}</div>
      ${
        tab === 'messages'
          ? html`<${Messages} queue=${queue} base=${base} /><${Transfers} queue=${queue} base=${base} />`
          : tab === 'live'
            ? html`<${Live} key=${base} where=${base} vhost=${vhost} queue=${name}>Messages as they are put into the queue and delivered from it. It costs nothing while nobody looks.<//>`
            : tab === 'parked' || tab === 'delayed'
              ? html`<${Aside} queue=${queue} base=${base} which=${tab} key=${tab} />`
              : tab === 'bindings'
                ? html`<${Section} title="Bindings to this queue" aside=${html`<${GraphLink} vhost=${vhost} kind="q" name=${name} />`}><${BindingTable} where=${`${base}/bindings`} side="source" vhost=${vhost} none="No exchange leads to it." /><//>
            <${Section} title="Bind it to an exchange"><div class="panel"><${Bind} vhost=${vhost} destination=${name} kind="q" /></div><//>`
                : tab === 'tracking' && type === 'stream'
                  ? html`<${Tracking} queue=${queue} />`
                  : tab === 'settings'
                    ? html`<${Settings} queue=${queue} base=${base} />`
                    : html`<${Overview} queue=${queue} base=${base} />`
      }`}<//>
  </div>`;
}

// Arguments that take effect and where each comes from, the policies that match, and conversion.

const SOURCES = { argument: 'declaration', declaration: 'declaration', policy: 'policy', operator_policy: 'operator policy' };

function Effective({ queue }) {
  const rows = Object.entries(queue.effective_arguments ?? {});
  if (!rows.length) return html`<${Empty}>Neither its declaration nor a policy sets anything.<//>`;
  const source = (name) =>
    name === 'policy' && queue.policy
      ? html`<a href=${to.policy(queue.vhost, queue.policy)}>policy <${Name} of=${queue.policy} /></a>`
      : name === 'operator_policy' && queue.operator_policy
        ? html`<a href=${to.operatorPolicy(queue.vhost, queue.operator_policy)}>operator policy <${Name} of=${queue.operator_policy} /></a>`
        : (SOURCES[name] ?? name);
  return html`<div class="table-box plain-table"><table><thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">Comes from</th></tr></thead>
    <tbody>${rows.map(([key, { value, source: from }]) => html`<tr key=${key}><td><code>${key}</code></td><td><${Name} of=${plain(value)} /></td><td>${source(from)}</td></tr>`)}</tbody></table></div>`;
}

function Matching({ queue }) {
  const user = useLive(path`policies/${queue.vhost}` + query({ queue: queue.name })).body;
  const operator = useLive(path`operator-policies/${queue.vhost}` + query({ queue: queue.name })).body;
  const list = (policies, href) =>
    Array.isArray(policies) && policies.length
      ? html`<ol>${policies.map((policy, at) => html`<li key=${policy.name}><${NameLink} href=${href(policy.vhost, policy.name)} of=${policy.name} /> <span class="muted">priority ${count(policy.priority)}, pattern <code><${Name} of=${policy.pattern} empty="(every name)" /></code></span> ${at === 0 ? html`<${Tag} kind="accent">applies<//>` : html`<span class="faint">a policy above it wins</span>`}</li>`)}</ol>`
      : html`<p class="faint">None matches.</p>`;
  return html`<div class="panel stack"><div><h3>Policies</h3>${list(user, to.policy)}</div><div><h3>Operator policies</h3>${list(operator, to.operatorPolicy)}</div></div>`;
}

function Convert({ queue, base }) {
  const [type, setType] = useState(queue.type === 'quorum' ? 'quorum' : queue.type);
  const [pairs, setPairs] = useState(() => pairsOf(queue.arguments).filter(({ key }) => key !== 'x-queue-type'));
  const action = useAction();
  const ask = (dry) => {
    action.run(
      async () => {
        const answer = await post(`${base}/convert${dry ? '?dry_run=true' : ''}`, {
          type,
          arguments: { ...objectOf(pairs), 'x-queue-type': type },
        });
        poke('queues');
        return answer;
      },
      () =>
        dry
          ? `It can be converted. Its ${count(queue.consumers)} consumers will be cancelled; messages and bindings stay.`
          : 'Converted.',
    );
  };
  return html`<${Fold} title="Convert to another type or other arguments"><form class="form" onSubmit=${(event) => {
    event.preventDefault();
    ask(false);
  }}>
    <p class="muted">Its name, bindings and messages stay, in one step on the disk. Its consumers are cancelled.</p>
    <${Select} label="Type" value=${type} onInput=${setType} options=${[
      ['classic', 'Classic'],
      ['quorum', 'Quorum'],
    ]} />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS[type]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="button" disabled=${action.busy} onClick=${() => ask(true)}>Check only</button><button type="submit" class="primary" disabled=${action.busy}>Convert queue</button></div>
  </form><//>`;
}

export const Settings = ({ queue, base }) => html`
  <div class="columns">
    <${Section} title="What takes effect"><${Effective} queue=${queue} /><//>
    <${Section} title="Policies that match"><${Matching} queue=${queue} /><//>
  </div>
  <${Section} title="Declared arguments"><div class="panel"><${Arguments} of=${queue.arguments} none="none" /></div><//>
  ${queue.type !== 'stream' && !queue.exclusive && html`<${Convert} queue=${queue} base=${base} />`}`;

// Offsets of consumers and sequences of publishers that a stream keeps.

export function Tracking({ queue }) {
  const live = useLive(path`stream/${queue.vhost}/${queue.name}/tracking`);
  const table = (rows, head) =>
    html`<div class="table-box plain-table"><table><thead><tr>${head.map(([title, kind]) => html`<th scope="col" class=${kind}>${title}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`;
  return html`<${Await} live=${live}>${(body) => {
    const offsets = Object.entries(body.offsets ?? {});
    const writers = Object.entries(body.writers ?? {});
    return html`<div class="columns">
      <${Section} title="Stored offsets">${
        offsets.length
          ? table(
              offsets.map(
                ([name, offset]) =>
                  html`<tr key=${name}><td><${Name} of=${name} /></td><td class="num">${count(offset)}</td><td class="num">${count(Math.max(0, queue.next_offset - 1 - Number(offset)))}</td></tr>`,
              ),
              [['Name'], ['Offset', 'num'], ['Behind', 'num']],
            )
          : html`<${Empty}>No consumer has stored an offset here.<//>`
      }<//>
      <${Section} title="Publishers by reference">${
        writers.length
          ? table(
              writers.map(
                ([name, sequence]) =>
                  html`<tr key=${name}><td><${Name} of=${name} /></td><td class="num">${count(sequence)}</td></tr>`,
              ),
              [['Reference'], ['Last sequence', 'num']],
            )
          : html`<${Empty}>No publisher with a reference: nothing is deduplicated.<//>`
      }<//>
    </div>`;
  }}<//>`;
}
