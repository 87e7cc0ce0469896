// One user: permissions, limits, password and tags.
import { html, useState } from '../lib.js';
import { path as encode, put, remove } from '../core/api.js';
import { poke, useLive } from '../core/live.js';
import { go, link, to } from '../core/router.js';
import { me } from '../core/session.js';
import { Await, Empty, Facts, Head, Name, NameLink, Outcome, Section, Tag, useAction } from '../parts/basics.js';
import { Destroy } from '../parts/dialog.js';
import { Select, Text } from '../parts/form.js';
import { LimitEditor } from './limits.js';
import { PermissionEditor, PermissionTable, TopicEditor, TopicTable } from './permissions.js';
import { TagChoice, WAYS, secretOf } from './users.js';

function Change({ user }) {
  const own = Array.isArray(user.tags) ? user.tags : [];
  const [way, setWay] = useState('keep');
  const [secret, setSecret] = useState('');
  const [tags, setTags] = useState(own);
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      const kept = { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm };
      await put(encode`users/${user.name}`, { ...(way === 'keep' ? kept : secretOf(way, secret)), tags });
      poke('users');
      setSecret('');
    }, 'Changed.');
  };
  return html`<form class="panel form" onSubmit=${submit}>
    <${Select} label="Password" value=${way} onInput=${setWay} options=${[['keep', 'as it is'], ...WAYS]} hint=${way !== 'keep' && 'Sessions of this page that the user has open end.'} />
    ${way === 'password' && html`<${Text} label="New password" type="password" autocomplete="new-password" value=${secret} onInput=${setSecret} required />`}
    ${way === 'hash' && html`<${Text} label="Hash" value=${secret} onInput=${setSecret} required />`}
    <${TagChoice} tags=${tags} onChange=${setTags} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Change user</button></div>
  </form>`;
}

/** @param {{path: string[]}} properties */
export default function User({ path }) {
  const name = path[1];
  const base = encode`users/${name}`;
  const live = useLive(base);
  const permissions = useLive(`${base}/permissions`);
  const topics = useLive(`${base}/topic-permissions`);
  const connections = useLive(encode`connections/username/${name}`).body;
  const user = live.body;
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['users'])}>Users</a>`} tags=${user && Array.isArray(user.tags) && user.tags.map((tag) => html`<${Tag}>${tag}<//>`)}
      aside=${user && html`<${Destroy} verb="Delete" kind="user" name=${name} small disabled=${name === me.value?.name} work=${async () => { await remove(base); poke('users'); }} then=${() => go(link(['users']))}>
        <${Facts} rows=${[['Open connections', String(connections?.length ?? 0)], ['Permissions', String(permissions.body?.length ?? 0)]]} /><p>Its connections are closed. What it declared stays.</p><//>`} />
    <${Await} live=${live} gone="There is no such user.">${() => html`
      <${Section} title="Permissions"><${Await} live=${permissions}>${(rows) => (rows.length ? html`<${PermissionTable} rows=${rows} of="user" />` : html`<${Empty}>It may enter no virtual host.<//>`)}<//>
        <${PermissionEditor} user=${name} /><//>
      <${Section} title="Topic permissions"><${Await} live=${topics}>${(rows) => (rows.length ? html`<${TopicTable} rows=${rows} of="user" />` : html`<p class="muted">Routing keys are not limited.</p>`)}<//><${TopicEditor} user=${name} /><//>
      <div class="columns">
        <${Section} title="Limits"><${LimitEditor} kind="user" name=${name} /><//>
        <${Section} title="Connections">${connections?.length ? html`<ul class="panel">${connections.slice(0, 20).map((one) => html`<li key=${one.name}><${NameLink} href=${to.connection(one.name)} of=${one.name} /></li>`)}${connections.length > 20 && html`<li>and ${connections.length - 20} more</li>`}</ul>` : html`<${Empty}>It is not connected.<//>`}<//>
      </div>
      <${Section} title="Password and tags"><${Change} user=${user} key=${`${user.name}${user.tags}`} /><//>`}<//>
  </div>`;
}
