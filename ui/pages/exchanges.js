// The list of exchanges, and the form that declares one.
import { html, useState } from '../lib.js';
import { path, put } from '../core/api.js';
import { poke, useLive } from '../core/live.js';
import { go, link, route, to } from '../core/router.js';
import { chosenVhost } from '../core/settings.js';
import { ExchangeLink, Head, Problem, Tag, useAction } from '../parts/basics.js';
import { number, perSecond, vhostColumn } from '../parts/columns.js';
import { Check, Pairs, Select, Text, objectOf } from '../parts/form.js';
import { EXCHANGE_ARGUMENTS } from '../parts/known.js';
import { Table, Tools, useList } from '../parts/table.js';

/** @param {{exchange: any}} properties */
export const ExchangeFeatures = ({ exchange }) => html`<span class="tags">
  ${exchange.durable === false && html`<${Tag} title="Not durable: gone after a restart">transient<//>`}
  ${exchange.auto_delete && html`<${Tag} title="Deleted when its last binding goes">auto-delete<//>`}
  ${exchange.internal && html`<${Tag} title="Clients can't publish to it">internal<//>`}
  ${exchange.arguments?.['alternate-exchange'] && html`<${Tag} title=${`Alternate exchange: ${exchange.arguments['alternate-exchange']}`}>alternate<//>`}
  ${exchange.policy && html`<${Tag} kind="accent" title="Policy">${exchange.policy}<//>`}
</span>`;

/** @returns {import('../parts/table.js').Column[]} */
const columns = () => [
  { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name', 'vhost'], cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.name} />` },
  ...vhostColumn(),
  { id: 'type', title: 'Type', sort: 'type', need: ['type'], cell: (row) => row.type },
  { id: 'features', title: 'Features', need: ['durable', 'auto_delete', 'internal', 'arguments', 'policy'], cell: (row) => html`<${ExchangeFeatures} exchange=${row} />` },
  perSecond('in', 'In /s', 'message_stats.publish_in'),
  perSecond('out', 'Out /s', 'message_stats.publish_out', { hint: 'Copies that reached queues, per second' }),
  number('in-all', 'In', 'message_stats.publish_in', { off: true }),
  number('out-all', 'Out', 'message_stats.publish_out', { off: true }),
  number('delayed', 'Delayed', 'messages_delayed', { off: true }),
  { id: 'by', title: 'Declared by', sort: 'user_who_performed_action', need: ['user_who_performed_action'], off: true, cell: (row) => row.user_who_performed_action },
];

function Declare({ vhosts, types }) {
  const [vhost, setVhost] = useState(chosenVhost.value || vhosts[0] || '/');
  const [type, setType] = useState('direct');
  const [name, setName] = useState('');
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [internal, setInternal] = useState(false);
  const [pairs, setPairs] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (await action.run(() => put(path`exchanges/${vhost}/${name}`, { type, durable, auto_delete: autoDelete, internal, arguments: objectOf(pairs) }))) {
      poke('exchanges');
      go(to.exchange(vhost, name));
    }
  };
  const described = types.find((one) => one.name === type)?.description;
  return html`<form class="form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Select} label="Type" value=${type} onInput=${setType} options=${types.map((one) => [one.name, one.name])} hint=${described} />
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Check} label="Durable" value=${durable} onInput=${setDurable} hint="It survives a restart." />
    <${Check} label="Auto-delete" value=${autoDelete} onInput=${setAutoDelete} hint="It is deleted when its last binding goes." />
    <${Check} label="Internal" value=${internal} onInput=${setInternal} hint="Clients can't publish to it, only other exchanges." />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${EXCHANGE_ARGUMENTS} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Declare exchange</button></div>
  </form>`;
}

export default function Exchanges() {
  const vhost = chosenVhost.value;
  const list = useList({ id: 'exchanges', path: vhost ? path`exchanges/${vhost}` : 'exchanges', columns: columns(), always: ['name', 'vhost'], sort: 'name' });
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const overview = useLive('overview').body;
  if (route.value.query.new) {
    return html`<div class="page"><${Head} title="Declare an exchange" above=${html`<a href=${link(['exchanges'])}>Exchanges</a>`} /><div class="panel">${Array.isArray(vhosts) && overview ? html`<${Declare} vhosts=${vhosts.map(({ name }) => name)} types=${overview.exchange_types ?? []} />` : null}</div></div>`;
  }
  return html`<div class="page fill">
    <${Head} title="Exchanges" aside=${html`<a href=${link(['exchanges'], { new: 1 })}>Declare an exchange</a>`} />
    <${Tools} list=${list} what="exchanges" />
    <${Table} list=${list} label="Exchanges" rowKey=${(row) => `${row.vhost}\n${row.name}`} />
  </div>`;
}
