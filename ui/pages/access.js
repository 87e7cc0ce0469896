// Users, permissions and limits.
import { html, useState } from '../lib.js';
import { may, me, path, path as encode, put, query, remove } from '../core/api.js';
import { count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { go, link, to } from '../core/router.js';
import { Await, Empty, Facts, Fold, Head, Name, NameLink, Outcome, Problem, Section, Tag, useAction, useVhosts } from '../parts/basics.js';
import { Ask, Check, Destroy, Row, Select, Text } from '../parts/forms.js';
import { Table, Tools, useList, useLocal } from '../parts/table.js';

/** Tags, and what each allows. */
export const TAGS = /** @type {[string, string][]} */ ([
  ['administrator', 'may do everything'],
  ['monitoring', 'sees all connections and the node'],
  ['policymaker', 'sets policies of its virtual hosts'],
  ['management', 'uses this page for its virtual hosts'],
]);

/** Choice of tags. */
export const TagChoice = ({ tags, onChange }) => {
  const known = TAGS.map(([tag]) => tag);
  const other = tags.filter((tag) => !known.includes(tag));
  return html`${TAGS.map(([tag, allows]) => html`<${Check} key=${tag} label=${tag} hint=${allows} value=${tags.includes(tag)} onInput=${(on) => onChange(on ? [...tags, tag] : tags.filter((one) => one !== tag))} />`)}
    <${Text} label="Other tags" value=${other.join(', ')} onInput=${(text) =>
      onChange([
        ...tags.filter((tag) => known.includes(tag)),
        ...text
          .split(',')
          .map((tag) => tag.trim())
          .filter(Boolean),
      ])} hint="Separated by commas." />`;
};

/** Ways to give a user a password. @type {[string, string][]} */
const SECRETS = [
  ['password', 'a password'],
  ['hash', 'the hash of a password'],
  ['none', 'no password: certificates or nothing'],
];

/** The part of a user's body that is its password. @param {string} way @param {string} secret */
export const secretOf = (way, secret) =>
  way === 'password' ? { password: secret } : way === 'hash' ? { password_hash: secret } : { password_hash: '' };

function AddUser() {
  const [name, setName] = useState('');
  const [way, setWay] = useState('password');
  const [secret, setSecret] = useState('');
  const [again, setAgain] = useState('');
  const [tags, setTags] = useState(/** @type {string[]} */ ([]));
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    const added = await action.run(async () => {
      if (way === 'password' && secret !== again) throw new Error('The two passwords differ.');
      await put(path`users/${name}`, { ...secretOf(way, secret), tags });
      poke('users');
    });
    if (added) go(to.user(name));
  };
  return html`<${Fold} title="Add a user"><form class="form" onSubmit=${submit}>
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Select} label="Signs in with" value=${way} onInput=${setWay} options=${SECRETS} />
    ${way === 'password' && html`<${Text} label="Password" type="password" autocomplete="new-password" value=${secret} onInput=${setSecret} required /><${Text} label="The same again" type="password" autocomplete="new-password" value=${again} onInput=${setAgain} required />`}
    ${way === 'hash' && html`<${Text} label="Hash" value=${secret} onInput=${setSecret} required hint="As in definitions: base64 of salt and SHA-256." />`}
    <${Row} label="Tags"><span class="hint">Without a tag a user can't sign in here, but can use clients.</span><//>
    <${TagChoice} tags=${tags} onChange=${setTags} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add user</button></div>
  </form><//>`;
}

const userColumns = /** @type {import('../parts/table.js').Column[]} */ ([
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    need: ['name'],
    cell: (row) => html`<${NameLink} href=${to.user(row.name)} of=${row.name} />`,
  },
  {
    id: 'tags',
    title: 'Tags',
    sort: 'tags',
    need: ['tags'],
    cell: (row) =>
      html`<span class="tags">${(Array.isArray(row.tags) ? row.tags : []).map((tag) => html`<${Tag} kind=${tag === 'administrator' ? 'accent' : ''}>${tag}<//>`)}</span>`,
  },
  {
    id: 'password',
    title: 'Password',
    need: ['password_hash'],
    cell: (row) => (row.password_hash ? 'yes' : html`<span class="zero">none</span>`),
  },
  {
    id: 'limits',
    title: 'Limits',
    need: ['limits'],
    cell: (row) =>
      Object.entries(Array.isArray(row.limits) ? {} : (row.limits ?? {}))
        .map(([key, value]) => `${key} ${value}`)
        .join(', ') || html`<span class="zero">–</span>`,
  },
]);

export function Users() {
  const list = useList({ id: 'users', path: 'users', columns: userColumns, always: ['name'], sort: 'name' });
  return html`<div class="page">
    <${Head} title="Users" />
    <${Tools} list=${list} what="users" />
    <${Table} list=${list} label="Users" rowKey=${(row) => row.name} short />
    <${Section} title="New"><${AddUser} /><//>
  </div>`;
}

// One user: permissions, limits, password and tags.

function ChangeUser({ user }) {
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
    <${Select} label="Password" value=${way} onInput=${setWay} options=${[['keep', 'as it is'], ...SECRETS]} hint=${way !== 'keep' && 'Sessions of this page that the user has open end.'} />
    ${way === 'password' && html`<${Text} label="New password" type="password" autocomplete="new-password" value=${secret} onInput=${setSecret} required />`}
    ${way === 'hash' && html`<${Text} label="Hash" value=${secret} onInput=${setSecret} required />`}
    <${TagChoice} tags=${tags} onChange=${setTags} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Change user</button></div>
  </form>`;
}

export function User({ path }) {
  const name = path[1];
  const base = encode`users/${name}`;
  const live = useLive(base);
  const permissions = useLive(`${base}/permissions`);
  const topics = useLive(`${base}/topic-permissions`);
  const connections = useLive(encode`connections/username/${name}`).body;
  const user = live.body;
  return html`<div class="page">
    <${Head} title=${html`<${Name} of=${name} />`} above=${html`<a href=${link(['users'])}>Users</a>`} tags=${user && Array.isArray(user.tags) && user.tags.map((tag) => html`<${Tag}>${tag}<//>`)}
      aside=${
        user &&
        html`<${Destroy} verb="Delete" kind="user" name=${name} small disabled=${name === me.value?.name} work=${async () => {
          await remove(base);
          poke('users');
        }} then=${() => go(link(['users']))}>
        <${Facts} rows=${[
          ['Open connections', String(connections?.length ?? 0)],
          ['Permissions', String(permissions.body?.length ?? 0)],
        ]} /><p>Its connections are closed. What it declared stays.</p><//>`
      } />
    <${Await} live=${live} gone="There is no such user.">${() => html`
      <${Section} title="Permissions"><${Await} live=${permissions}>${(rows) => (rows.length ? html`<${PermissionTable} rows=${rows} of="user" />` : html`<${Empty}>It may enter no virtual host.<//>`)}<//>
        <${PermissionEditor} user=${name} /><//>
      <${Section} title="Topic permissions"><${Await} live=${topics}>${(rows) => (rows.length ? html`<${TopicTable} rows=${rows} of="user" />` : html`<p class="muted">Routing keys are not limited.</p>`)}<//><${TopicEditor} user=${name} /><//>
      <div class="columns">
        <${Section} title="Limits"><${LimitEditor} kind="user" name=${name} /><//>
        <${Section} title="Connections" aside=${
          connections?.length > 0 &&
          html`<${Ask} verb="Close all" danger small title=${`Close ${connections.length} connections?`} work=${async () => {
            await remove(encode`connections/username/${name}`);
            poke('connections');
          }}><p>Most clients connect again by themselves.</p><//>`
        }>${connections?.length ? html`<ul class="panel">${connections.slice(0, 20).map((one) => html`<li key=${one.name}><${NameLink} href=${to.connection(one.name)} of=${one.name} /></li>`)}${connections.length > 20 && html`<li>and ${connections.length - 20} more</li>`}</ul>` : html`<${Empty}>It is not connected.<//>`}<//>
      </div>
      <${Section} title="Password and tags"><${ChangeUser} user=${user} key=${`${user.name}${user.tags}`} /><//>`}<//>
  </div>`;
}

// Permissions: patterns of names that a user may configure, write and read, with a look at what they match.

const WAYS = /** @type {[string, string][]} */ ([
  ['configure', 'declare and delete'],
  ['write', 'publish to exchanges, bind queues'],
  ['read', 'consume from queues, bind from exchanges'],
]);

const pattern = (text) => html`<code><${Name} of=${text} empty="(nothing)" /></code>`;

/** The columns of user and virtual host, without that of the page. @param {string} [of] */
const whose = (of) => [
  ...(of === 'user'
    ? []
    : [
        {
          id: 'user',
          title: 'User',
          sort: 'user',
          cell: (row) => html`<${NameLink} href=${to.user(row.user)} of=${row.user} />`,
        },
      ]),
  ...(of === 'vhost'
    ? []
    : [
        {
          id: 'vhost',
          title: 'Virtual host',
          sort: 'vhost',
          cell: (row) => html`<${NameLink} href=${to.vhost(row.vhost)} of=${row.vhost} />`,
        },
      ]),
];

export function PermissionTable({ rows, of }) {
  const list = useLocal('permissions', rows, [
    ...whose(of),
    ...WAYS.map(([id]) => ({ id, title: id, sort: id, cell: (row) => pattern(row[id]) })),
    {
      id: 'remove',
      title: '',
      cell: (row) =>
        html`<${Ask} verb="Remove" danger small title=${`Remove the permissions of ${row.user} in ${row.vhost}?`} work=${async () => {
          await remove(path`permissions/${row.vhost}/${row.user}`);
          ['permissions', 'users', 'vhosts'].forEach(poke);
        }}><p>The user can't enter this virtual host any more.</p><//>`,
    },
  ]);
  return html`<${Table} list=${list} label="Permissions" short rowKey=${(row) => `${row.vhost}\n${row.user}`} />`;
}

export function TopicTable({ rows, of }) {
  const list = useLocal('topic-permissions', rows, [
    ...whose(of),
    {
      id: 'exchange',
      title: 'Exchange',
      sort: 'exchange',
      cell: (row) => html`<${NameLink} href=${to.exchange(row.vhost, row.exchange)} of=${row.exchange} empty="(AMQP default)" />`,
    },
    { id: 'write', title: 'write', cell: (row) => pattern(row.write) },
    { id: 'read', title: 'read', cell: (row) => pattern(row.read) },
    {
      id: 'remove',
      title: '',
      cell: (row) =>
        html`<${Ask} verb="Remove" danger small title=${`Lift the limits of ${row.user} at ${row.exchange || 'the default exchange'}?`} work=${async () => {
          await remove(path`topic-permissions/${row.vhost}/${row.user}/${row.exchange || 'amq.default'}`);
          ['topic-permissions', 'users', 'vhosts'].forEach(poke);
        }}><p>Any routing key is allowed then.</p><//>`,
    },
  ]);
  return html`<${Table} list=${list} label="Topic permissions" short rowKey=${(row) => `${row.vhost}\n${row.user}\n${row.exchange}`} />`;
}

const MATCHES = 8;

/** The names that a pattern matches, as the node matches them. */
function Matched({ vhost, kind, pattern: text }) {
  // The list's filter ignores case, permissions don't.
  const found = useLive(
    text === ''
      ? null
      : path`${kind}/${vhost}` +
          query({ page: 1, page_size: MATCHES, pagination: 'true', columns: 'name', use_regex: 'true', name: `(?-i:${text})` }),
  ).body;
  const total = text === '' ? 0 : (found?.filtered_count ?? 0);
  const names = text === '' ? [] : (found?.items ?? []).map(({ name }) => name).filter(Boolean);
  return html`<span><b>${count(total)}</b> ${kind}${names.length > 0 && html`: ${names.map((name, at) => html`${at > 0 && ', '}<${Name} of=${name} />`)}${total > names.length ? ' …' : ''}`}</span>`;
}

export const Tester = ({
  vhost,
  patterns,
}) => html`<div class="panel"><h3>What these patterns match now in <${Name} of=${vhost} /></h3>
  <dl class="facts">${WAYS.map(([way]) => html`<div key=${way}><dt>${way}</dt><dd>${patterns[way] === '' ? html`<span class="faint">nothing: an empty pattern matches no name</span>` : html`<${Matched} vhost=${vhost} kind="queues" pattern=${patterns[way]} /><br /><${Matched} vhost=${vhost} kind="exchanges" pattern=${patterns[way]} />`}</dd></div>`)}</dl></div>`;

function PermissionForm({ user: ofUser, vhost: ofVhost }) {
  const vhosts = useVhosts();
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
  return html`<div class="columns"><form class="form" onSubmit=${submit}>
    ${ofUser === undefined && html`<${Select} label="User" value=${user} onInput=${setUser} options=${[['', 'Choose a user'], ...names(users)]} />`}
    ${ofVhost === undefined && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${(vhosts ?? []).map((name) => [name, name])} />`}
    ${WAYS.map(([way, means]) => html`<${Text} key=${way} label=${way} hint=${`A pattern of names: ${means}.`} value=${patterns[way]} onInput=${(text) => setPatterns({ ...patterns, [way]: text })} />`)}
    <p class="hint">A pattern matches anywhere in a name unless it has ^ and $. Matching is in linear time; look-around is refused.</p>
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy || !user}>Set permissions</button></div>
  </form><${Tester} vhost=${vhost} patterns=${patterns} /></div>`;
}

/** @param {{user?: string, vhost?: string}} known */
export const PermissionEditor = (known) =>
  html`<${Fold} title="Set permissions, and test patterns"><${PermissionForm} ...${known} /><//>`;

function TopicForm({ user: ofUser, vhost: ofVhost }) {
  const vhosts = useVhosts();
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
  return html`<form class="form" onSubmit=${submit}>
    ${ofUser === undefined && html`<${Select} label="User" value=${user} onInput=${setUser} options=${[['', 'Choose a user'], ...names(users)]} />`}
    ${ofVhost === undefined && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${(vhosts ?? []).map((name) => [name, name])} />`}
    <${Text} label="Exchange" value=${exchange} onInput=${setExchange} list=${(exchanges?.items ?? []).filter(({ type }) => type === 'topic').map(({ name }) => name)} required />
    <${Text} label="write" value=${write} onInput=${setWrite} hint="A pattern of routing keys that the user may publish with. {username}, {vhost} and {client_id} are replaced." />
    <${Text} label="read" value=${read} onInput=${setRead} hint="A pattern of routing keys that the user may bind with." />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy || !user}>Set topic permissions</button></div>
  </form>`;
}

/** @param {{user?: string, vhost?: string}} known */
export const TopicEditor = (known) =>
  html`<${Fold} title="Limit routing keys at a topic exchange"><${TopicForm} ...${known} /><//>`;

export function Permissions() {
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

// Limits of virtual hosts and users.

const KINDS = {
  vhost: {
    list: 'vhost-limits',
    names: [
      ['max-connections', 'Connections'],
      ['max-queues', 'Queues'],
    ],
  },
  user: {
    list: 'user-limits',
    names: [
      ['max-connections', 'Connections'],
      ['max-channels', 'Channels'],
    ],
  },
};

export function LimitEditor({ kind, name }) {
  const { list, names } = KINDS[kind];
  const rows = useLive(path`${list}/${name}`).body;
  const values = (Array.isArray(rows) && rows[0]?.value) || {};
  const [drafts, setDrafts] = useState(/** @type {Record<string, string>} */ ({}));
  const action = useAction();
  /** @param {string} limit @param {string | null} value */
  const set = (limit, value) =>
    action.run(
      async () => {
        const where = path`${list}/${name}/${limit}`;
        if (value === null) await remove(where);
        else await put(where, { value: Number(value) });
        setDrafts({ ...drafts, [limit]: '' });
        poke(list);
        poke('users');
      },
      value === null ? 'Lifted.' : 'Set.',
    );
  return html`<div class="panel form">${names.map(
    ([limit, title]) => html`<form class="form-row" key=${limit} onSubmit=${(event) => {
      event.preventDefault();
      set(limit, drafts[limit]);
    }}>
      <label for=${`limit-${limit}`}>${title}</label><div class="field">
      <input id=${`limit-${limit}`} type="number" min="-1" required value=${drafts[limit] ?? ''} placeholder=${values[limit] ?? 'no limit'} onInput=${(event) => setDrafts({ ...drafts, [limit]: event.currentTarget.value })} />
      <button type="submit" disabled=${action.busy || !drafts[limit]}>Set</button>
      ${values[limit] !== undefined && html`<button type="button" onClick=${() => set(limit, null)}>Lift the limit of ${count(values[limit])}</button>`}</div></form>`,
  )}
    <${Outcome} of=${action} /></div>`;
}

function LimitsOf({ kind }) {
  const { list, names } = KINDS[kind];
  const rows = useLive(list).body;
  const all = useLive(may.administer() && `${kind}s?columns=name&sort=name`).body;
  const [chosen, setChosen] = useState('');
  const shown = (Array.isArray(rows) ? rows : []).filter((row) => Object.keys(row.value ?? {}).length);
  const href = kind === 'vhost' ? to.vhost : to.user;
  return html`<${Section} title=${kind === 'vhost' ? 'Of virtual hosts' : 'Of users'}>
    ${
      shown.length
        ? html`<div class="table-box plain-table"><table><thead><tr><th scope="col">${kind === 'vhost' ? 'Virtual host' : 'User'}</th>${names.map(([, title]) => html`<th scope="col" class="num">${title}</th>`)}</tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row[kind]}><td>${may.administer() ? html`<${NameLink} href=${href(row[kind])} of=${row[kind]} />` : html`<${Name} of=${row[kind]} />`}</td>${names.map(([limit]) => html`<td class="num">${row.value[limit] === undefined ? html`<span class="zero">–</span>` : count(row.value[limit])}</td>`)}</tr>`)}</tbody></table></div>`
        : html`<${Empty}>None has a limit of its own.<//>`
    }
    ${may.administer() && html`<div class="panel form"><${Select} label="Set a limit of" value=${chosen} onInput=${setChosen} options=${[['', kind === 'vhost' ? 'Choose a virtual host' : 'Choose a user'], ...(Array.isArray(all) ? all : []).map(({ name }) => [name, name])]} />${chosen && html`<${LimitEditor} kind=${kind} name=${chosen} key=${chosen} />`}</div>`}
  <//>`;
}

export function Limits() {
  return html`<div class="page"><${Head} title="Limits" /><div class="columns"><${LimitsOf} kind="vhost" />${may.administer() && html`<${LimitsOf} kind="user" />`}</div></div>`;
}

// The list of virtual hosts, and the form that adds one.
