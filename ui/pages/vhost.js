// One virtual host.
import { html, useState } from '../lib.js';
import { path as encode, post, put, query, remove } from '../core/api.js';
import { at, count, rate } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link } from '../core/router.js';
import { Await, Empty, Facts, Head, Name, Outcome, Section, Tag, useAction } from '../parts/basics.js';
import { Chart, Period } from '../parts/chart.js';
import { Destroy } from '../parts/dialog.js';
import { Figures } from '../parts/figures.js';
import { LimitEditor } from './limits.js';
import { PermissionEditor, PermissionTable, TopicEditor, TopicTable } from './permissions.js';
import { VhostFields, vhostBody } from './vhosts.js';

/** @type {import('../parts/chart.js').Series[]} */
const LENGTHS = [
  { key: 'messages', label: 'Total', colour: '--total', kind: 'level', format: count },
  { key: 'messages_ready', label: 'Ready', colour: '--ready', kind: 'level', format: count },
  { key: 'messages_unacknowledged', label: 'Unacked', colour: '--unacked', kind: 'level', format: count },
];
/** @type {import('../parts/chart.js').Series[]} */
const RATES = [
  { key: 'message_stats.publish', label: 'In', colour: '--in', kind: 'rate', format: rate },
  { key: 'message_stats.deliver_get', label: 'Out', colour: '--out', kind: 'rate', format: rate },
  { key: 'message_stats.ack', label: 'Acks', colour: '--acks', kind: 'rate', format: rate },
];

function Change({ vhost, base }) {
  const [value, setValue] = useState({ description: vhost.description ?? '', tags: (vhost.tags ?? []).join(', '), default_queue_type: vhost.default_queue_type, protected_from_deletion: vhost.protected_from_deletion, tracing: vhost.tracing });
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      const { protected_from_deletion: protect, ...body } = vhostBody(value);
      await put(base, body);
      if (protect !== vhost.protected_from_deletion) await (protect ? post(`${base}/deletion/protection`) : remove(`${base}/deletion/protection`));
      poke('vhosts');
    }, 'Changed.');
  };
  return html`<form class="panel form" onSubmit=${submit}><${VhostFields} value=${value} onChange=${setValue} /><${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Change virtual host</button></div></form>`;
}

/** @param {{path: string[]}} properties */
export default function Vhost({ path }) {
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
      aside=${vhost && html`<${Period} /><${Destroy} verb="Delete" kind="virtual host" name=${name} small work=${async () => { await remove(base); poke('vhosts'); }} then=${() => go(link(['vhosts']))}>
        <${Facts} rows=${[['Queues', count(queues?.total_count)], ['Messages', count(vhost.messages ?? 0)], ['Exchanges', count(exchanges?.total_count)], ['Connections', count(connections?.total_count)]]} /><p>All of that is deleted with it, and its connections are closed.</p><//>`} />
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
      <div class="columns"><div class="panel"><${Chart} title="Messages" path=${base} body=${vhost} series=${LENGTHS} /></div><div class="panel"><${Chart} title="Messages per second" path=${base} body=${vhost} series=${RATES} /></div></div>
      <${Section} title="Permissions">${Array.isArray(permissions) && permissions.length ? html`<${PermissionTable} rows=${permissions} of="vhost" />` : html`<${Empty}>No user may enter it.<//>`}<${PermissionEditor} vhost=${name} /><//>
      <${Section} title="Topic permissions">${Array.isArray(topics) && topics.length ? html`<${TopicTable} rows=${topics} of="vhost" />` : html`<p class="muted">No user's routing keys are limited.</p>`}<${TopicEditor} vhost=${name} /><//>
      <div class="columns"><${Section} title="Limits"><${LimitEditor} kind="vhost" name=${name} /><//><${Section} title="Settings"><${Change} vhost=${vhost} base=${base} /><//></div>`}<//>
  </div>`;
}
