// The list of users, and the form that adds one.
import { html, useState } from '../lib.js';
import { path, put } from '../core/api.js';
import { poke } from '../core/live.js';
import { go, to } from '../core/router.js';
import { Head, NameLink, Problem, Section, Tag, useAction } from '../parts/basics.js';
import { Check, Row, Select, Text } from '../parts/form.js';
import { Table, Tools, useList } from '../parts/table.js';

/** Tags, and what each allows. */
export const TAGS = /** @type {[string, string][]} */ ([
  ['administrator', 'everything'],
  ['monitoring', 'see all connections and the node'],
  ['policymaker', 'set policies of own virtual hosts'],
  ['management', 'use this page for own virtual hosts'],
]);

/** Choice of tags. @param {{tags: string[], onChange: (tags: string[]) => void}} properties */
export const TagChoice = ({ tags, onChange }) => {
  const known = TAGS.map(([tag]) => tag);
  const other = tags.filter((tag) => !known.includes(tag));
  return html`${TAGS.map(([tag, allows]) => html`<${Check} key=${tag} label=${tag} hint=${`May ${allows}.`} value=${tags.includes(tag)} onInput=${(on) => onChange(on ? [...tags, tag] : tags.filter((one) => one !== tag))} />`)}
    <${Text} label="Other tags" value=${other.join(', ')} onInput=${(text) => onChange([...tags.filter((tag) => known.includes(tag)), ...text.split(',').map((tag) => tag.trim()).filter(Boolean)])} hint="Separated by commas." />`;
};

/** Ways to give a user a password. @type {[string, string][]} */
export const WAYS = [['password', 'a password'], ['hash', 'the hash of a password'], ['none', 'no password: certificates or nothing']];

/** The part of a user's body that is its password. @param {string} way @param {string} secret */
export const secretOf = (way, secret) => (way === 'password' ? { password: secret } : way === 'hash' ? { password_hash: secret } : { password_hash: '' });

function Add() {
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
  return html`<details class="fold"><summary>Add a user</summary><form class="fold-body form" onSubmit=${submit}>
    <${Text} label="Name" value=${name} onInput=${setName} required />
    <${Select} label="Signs in with" value=${way} onInput=${setWay} options=${WAYS} />
    ${way === 'password' && html`<${Text} label="Password" type="password" autocomplete="new-password" value=${secret} onInput=${setSecret} required /><${Text} label="The same again" type="password" autocomplete="new-password" value=${again} onInput=${setAgain} required />`}
    ${way === 'hash' && html`<${Text} label="Hash" value=${secret} onInput=${setSecret} required hint="As in definitions: base64 of salt and SHA-256." />`}
    <${Row} label="Tags"><span class="hint">Without a tag a user can't sign in here, but can use clients.</span><//>
    <${TagChoice} tags=${tags} onChange=${setTags} />
    <${Problem} of=${action.error} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Add user</button></div>
  </form></details>`;
}

const columns = /** @type {import('../parts/table.js').Column[]} */ ([
  { id: 'name', title: 'Name', fixed: true, sort: 'name', need: ['name'], cell: (row) => html`<${NameLink} href=${to.user(row.name)} of=${row.name} />` },
  { id: 'tags', title: 'Tags', sort: 'tags', need: ['tags'], cell: (row) => html`<span class="tags">${(Array.isArray(row.tags) ? row.tags : []).map((tag) => html`<${Tag} kind=${tag === 'administrator' ? 'accent' : ''}>${tag}<//>`)}</span>` },
  { id: 'password', title: 'Password', need: ['password_hash'], cell: (row) => (row.password_hash ? 'yes' : html`<span class="zero">none</span>`) },
  { id: 'limits', title: 'Limits', need: ['limits'], cell: (row) => Object.entries(Array.isArray(row.limits) ? {} : row.limits ?? {}).map(([key, value]) => `${key} ${value}`).join(', ') || html`<span class="zero">–</span>` },
]);

export default function Users() {
  const list = useList({ id: 'users', path: 'users', columns, always: ['name'], sort: 'name' });
  return html`<div class="page">
    <${Head} title="Users" />
    <${Tools} list=${list} what="users" />
    <${Table} list=${list} label="Users" rowKey=${(row) => row.name} short />
    <${Section} title="New"><${Add} /><//>
  </div>`;
}
