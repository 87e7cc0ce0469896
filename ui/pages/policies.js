// Policies and operator policies.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { count } from '../core/format.js';
import { useLive } from '../core/live.js';
import { go, link, route, to } from '../core/router.js';
import { may } from '../core/session.js';
import { chosenVhost } from '../core/settings.js';
import { Head, Name, NameLink, Section, Tabs, VhostName } from '../parts/basics.js';
import { PolicyForm } from '../parts/policy-form.js';
import { Table, Tools, useList } from '../parts/table.js';

/** @param {(vhost: string, name: string) => string} href @returns {import('../parts/table.js').Column[]} */
const columns = (href) => [
  { id: 'name', title: 'Name', fixed: true, sort: 'name', cell: (row) => html`<${NameLink} href=${href(row.vhost, row.name)} of=${row.name} />` },
  ...(chosenVhost.value ? [] : [{ id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${VhostName} name=${row.vhost} />` }]),
  { id: 'pattern', title: 'Pattern', sort: 'pattern', cell: (row) => html`<code><${Name} of=${row.pattern} empty="(every name)" /></code>` },
  { id: 'apply', title: 'Applies to', sort: 'apply-to', cell: (row) => row['apply-to'].replace('_', ' ') },
  { id: 'priority', title: 'Priority', num: true, sort: 'priority', cell: (row) => count(row.priority) },
  { id: 'definition', title: 'Definition', cell: (row) => html`<span class="mono">${Object.entries(row.definition).map(([key, value], at) => html`${at > 0 && ', '}${key}: <${Name} of=${typeof value === 'string' ? value : JSON.stringify(value)} />`)}</span>` },
];

export default function Policies() {
  const operator = route.value.query.kind === 'operator';
  const kind = operator ? 'operator-policies' : 'policies';
  const vhost = chosenVhost.value;
  const list = useList({ id: kind, path: vhost ? path`${kind}/${vhost}` : kind, columns: columns(operator ? to.operatorPolicy : to.policy), whole: true, sort: 'priority', reverse: true });
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const overview = useLive('overview').body;
  const names = Array.isArray(vhosts) ? vhosts.map(({ name }) => name) : [];
  const mayChange = operator ? may.administer() && overview?.is_op_policy_updating_enabled !== false : may.setPolicies();
  return html`<div class="page">
    <${Head} title=${operator ? 'Operator policies' : 'Policies'} />
    <${Tabs} label="Kinds of policies" now=${operator ? 'operator' : 'user'} href=${(id) => link(['policies'], { kind: id === 'user' ? '' : id })} tabs=${[['user', 'Policies'], ['operator', 'Operator policies']]} />
    <p class="muted">${operator ? 'Limits that hold whatever policies and declarations say.' : 'Arguments for all queues and exchanges whose names match a pattern.'} One of each kind applies to an object.</p>
    <${Tools} list=${list} what=${operator ? 'operator policies' : 'policies'} />
    <${Table} list=${list} label="Policies" rowKey=${(row) => `${row.vhost}\n${row.name}`} short />
    ${mayChange && names.length > 0 && html`<${Section} title="New"><details class="fold" key=${kind}><summary>Add ${operator ? 'an operator policy' : 'a policy'}</summary><div class="fold-body"><${PolicyForm} kind=${kind} vhosts=${vhost ? [vhost] : names} onSaved=${(of, name) => go((operator ? to.operatorPolicy : to.policy)(of, name))} /></div></details><//>`}
  </div>`;
}

