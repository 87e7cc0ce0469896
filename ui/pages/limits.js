// Limits of virtual hosts and users.
import { html, useState } from '../lib.js';
import { path, put, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { to } from '../core/router.js';
import { may } from '../core/session.js';
import { Empty, Head, Name, NameLink, Outcome, Section, useAction } from '../parts/basics.js';
import { Select } from '../parts/form.js';

const KINDS = {
  vhost: { list: 'vhost-limits', names: [['max-connections', 'Connections'], ['max-queues', 'Queues']] },
  user: { list: 'user-limits', names: [['max-connections', 'Connections'], ['max-channels', 'Channels']] },
};

/** @param {{kind: 'vhost' | 'user', name: string}} properties */
export function LimitEditor({ kind, name }) {
  const { list, names } = KINDS[kind];
  const rows = useLive(path`${list}/${name}`).body;
  const values = (Array.isArray(rows) && rows[0]?.value) || {};
  const [drafts, setDrafts] = useState(/** @type {Record<string, string>} */ ({}));
  const action = useAction();
  /** @param {string} limit @param {string | null} value */
  const set = (limit, value) =>
    action.run(async () => {
      const where = path`${list}/${name}/${limit}`;
      if (value === null) await remove(where);
      else await put(where, { value: Number(value) });
      setDrafts({ ...drafts, [limit]: '' });
      poke(list);
      poke('users');
    }, value === null ? 'Lifted.' : 'Set.');
  return html`<div class="panel form">${names.map(([limit, title]) => html`<form class="form-row" key=${limit} onSubmit=${(event) => { event.preventDefault(); set(limit, drafts[limit]); }}>
      <label for=${`limit-${limit}`}>${title}</label><div class="field">
      <input id=${`limit-${limit}`} type="number" min="-1" required value=${drafts[limit] ?? ''} placeholder=${values[limit] ?? 'no limit'} onInput=${(event) => setDrafts({ ...drafts, [limit]: event.currentTarget.value })} />
      <button type="submit" disabled=${action.busy || !drafts[limit]}>Set</button>
      ${values[limit] !== undefined && html`<button type="button" onClick=${() => set(limit, null)}>Lift the limit of ${count(values[limit])}</button>`}</div></form>`)}
    <${Outcome} of=${action} /></div>`;
}

/** @param {{kind: 'vhost' | 'user'}} properties */
function Limits({ kind }) {
  const { list, names } = KINDS[kind];
  const rows = useLive(list).body;
  const all = useLive(may.administer() && `${kind}s?columns=name&sort=name`).body;
  const [chosen, setChosen] = useState('');
  const shown = (Array.isArray(rows) ? rows : []).filter((row) => Object.keys(row.value ?? {}).length);
  const href = kind === 'vhost' ? to.vhost : to.user;
  return html`<${Section} title=${kind === 'vhost' ? 'Of virtual hosts' : 'Of users'}>
    ${shown.length ? html`<div class="table-box plain-table"><table><thead><tr><th scope="col">${kind === 'vhost' ? 'Virtual host' : 'User'}</th>${names.map(([, title]) => html`<th scope="col" class="num">${title}</th>`)}</tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row[kind]}><td>${may.administer() ? html`<${NameLink} href=${href(row[kind])} of=${row[kind]} />` : html`<${Name} of=${row[kind]} />`}</td>${names.map(([limit]) => html`<td class="num">${row.value[limit] === undefined ? html`<span class="zero">–</span>` : count(row.value[limit])}</td>`)}</tr>`)}</tbody></table></div>` : html`<${Empty}>None has a limit of its own.<//>`}
    ${may.administer() && html`<div class="panel form"><${Select} label="Set a limit of" value=${chosen} onInput=${setChosen} options=${[['', kind === 'vhost' ? 'Choose a virtual host' : 'Choose a user'], ...(Array.isArray(all) ? all : []).map(({ name }) => [name, name])]} />${chosen && html`<${LimitEditor} kind=${kind} name=${chosen} key=${chosen} />`}</div>`}
  <//>`;
}

export default function LimitsPage() {
  return html`<div class="page"><${Head} title="Limits" /><div class="columns"><${Limits} kind="vhost" />${may.administer() && html`<${Limits} kind="user" />`}</div></div>`;
}
