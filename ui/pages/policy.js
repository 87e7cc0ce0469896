// One policy or operator policy.
import { html, useEffect, useState } from '../lib.js';
import { path as encode, remove, request } from '../core/api.js';
import { count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link } from '../core/router.js';
import { may } from '../core/session.js';
import { Arguments, Await, Facts, Head, Name, Section, VhostName } from '../parts/basics.js';
import { Destroy } from '../parts/dialog.js';
import { PolicyForm, Preview } from '../parts/policy-form.js';

/** What its deletion would change. @param {{base: string, vhost: string}} properties */
function Loss({ base, vhost }) {
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  useEffect(() => {
    request('DELETE', `${base}?dry_run=true`).then(({ body }) => setPreview(body), () => {});
  }, [base]);
  return preview && html`<${Preview} of=${preview} vhost=${vhost} />`;
}

/** @param {{path: string[]}} properties */
export default function Policy({ path }) {
  const [word, vhost, name] = path;
  const kind = word === 'policies' ? 'policies' : 'operator-policies';
  const operator = kind !== 'policies';
  const mayChange = operator ? may.administer() : may.setPolicies();
  const base = encode`${kind}/${vhost}/${name}`;
  // Only those who may change a policy may ask for one; others find it in the list.
  const one = useLive(mayChange && base);
  const all = useLive(!mayChange && encode`${kind}/${vhost}`);
  const found = mayChange ? one : { ...all, body: all.body?.find?.((policy) => policy.name === name) };
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['policies'], { kind: operator && 'operator' })}>${operator ? 'Operator policies' : 'Policies'}</a> of <${VhostName} name=${vhost} />`}
      aside=${found.body && mayChange && html`<${Destroy} verb="Delete" kind=${operator ? 'operator policy' : 'policy'} name=${name} small work=${async () => { await remove(base); [kind, 'queues', 'exchanges'].forEach(poke); }} then=${() => go(link(['policies'], { kind: operator && 'operator' }))}><${Loss} base=${base} vhost=${vhost} /><//>`} />
    <${Await} live=${found} gone="There is no such policy. It may have been deleted.">${(policy) => html`
      <div class="panel"><${Facts} rows=${[
        ['Pattern', html`<code><${Name} of=${policy.pattern} empty="(every name)" /></code>`],
        ['Applies to', policy['apply-to'].replace('_', ' ')],
        ['Priority', count(policy.priority)],
        ['Definition', html`<${Arguments} of=${policy.definition} none="none" />`],
      ]} /></div>
      ${mayChange && html`<${Section} title="Change it"><div class="panel"><${PolicyForm} kind=${kind} vhosts=${[vhost]} policy=${policy} key=${JSON.stringify(policy)} /></div><//>`}`}<//>
  </div>`;
}
