// One exchange.
import { html } from '../lib.js';
import { path as encode, query, remove } from '../core/api.js';
import { at, count, rate } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link, route, to } from '../core/router.js';
import { Arguments, Await, Facts, Head, Name, Section, Tabs, Tag, VhostName } from '../parts/basics.js';
import { Bind, BindingTable, GraphLink } from '../parts/bindings.js';
import { Chart, Period } from '../parts/chart.js';
import { Destroy } from '../parts/dialog.js';
import { Figures } from '../parts/figures.js';
import { Publish } from '../parts/publish.js';
import { ExchangeFeatures } from './exchanges.js';

/** @type {import('../parts/chart.js').Series[]} */
const RATES = [
  { key: 'message_stats.publish_in', label: 'In', colour: '--in', kind: 'rate', format: rate },
  { key: 'message_stats.publish_out', label: 'Out', colour: '--out', kind: 'rate', format: rate },
];

/** @param {{path: string[]}} properties */
export default function Exchange({ path }) {
  const [, vhost, asked] = path;
  const name = asked === 'amq.default' ? '' : asked;
  const base = encode`exchanges/${vhost}/${name || 'amq.default'}`;
  const live = useLive(base);
  const exchange = live.body;
  const counted = query({ page: 1, page_size: 1, pagination: 'true', columns: 'source' });
  const from = useLive(`${base}/bindings/source${counted}`).body;
  const into = useLive(name && `${base}/bindings/destination${counted}`).body;
  const tab = route.value.query.tab ?? 'overview';
  const isOwn = name === '' || name?.startsWith('amq.');
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} empty="(AMQP default)" />`} above=${html`<a href=${link(['exchanges'])}>Exchanges</a> in <${VhostName} name=${vhost} />`}
      tags=${exchange && html`<${Tag} kind="accent">${exchange.type}<//><${ExchangeFeatures} exchange=${exchange} />`}
      aside=${exchange && !isOwn && html`<${Destroy} verb="Delete" kind="exchange" name=${name} small work=${async () => { await remove(base); poke('exchanges'); }} then=${() => go(link(['exchanges']))}>
        <${Facts} rows=${[['Bindings that lead out', count(from?.total_count)], ['Bindings that lead in', count(into?.total_count)], ['Messages in per second', rate(at(exchange, 'message_stats.publish_in_details.rate') ?? 0)]]} /><p>The exchange and these bindings are deleted. Queues stay. Clients that publish to it lose their channel.</p><//>`} />
    <${Await} live=${live} gone="There is no such exchange. It may have been deleted.">${() => html`
      <div class="section-head"><${Tabs} label="Parts of this exchange" now=${tab} href=${(id) => to.exchange(vhost, name, id === 'overview' ? {} : { tab: id })} tabs=${[['overview', 'Overview'], ['bindings', 'Bindings', from && into ? count(from.total_count + into.total_count) : undefined], ['publish', 'Publish']]} /><span class="spacer"></span>${tab === 'overview' && html`<${Period} />`}</div>
      ${tab === 'publish' ? (exchange.internal ? html`<p class="empty">It is internal: only other exchanges lead to it.</p>` : html`<${Section} title="Publish a message"><div class="panel"><${Publish} vhost=${vhost} exchange=${name} /></div><//>`)
        : tab === 'bindings' ? html`
          <${Section} title="From this exchange" aside=${html`<${GraphLink} vhost=${vhost} kind="e" name=${name} />`}><${BindingTable} where=${`${base}/bindings/source`} side="destination" vhost=${vhost} none="Nothing is bound to it: what is published to it is returned or dropped." /><//>
          ${name && html`<${Section} title="To this exchange"><${BindingTable} where=${`${base}/bindings/destination`} side="source" vhost=${vhost} none="No other exchange leads to it." /><//>
          <${Section} title="Bind a queue or an exchange to it"><div class="panel"><${Bind} vhost=${vhost} source=${name} /></div><//>`}`
        : html`
          <${Figures} label="Messages" items=${[
            { label: 'In', value: rate(at(exchange, 'message_stats.publish_in_details.rate') ?? 0), unit: '/s', dot: '--in' },
            { label: 'Out', value: rate(at(exchange, 'message_stats.publish_out_details.rate') ?? 0), unit: '/s', dot: '--out', title: 'Copies that reached queues' },
            { label: 'In, in all', value: count(at(exchange, 'message_stats.publish_in') ?? 0) },
            { label: 'Out, in all', value: count(at(exchange, 'message_stats.publish_out') ?? 0) },
            exchange.messages_delayed !== undefined && { label: 'Delayed', value: count(exchange.messages_delayed) },
          ]} />
          <div class="columns"><div class="panel"><${Chart} title="Messages per second" path=${base} body=${exchange} series=${RATES} /></div>
          <${Section} title="Details"><div class="panel"><${Facts} rows=${[
            ['Type', exchange.type],
            ['Durable', exchange.durable ? 'yes' : 'no'],
            ['Auto-delete', exchange.auto_delete && 'yes'],
            ['Internal', exchange.internal && 'yes'],
            ['Policy', exchange.policy && html`<a href=${to.policy(vhost, exchange.policy)}><${Name} of=${exchange.policy} /></a>`],
            ['Declared by', html`<${Name} of=${exchange.user_who_performed_action} />`],
            ['Arguments', html`<${Arguments} of=${exchange.arguments} none="none" />`],
          ]} /></div><//></div>`}`}<//>
  </div>`;
}
