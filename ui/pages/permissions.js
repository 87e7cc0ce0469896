// Permissions: patterns of names that a user may configure, write and read, with a look at what they match.
import { html, useState } from '../lib.js';
import { path, put, query, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { to } from '../core/router.js';
import { Head, Name, NameLink, Outcome, Section, useAction } from '../parts/basics.js';
import { Ask } from '../parts/dialog.js';
import { Select, Text } from '../parts/form.js';
import { Table, useLocal } from '../parts/table.js';

const WAYS = /** @type {[string, string][]} */ ([
  ['configure', 'declare and delete'],
  ['write', 'publish to exchanges, bind queues'],
  ['read', 'consume from queues, bind from exchanges'],
]);

const pattern = (text) => html`<code><${Name} of=${text} empty="(nothing)" /></code>`;

/** @param {{rows: any[], of: 'user' | 'vhost' | 'all'}} properties */
export function PermissionTable({ rows, of }) {
  const list = useLocal('permissions', rows, [
    ...(of === 'user' ? [] : [{ id: 'user', title: 'User', sort: 'user', cell: (row) => html`<${NameLink} href=${to.user(row.user)} of=${row.user} />` }]),
    ...(of === 'vhost' ? [] : [{ id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${NameLink} href=${to.vhost(row.vhost)} of=${row.vhost} />` }]),
    ...WAYS.map(([id]) => ({ id, title: id, sort: id, cell: (row) => pattern(row[id]) })),
    { id: 'remove', title: '', cell: (row) => html`<${Ask} verb="Remove" danger small title=${`Remove the permissions of ${row.user} in ${row.vhost}?`} work=${async () => { await remove(path`permissions/${row.vhost}/${row.user}`); ['permissions', 'users', 'vhosts'].forEach(poke); }}><p>The user can't enter this virtual host any more.</p><//>` },
  ]);
  return html`<${Table} list=${list} label="Permissions" short rowKey=${(row) => `${row.vhost}\n${row.user}`} />`;
}

/** @param {{rows: any[], of: 'user' | 'vhost' | 'all'}} properties */
export function TopicTable({ rows, of }) {
  const list = useLocal('topic-permissions', rows, [
    ...(of === 'user' ? [] : [{ id: 'user', title: 'User', sort: 'user', cell: (row) => html`<${NameLink} href=${to.user(row.user)} of=${row.user} />` }]),
    ...(of === 'vhost' ? [] : [{ id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${NameLink} href=${to.vhost(row.vhost)} of=${row.vhost} />` }]),
    { id: 'exchange', title: 'Exchange', sort: 'exchange', cell: (row) => html`<${NameLink} href=${to.exchange(row.vhost, row.exchange)} of=${row.exchange} empty="(AMQP default)" />` },
    { id: 'write', title: 'write', cell: (row) => pattern(row.write) },
    { id: 'read', title: 'read', cell: (row) => pattern(row.read) },
    { id: 'remove', title: '', cell: (row) => html`<${Ask} verb="Remove" danger small title=${`Lift the limits of ${row.user} at ${row.exchange || 'the default exchange'}?`} work=${async () => { await remove(path`topic-permissions/${row.vhost}/${row.user}/${row.exchange || 'amq.default'}`); ['topic-permissions', 'users', 'vhosts'].forEach(poke); }}><p>Any routing key is allowed then.</p><//>` },
  ]);
  return html`<${Table} list=${list} label="Topic permissions" short rowKey=${(row) => `${row.vhost}\n${row.user}\n${row.exchange}`} />`;
}

const SHOWN = 8;

/** The names that a pattern matches, as the node matches them. @param {{vhost: string, kind: 'queues' | 'exchanges', pattern: string}} properties */
function Matched({ vhost, kind, pattern: text }) {
  // The list's filter ignores case, permissions don't.
  const found = useLive(text === '' ? null : path`${kind}/${vhost}` + query({ page: 1, page_size: SHOWN, pagination: 'true', columns: 'name', use_regex: 'true', name: `(?-i:${text})` })).body;
  const total = text === '' ? 0 : found?.filtered_count ?? 0;
  const names = text === '' ? [] : (found?.items ?? []).map(({ name }) => name).filter(Boolean);
  return html`<span><b>${count(total)}</b> ${kind}${names.length > 0 && html`: ${names.map((name, at) => html`${at > 0 && ', '}<${Name} of=${name} />`)}${total > names.length ? ' …' : ''}`}</span>`;
}

/** @param {{vhost: string, patterns: Record<string, string>}} properties */
export const Tester = ({ vhost, patterns }) => html`<div class="panel"><h3>What these patterns match now in <${Name} of=${vhost} /></h3>
  <dl class="facts">${WAYS.map(([way]) => html`<div key=${way}><dt>${way}</dt><dd>${patterns[way] === '' ? html`<span class="faint">nothing: an empty pattern matches no name</span>` : html`<${Matched} vhost=${vhost} kind="queues" pattern=${patterns[way]} /><br /><${Matched} vhost=${vhost} kind="exchanges" pattern=${patterns[way]} />`}</dd></div>`)}</dl></div>`;

/** @param {{user?: string, vhost?: string}} properties the end that is known */
export function PermissionEditor({ user: ofUser, vhost: ofVhost }) {
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const users = useLive(ofUser === undefined && 'users?columns=name&sort=name').body;
  const [user, setUser] = useState(ofUser ?? '');
  const [vhost, setVhost] = useState(ofVhost ?? '/');
  const [patterns, setPatterns] = useState(/** @type {Record<string, string>} */ ({ configure: '.*', write: '.*', read: '.*' }));
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`permissions/${vhost}/${user}`, patterns);
      ['permissions', 'users', 'vhosts'].forEach(poke);
    }, 'Set.');
  };
  const names = (list) => (Array.isArray(list) ? list : []).map(({ name }) => [name, name]);
  return html`<details class="fold"><summary>Set permissions, and test patterns</summary><div class="fold-body columns"><form class="form" onSubmit=${submit}>
    ${ofUser === undefined && html`<${Select} label="User" value=${user} onInput=${setUser} options=${[['', 'Choose a user'], ...names(users)]} />`}
    ${ofVhost === undefined && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${names(vhosts)} />`}
    ${WAYS.map(([way, means]) => html`<${Text} key=${way} label=${way} hint=${`A pattern of names: ${means}.`} value=${patterns[way]} onInput=${(text) => setPatterns({ ...patterns, [way]: text })} />`)}
    <p class="hint">A pattern matches anywhere in a name unless it has ^ and $. Matching is in linear time; look-around is refused.</p>
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy || !user}>Set permissions</button></div>
  </form><${Tester} vhost=${vhost} patterns=${patterns} /></div></details>`;
}

/** @param {{user?: string, vhost?: string}} properties */
export function TopicEditor({ user: ofUser, vhost: ofVhost }) {
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const users = useLive(ofUser === undefined && 'users?columns=name&sort=name').body;
  const [user, setUser] = useState(ofUser ?? '');
  const [vhost, setVhost] = useState(ofVhost ?? '/');
  const [exchange, setExchange] = useState('amq.topic');
  const [write, setWrite] = useState('.*');
  const [read, setRead] = useState('.*');
  const action = useAction();
  const exchanges = useLive(path`exchanges/${vhost}?page=1&page_size=100&pagination=true&columns=name,type`).body;
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`topic-permissions/${vhost}/${user}`, { exchange, write, read });
      ['topic-permissions', 'users', 'vhosts'].forEach(poke);
    }, 'Set.');
  };
  const names = (list) => (Array.isArray(list) ? list : []).map(({ name }) => [name, name]);
  return html`<details class="fold"><summary>Limit routing keys at a topic exchange</summary><form class="fold-body form" onSubmit=${submit}>
    ${ofUser === undefined && html`<${Select} label="User" value=${user} onInput=${setUser} options=${[['', 'Choose a user'], ...names(users)]} />`}
    ${ofVhost === undefined && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${names(vhosts)} />`}
    <${Text} label="Exchange" value=${exchange} onInput=${setExchange} list=${(exchanges?.items ?? []).filter(({ type }) => type === 'topic').map(({ name }) => name)} required />
    <${Text} label="write" value=${write} onInput=${setWrite} hint="A pattern of routing keys that the user may publish with. {username}, {vhost} and {client_id} are replaced." />
    <${Text} label="read" value=${read} onInput=${setRead} hint="A pattern of routing keys that the user may bind with." />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy || !user}>Set topic permissions</button></div>
  </form></details>`;
}

export default function Permissions() {
  const rows = useLive('permissions').body;
  const topics = useLive('topic-permissions').body;
  const without = useLive('users/without-permissions?columns=name').body;
  return html`<div class="page">
    <${Head} title="Permissions" />
    <${Section} title="By user and virtual host">${Array.isArray(rows) && html`<${PermissionTable} rows=${rows} of="all" />`}
      ${Array.isArray(without) && without.length > 0 && html`<p class="muted">Without access to any virtual host: ${without.slice(0, 30).map(({ name }, at) => html`${at > 0 && ', '}<${NameLink} href=${to.user(name)} of=${name} />`)}</p>`}
      <${PermissionEditor} /><//>
    <${Section} title="By topic">${Array.isArray(topics) && topics.length ? html`<${TopicTable} rows=${topics} of="all" />` : html`<p class="muted">No user's routing keys are limited.</p>`}<${TopicEditor} /><//>
  </div>`;
}
