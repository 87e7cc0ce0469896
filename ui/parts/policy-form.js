// The form of a policy, with what it would change before it is saved.
import { html, useState } from '../lib.js';
import { path, request } from '../core/api.js';
import { count, plain, several } from '../core/format.js';
import { poke } from '../core/live.js';
import { ExchangeLink, Name, Outcome, QueueLink, useAction } from './basics.js';
import { Pairs, Select, Text, objectOf, pairsOf } from './form.js';
import { OPERATOR_KEYS, POLICY_KEYS } from './known.js';

const APPLY = /** @type {[string, string][]} */ ([['all', 'queues and exchanges'], ['queues', 'queues'], ['classic_queues', 'classic queues'], ['quorum_queues', 'quorum queues'], ['streams', 'streams'], ['exchanges', 'exchanges']]);

/** A change of a value. @param {{of: {before: any, after: any}}} properties */
const Change = ({ of }) => html`${of.before === null ? html`<span class="faint">none</span>` : html`<${Name} of=${plain(of.before)} />`} → ${of.after === null ? html`<span class="faint">none</span>` : html`<b><${Name} of=${plain(of.after)} /></b>`}`;

/** The answer of a dry run. @param {{of: any, vhost: string}} properties */
export function Preview({ of, vhost }) {
  const total = of.queues.matched + of.exchanges.matched;
  return html`<div class="panel stack"><p>It would apply to <b>${several(of.queues.matched, 'queue')}</b> and <b>${several(of.exchanges.matched, 'exchange')}</b>, and change ${several(of.queues.changed, 'queue')} and ${several(of.exchanges.changed, 'exchange')}.${total === 0 ? ' Nothing has such a name now, or a policy with a higher priority wins.' : ''}</p>
    ${of.changes.length > 0 && html`<div class="table-box plain-table short" tabindex="0" role="region" aria-label="Changes"><table><thead><tr><th scope="col">Object</th><th scope="col">Policy</th><th scope="col">Operator policy</th><th scope="col">What changes</th></tr></thead>
      <tbody>${of.changes.map((change, at) => html`<tr key=${at}><td>${change.queue !== undefined ? html`<${QueueLink} vhost=${vhost} name=${change.queue} />` : html`<span class="muted">exchange </span><${ExchangeLink} vhost=${vhost} name=${change.exchange} />`}</td>
        <td>${change.policy.before === change.policy.after ? html`<span class="faint">${change.policy.after ?? 'none'}</span>` : html`<${Change} of=${change.policy} />`}</td>
        <td>${change.operator_policy.before === change.operator_policy.after ? html`<span class="faint">${change.operator_policy.after ?? 'none'}</span>` : html`<${Change} of=${change.operator_policy} />`}</td>
        <td>${Object.entries(change.arguments).map(([key, of]) => html`<div key=${key}><code>${key}</code> <${Change} of=${of} /></div>`)}</td></tr>`)}</tbody></table></div>`}
    ${of.changes_left_out > 0 && html`<p class="muted">and ${count(of.changes_left_out)} more.</p>`}</div>`;
}

/**
 * @param {{kind: 'policies' | 'operator-policies', vhosts: string[], policy?: any, onSaved?: (vhost: string, name: string) => void}} properties
 *   `policy`: the one that is changed
 */
export function PolicyForm({ kind, vhosts, policy, onSaved }) {
  const operator = kind === 'operator-policies';
  const [vhost, setVhost] = useState(policy?.vhost ?? vhosts[0] ?? '/');
  const [name, setName] = useState(policy?.name ?? '');
  const [pattern, setPattern] = useState(policy?.pattern ?? '');
  const [apply, setApply] = useState(policy?.['apply-to'] ?? 'queues');
  const [priority, setPriority] = useState(String(policy?.priority ?? 0));
  const [pairs, setPairs] = useState(() => pairsOf(policy?.definition));
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  const action = useAction();
  /** @param {boolean} dry */
  const send = (dry) => request('PUT', path`${kind}/${vhost}/${name}` + (dry ? '?dry_run=true' : ''), { body: { pattern, 'apply-to': apply, priority: Number(priority), definition: objectOf(pairs) } });
  const look = () => action.run(async () => setPreview((await send(true)).body));
  const submit = async (event) => {
    event.preventDefault();
    setPreview(null);
    const saved = await action.run(async () => {
      await send(false);
      [kind, 'queues', 'exchanges'].forEach(poke);
    }, 'Saved. All queues behave by it now.');
    if (saved) onSaved?.(vhost, name);
  };
  return html`<form class="form" onSubmit=${submit}>
    ${!policy && html`${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required />`}
    <${Text} label="Pattern" value=${pattern} onInput=${setPattern} hint="Names that it matches; anywhere in the name unless it has ^ and $. Empty: every name." />
    <${Select} label="Applies to" value=${apply} onInput=${setApply} options=${operator ? APPLY.filter(([key]) => key !== 'all' && key !== 'exchanges') : APPLY} />
    <${Text} label="Priority" type="number" value=${priority} onInput=${setPriority} hint="Of several that match, the one with the highest priority applies; of equals, the first by name." />
    <${Pairs} label="Definition" pairs=${pairs} onChange=${setPairs} known=${operator ? OPERATOR_KEYS : POLICY_KEYS} what="key" />
    ${preview && html`<${Preview} of=${preview} vhost=${vhost} />`}
    <${Outcome} of=${action} />
    <div class="form-end"><button type="button" disabled=${action.busy || !name} onClick=${look}>See what it would change</button><button type="submit" class="primary" disabled=${action.busy}>Save policy</button></div>
  </form>`;
}

