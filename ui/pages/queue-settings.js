// Arguments that take effect and where each comes from, the policies that match, and conversion.
import { html, useState } from '../lib.js';
import { path, post, query } from '../core/api.js';
import { count, plain } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { to } from '../core/router.js';
import { Arguments, Empty, Name, NameLink, Outcome, Section, Tag, useAction } from '../parts/basics.js';
import { Pairs, Select, objectOf, pairsOf } from '../parts/form.js';
import { QUEUE_ARGUMENTS } from '../parts/known.js';

const SOURCES = { argument: 'declaration', declaration: 'declaration', policy: 'policy', operator_policy: 'operator policy' };

function Effective({ queue }) {
  const rows = Object.entries(queue.effective_arguments ?? {});
  if (!rows.length) return html`<${Empty}>Neither its declaration nor a policy sets anything.<//>`;
  const source = (name) => (name === 'policy' && queue.policy ? html`<a href=${to.policy(queue.vhost, queue.policy)}>policy <${Name} of=${queue.policy} /></a>` : name === 'operator_policy' && queue.operator_policy ? html`<a href=${to.operatorPolicy(queue.vhost, queue.operator_policy)}>operator policy <${Name} of=${queue.operator_policy} /></a>` : SOURCES[name] ?? name);
  return html`<div class="table-box plain-table"><table><thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">Comes from</th></tr></thead>
    <tbody>${rows.map(([key, { value, source: from }]) => html`<tr key=${key}><td><code>${key}</code></td><td><${Name} of=${plain(value)} /></td><td>${source(from)}</td></tr>`)}</tbody></table></div>`;
}

function Matching({ queue }) {
  const user = useLive(path`policies/${queue.vhost}` + query({ queue: queue.name })).body;
  const operator = useLive(path`operator-policies/${queue.vhost}` + query({ queue: queue.name })).body;
  const list = (policies, href) => (Array.isArray(policies) && policies.length ? html`<ol>${policies.map((policy, at) => html`<li key=${policy.name}><${NameLink} href=${href(policy.vhost, policy.name)} of=${policy.name} /> <span class="muted">priority ${count(policy.priority)}, pattern <code><${Name} of=${policy.pattern} empty="(every name)" /></code></span> ${at === 0 ? html`<${Tag} kind="accent">applies<//>` : html`<span class="faint">a policy above it wins</span>`}</li>`)}</ol>` : html`<p class="faint">None matches.</p>`);
  return html`<div class="panel stack"><div><h3>Policies</h3>${list(user, to.policy)}</div><div><h3>Operator policies</h3>${list(operator, to.operatorPolicy)}</div></div>`;
}

function Convert({ queue, base }) {
  const [type, setType] = useState(queue.type === 'quorum' ? 'quorum' : queue.type);
  const [pairs, setPairs] = useState(() => pairsOf(queue.arguments).filter(({ key }) => key !== 'x-queue-type'));
  const action = useAction();
  const ask = (dry) => {
    action.run(
      async () => {
        const answer = await post(`${base}/convert${dry ? '?dry_run=true' : ''}`, { type, arguments: { ...objectOf(pairs), 'x-queue-type': type } });
        poke('queues');
        return answer;
      },
      () => (dry ? `It can be converted. Its ${count(queue.consumers)} consumers will be cancelled; messages and bindings stay.` : 'Converted.'),
    );
  };
  return html`<details class="fold"><summary>Convert to another type or other arguments</summary><form class="fold-body form" onSubmit=${(event) => { event.preventDefault(); ask(false); }}>
    <p class="muted">Its name, bindings and messages stay, in one step on the disk. Its consumers are cancelled.</p>
    <${Select} label="Type" value=${type} onInput=${setType} options=${[['classic', 'Classic'], ['quorum', 'Quorum']]} />
    <${Pairs} label="Arguments" pairs=${pairs} onChange=${setPairs} known=${QUEUE_ARGUMENTS[type]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="button" disabled=${action.busy} onClick=${() => ask(true)}>Check only</button><button type="submit" class="primary" disabled=${action.busy}>Convert queue</button></div>
  </form></details>`;
}

/** @param {{queue: any, base: string}} properties */
export const Settings = ({ queue, base }) => html`
  <div class="columns">
    <${Section} title="What takes effect"><${Effective} queue=${queue} /><//>
    <${Section} title="Policies that match"><${Matching} queue=${queue} /><//>
  </div>
  <${Section} title="Declared arguments"><div class="panel"><${Arguments} of=${queue.arguments} none="none" /></div><//>
  ${queue.type !== 'stream' && !queue.exclusive && html`<${Convert} queue=${queue} base=${base} />`}`;
