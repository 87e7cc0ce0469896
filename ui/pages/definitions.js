// Everything that is declared, as one file: out and in.
import { html, useState } from '../lib.js';
import { BASE, path, query, request } from '../core/api.js';
import { bytes, count } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { Facts, Head, Outcome, Section, useAction } from '../parts/basics.js';
import { Ask } from '../parts/dialog.js';
import { Check, Row, Select } from '../parts/form.js';

const PARTS = ['users', 'vhosts', 'permissions', 'topic_permissions', 'policies', 'parameters', 'global_parameters', 'queues', 'exchanges', 'bindings'];

/** @param {{vhosts: string[]}} properties */
function Export({ vhosts }) {
  const [vhost, setVhost] = useState('');
  const stamp = new Date().toISOString().slice(0, 10);
  const where = (vhost ? path`definitions/${vhost}` : 'definitions') + query({ download: `definitions-${stamp}.json` });
  return html`<div class="panel form">
    <${Select} label="Of" value=${vhost} onInput=${setVhost} options=${[['', 'the whole node'], ...vhosts.map((name) => [name, `virtual host ${name}`])]} hint=${vhost ? 'Queues, exchanges, bindings and policies of this virtual host.' : 'With users and hashes of their passwords: keep the file as safe as those.'} />
    <div class="form-end"><a class="button" href=${BASE + where} download>Download definitions</a></div>
  </div>`;
}

/** @param {{vhosts: string[]}} properties */
function Import({ vhosts }) {
  const [vhost, setVhost] = useState('');
  const [file, setFile] = useState(/** @type {{name: string, text: string, counts: Record<string, number>, error: string} | null} */ (null));
  const [skip, setSkip] = useState(false);
  const action = useAction();
  const choose = async (event) => {
    const chosen = event.currentTarget.files?.[0];
    action.clear();
    if (!chosen) return setFile(null);
    const text = await chosen.text();
    try {
      const body = JSON.parse(text);
      setFile({ name: chosen.name, text, error: '', counts: Object.fromEntries(PARTS.filter((part) => Array.isArray(body[part])).map((part) => [part, body[part].length])) });
    } catch (reason) {
      setFile({ name: chosen.name, text, error: String(reason.message), counts: {} });
    }
  };
  const send = async () => {
    const answer = await request('POST', (vhost ? path`definitions/${vhost}` : 'definitions') + query({ skip_unsupported: skip && 'true' }), { body: file?.text });
    ['queues', 'exchanges', 'vhosts', 'users', 'policies', 'overview'].forEach(poke);
    return answer;
  };
  return html`<div class="panel form">
    <${Row} label="File" id="definitions-file"><input type="file" id="definitions-file" accept=".json,application/json" onChange=${choose} /><//>
    ${file && (file.error ? html`<p class="bad" role="alert">${file.name} is no JSON: ${file.error}</p>` : html`<${Facts} rows=${[['Size', bytes(file.text.length)], ...Object.entries(file.counts).map(([part, n]) => [part.replaceAll('_', ' '), count(n)])]} />`)}
    <${Select} label="Into" value=${vhost} onInput=${setVhost} options=${[['', 'the whole node, as the file says'], ...vhosts.map((name) => [name, `virtual host ${name}`])]} />
    <${Check} label="Skip unsupported" value=${skip} onInput=${setSkip} hint="Leave out objects that this node can't have, instead of refusing the file." />
    <${Outcome} of=${action} />
    <div class="form-end"><${Ask} verb="Import definitions" title="Import these definitions?" disabled=${!file || !!file.error} work=${send} then=${() => action.run(async () => null, 'Imported.')}>
      <p>What is there already stays. Users and policies of the same name are changed to what the file says. A queue or exchange that is declared otherwise is refused, and nothing is imported then.</p><//></div>
  </div>`;
}

export default function Definitions() {
  const vhosts = useLive('vhosts?columns=name&sort=name').body;
  const names = Array.isArray(vhosts) ? vhosts.map(({ name }) => name) : [];
  return html`<div class="page">
    <${Head} title="Definitions" />
    <p class="muted">Users, virtual hosts, permissions, policies, queues, exchanges and bindings as JSON, in RabbitMQ's format. Messages are not in it.</p>
    <div class="columns"><${Section} title="Out"><${Export} vhosts=${names} /><//><${Section} title="In"><${Import} vhosts=${names} /><//></div>
  </div>`;
}
