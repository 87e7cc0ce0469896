// Virtual hosts.
import { html, useState } from '../lib.js';
import { path, path as encode, post, put, query, remove } from '../core/api.js';
import { at, count, rate } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link, to } from '../core/router.js';
import {
  Await,
  Empty,
  Facts,
  Figures,
  Fold,
  Head,
  Name,
  NameLink,
  number,
  Outcome,
  perSecond,
  Problem,
  Section,
  Tag,
  useAction,
} from '../parts/basics.js';
import { Chart, Period, lengths, rates } from '../parts/chart.js';
import { Check, Destroy, Select, Text } from '../parts/forms.js';
import { Table, Tools, useList } from '../parts/table.js';
import { LimitEditor, PermissionEditor, PermissionTable, TopicEditor, TopicTable } from './access.js';

const TYPES = /** @type {[string, string][]} */ ([
  ['classic', 'classic'],
  ['quorum', 'quorum'],
  ['stream', 'stream'],
]);

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
export const vhostBody = (value) => ({
  ...value,
  tags: value.tags
    .split(',')
    .map((tag) => tag.trim())
    .filter(Boolean)
    .join(','),
});

function AddVhost() {
  const [name, setName] = useState('');
  const [value, setValue] = useState({
    description: '',
    tags: '',
    default_queue_type: 'classic',
    protected_from_deletion: false,
    tracing: false,
  });
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (
      await action.run(async () => {
        await put(path`vhosts/${name}`, vhostBody(value));
        poke('vhosts');
      })
    )
      go(to.vhost(name));
  };
  return html`<${Fold} title="Add a virtual host"><form class="form" onSubmit=${submit}>
    <${Text} label="Name" value=${name} onInput=${setName} required hint="You get all permissions in it." />
    <${VhostFields} value=${value} onChange=${setValue} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add virtual host</button></div>
  </form><//>`;
}

const vhostColumns = /** @type {import('../parts/table.js').Column[]} */ ([
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    need: ['name'],
    cell: (row) => html`<${NameLink} href=${to.vhost(row.name)} of=${row.name} />`,
  },
  {
    id: 'description',
    title: 'Description',
    sort: 'description',
    need: ['description'],
    cell: (row) => html`<${Name} of=${row.description} empty="–" />`,
  },
  {
    id: 'tags',
    title: 'Tags',
    need: ['tags', 'protected_from_deletion', 'tracing'],
    cell: (row) =>
      html`<span class="tags">${row.protected_from_deletion && html`<${Tag} kind="accent">protected<//>`}${row.tracing && html`<${Tag} kind="warn">tracing<//>`}${(row.tags ?? []).map((tag) => html`<${Tag}>${tag}<//>`)}</span>`,
  },
  {
    id: 'type',
    title: 'Default type',
    sort: 'default_queue_type',
    need: ['default_queue_type'],
    cell: (row) => row.default_queue_type,
  },
  number('ready', 'Ready', 'messages_ready', { format: (value) => count(value ?? 0) }),
  number('unacked', 'Unacked', 'messages_unacknowledged', { format: (value) => count(value ?? 0) }),
  perSecond('in', 'In /s', 'message_stats.publish'),
  perSecond('out', 'Out /s', 'message_stats.deliver_get'),
]);

export function Vhosts() {
  const list = useList({ id: 'vhosts', path: 'vhosts', columns: vhostColumns, always: ['name'], sort: 'name' });
  return html`<div class="page">
    <${Head} title="Virtual hosts" />
    <${Tools} list=${list} what="virtual hosts" />
    <${Table} list=${list} label="Virtual hosts" rowKey=${(row) => row.name} short />
    <${Section} title="New"><${AddVhost} /><//>
  </div>`;
}

// One virtual host.

function ChangeVhost({ vhost, base }) {
  const [value, setValue] = useState({
    description: vhost.description ?? '',
    tags: (vhost.tags ?? []).join(', '),
    default_queue_type: vhost.default_queue_type,
    protected_from_deletion: vhost.protected_from_deletion,
    tracing: vhost.tracing,
  });
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      const { protected_from_deletion: protect, ...body } = vhostBody(value);
      await put(base, body);
      if (protect !== vhost.protected_from_deletion)
        await (protect ? post(`${base}/deletion/protection`) : remove(`${base}/deletion/protection`));
      poke('vhosts');
    }, 'Changed.');
  };
  return html`<form class="panel form" onSubmit=${submit}><${VhostFields} value=${value} onChange=${setValue} /><${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Change virtual host</button></div></form>`;
}

export function Vhost({ path }) {
  const name = path[1];
  const base = encode`vhosts/${name}`;
  const live = useLive(base);
  const vhost = live.body;
  const permissions = useLive(`${base}/permissions`).body;
  const topics = useLive(`${base}/topic-permissions`).body;
  const one = query({ page: 1, page_size: 1, pagination: 'true', columns: 'name' });
  const queues = useLive(encode`queues/${name}` + one).body;
  const exchanges = useLive(encode`exchanges/${name}` + one).body;
  const connections = useLive(`${base}/connections${one}`).body;
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['vhosts'])}>Virtual hosts</a>`}
      tags=${vhost && html`${vhost.protected_from_deletion && html`<${Tag} kind="accent">protected<//>`}${vhost.tracing && html`<${Tag} kind="warn">tracing<//>`}${(vhost.tags ?? []).map((tag) => html`<${Tag}>${tag}<//>`)}`}
      aside=${
        vhost &&
        html`<${Period} /><${Destroy} verb="Delete" kind="virtual host" name=${name} small work=${async () => {
          await remove(base);
          poke('vhosts');
        }} then=${() => go(link(['vhosts']))}>
        <${Facts} rows=${[
          ['Queues', count(queues?.total_count)],
          ['Messages', count(vhost.messages ?? 0)],
          ['Exchanges', count(exchanges?.total_count)],
          ['Connections', count(connections?.total_count)],
        ]} /><p>All of that is deleted with it, and its connections are closed.</p><//>`
      } />
    <${Await} live=${live} gone="There is no such virtual host.">${() => html`
      ${vhost.description && html`<p><${Name} of=${vhost.description} /></p>`}
      <${Figures} label="Totals" items=${[
        { label: 'Ready', value: count(vhost.messages_ready ?? 0), dot: '--ready' },
        { label: 'Unacked', value: count(vhost.messages_unacknowledged ?? 0), dot: '--unacked' },
        { label: 'In', value: rate(at(vhost, 'message_stats.publish_details.rate') ?? 0), unit: '/s', dot: '--in' },
        { label: 'Out', value: rate(at(vhost, 'message_stats.deliver_get_details.rate') ?? 0), unit: '/s', dot: '--out' },
        { label: 'Queues', value: count(queues?.total_count), href: link(['queues'], { vhost: name }) },
        { label: 'Exchanges', value: count(exchanges?.total_count), href: link(['exchanges'], { vhost: name }) },
        { label: 'Connections', value: count(connections?.total_count), href: link(['connections'], { vhost: name }) },
      ]} />
      <div class="columns"><div class="panel"><${Chart} title="Messages" path=${base} body=${vhost} series=${lengths()} /></div><div class="panel"><${Chart} title="Messages per second" path=${base} body=${vhost} series=${rates('publish', 'deliver_get', 'ack')} /></div></div>
      <${Section} title="Permissions">${Array.isArray(permissions) && permissions.length ? html`<${PermissionTable} rows=${permissions} of="vhost" />` : html`<${Empty}>No user may enter it.<//>`}<${PermissionEditor} vhost=${name} /><//>
      <${Section} title="Topic permissions">${Array.isArray(topics) && topics.length ? html`<${TopicTable} rows=${topics} of="vhost" />` : html`<p class="muted">No user's routing keys are limited.</p>`}<${TopicEditor} vhost=${name} /><//>
      <div class="columns"><${Section} title="Limits"><${LimitEditor} kind="vhost" name=${name} /><//><${Section} title="Settings"><${ChangeVhost} vhost=${vhost} base=${base} /><//></div>`}<//>
  </div>`;
}
