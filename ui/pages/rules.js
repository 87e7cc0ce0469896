// Policies with a preview of what they change, definitions, traces, and feature flags.
import { html, useEffect, useState } from '../lib.js';
import { BASE, may, path, path as encode, put, query, remove, request } from '../core/api.js';
import { bytes, count, plain, several } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { chosenVhost, go, link, route, to } from '../core/router.js';
import {
  Arguments,
  Await,
  Empty,
  ExchangeLink,
  Facts,
  Fold,
  Head,
  Name,
  NameLink,
  Outcome,
  QueueLink,
  Section,
  Tabs,
  Tag,
  useAction,
  useVhosts,
  usualVhost,
  VhostName,
} from '../parts/basics.js';
import { Ask, Check, Destroy, objectOf, OPERATOR_KEYS, Pairs, pairsOf, POLICY_KEYS, Row, Select, Text } from '../parts/forms.js';
import { Table, Tools, useList, useLocal } from '../parts/table.js';

const APPLY = /** @type {[string, string][]} */ ([
  ['all', 'queues and exchanges'],
  ['queues', 'queues'],
  ['classic_queues', 'classic queues'],
  ['quorum_queues', 'quorum queues'],
  ['streams', 'streams'],
  ['exchanges', 'exchanges'],
]);

/** A change of a value. */
const Change = ({ of }) =>
  html`${of.before === null ? html`<span class="faint">none</span>` : html`<${Name} of=${plain(of.before)} />`} → ${of.after === null ? html`<span class="faint">none</span>` : html`<b><${Name} of=${plain(of.after)} /></b>`}`;

/** The answer of a dry run. */
export function Preview({ of, vhost }) {
  const total = of.queues.matched + of.exchanges.matched;
  return html`<div class="panel stack"><p>It would apply to <b>${several(of.queues.matched, 'queue')}</b> and <b>${several(of.exchanges.matched, 'exchange')}</b>, and change ${several(of.queues.changed, 'queue')} and ${several(of.exchanges.changed, 'exchange')}.${total === 0 ? ' Nothing has such a name now, or a policy with a higher priority wins.' : ''}</p>
    ${
      of.changes.length > 0 &&
      html`<div class="table-box plain-table short" tabindex="0" role="region" aria-label="Changes"><table><thead><tr><th scope="col">Object</th><th scope="col">Policy</th><th scope="col">Operator policy</th><th scope="col">What changes</th></tr></thead>
      <tbody>${of.changes.map(
        (
          change,
          at,
        ) => html`<tr key=${at}><td>${change.queue !== undefined ? html`<${QueueLink} vhost=${vhost} name=${change.queue} />` : html`<span class="muted">exchange </span><${ExchangeLink} vhost=${vhost} name=${change.exchange} />`}</td>
        <td>${change.policy.before === change.policy.after ? html`<span class="faint">${change.policy.after ?? 'none'}</span>` : html`<${Change} of=${change.policy} />`}</td>
        <td>${change.operator_policy.before === change.operator_policy.after ? html`<span class="faint">${change.operator_policy.after ?? 'none'}</span>` : html`<${Change} of=${change.operator_policy} />`}</td>
        <td>${Object.entries(change.arguments).map(([key, of]) => html`<div key=${key}><code>${key}</code> <${Change} of=${of} /></div>`)}</td></tr>`,
      )}</tbody></table></div>`
    }
    ${of.changes_left_out > 0 && html`<p class="muted">and ${count(of.changes_left_out)} more.</p>`}</div>`;
}

/**
 * @param {{kind: 'policies' | 'operator-policies', vhosts: string[], policy?: any, onSaved?: (vhost: string, name: string) => void}} properties
 *   `policy`: the one that is changed
 */
export function PolicyForm({ kind, vhosts, policy, onSaved }) {
  const operator = kind === 'operator-policies';
  const [vhost, setVhost] = useState(policy?.vhost ?? usualVhost(vhosts));
  const [name, setName] = useState(policy?.name ?? '');
  const [pattern, setPattern] = useState(policy?.pattern ?? '');
  const [apply, setApply] = useState(policy?.['apply-to'] ?? 'queues');
  const [priority, setPriority] = useState(String(policy?.priority ?? 0));
  const [pairs, setPairs] = useState(() => pairsOf(policy?.definition));
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  const action = useAction();
  /** @param {boolean} dry */
  const send = (dry) =>
    request('PUT', path`${kind}/${vhost}/${name}` + (dry ? '?dry_run=true' : ''), {
      body: { pattern, 'apply-to': apply, priority: Number(priority), definition: objectOf(pairs) },
    });
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
    ${
      !policy &&
      html`${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required />`
    }
    <${Text} label="Pattern" value=${pattern} onInput=${setPattern} hint="Names that it matches; anywhere in the name unless it has ^ and $. Empty: every name." />
    <${Select} label="Applies to" value=${apply} onInput=${setApply} options=${operator ? APPLY.filter(([key]) => key !== 'all' && key !== 'exchanges') : APPLY} />
    <${Text} label="Priority" type="number" value=${priority} onInput=${setPriority} hint="Of several that match, the one with the highest priority applies; of equals, the first by name." />
    <${Pairs} label="Definition" pairs=${pairs} onChange=${setPairs} known=${operator ? OPERATOR_KEYS : POLICY_KEYS} what="key" />
    ${preview && html`<${Preview} of=${preview} vhost=${vhost} />`}
    <${Outcome} of=${action} />
    <div class="form-end"><button type="button" disabled=${action.busy || !name} onClick=${look}>See what it would change</button><button type="submit" class="primary" disabled=${action.busy}>Save policy</button></div>
  </form>`;
}

// Policies and operator policies.

/** @param {(vhost: string, name: string) => string} href @returns {import('../parts/table.js').Column[]} */
const columns = (href) => [
  {
    id: 'name',
    title: 'Name',
    fixed: true,
    sort: 'name',
    cell: (row) => html`<${NameLink} href=${href(row.vhost, row.name)} of=${row.name} />`,
  },
  ...(chosenVhost.value
    ? []
    : [{ id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${VhostName} name=${row.vhost} />` }]),
  {
    id: 'pattern',
    title: 'Pattern',
    sort: 'pattern',
    cell: (row) => html`<code><${Name} of=${row.pattern} empty="(every name)" /></code>`,
  },
  { id: 'apply', title: 'Applies to', sort: 'apply-to', cell: (row) => row['apply-to'].replace('_', ' ') },
  { id: 'priority', title: 'Priority', num: true, sort: 'priority', cell: (row) => count(row.priority) },
  {
    id: 'definition',
    title: 'Definition',
    cell: (row) =>
      html`<span class="mono">${Object.entries(row.definition).map(([key, value], at) => html`${at > 0 && ', '}${key}: <${Name} of=${typeof value === 'string' ? value : JSON.stringify(value)} />`)}</span>`,
  },
];

export function Policies() {
  const operator = route.value.query.kind === 'operator';
  const kind = operator ? 'operator-policies' : 'policies';
  const vhost = chosenVhost.value;
  const list = useList({
    id: kind,
    path: vhost ? path`${kind}/${vhost}` : kind,
    columns: columns(operator ? to.operatorPolicy : to.policy),
    whole: true,
    sort: 'priority',
    reverse: true,
  });
  const vhosts = useVhosts();
  const overview = useLive('overview').body;
  const names = vhosts ?? [];
  const mayChange = operator ? may.administer() && overview?.is_op_policy_updating_enabled !== false : may.setPolicies();
  return html`<div class="page">
    <${Head} title=${operator ? 'Operator policies' : 'Policies'} />
    <${Tabs} label="Kinds of policies" now=${operator ? 'operator' : 'user'} href=${(id) => link(['policies'], { kind: id === 'user' ? '' : id })} tabs=${[
      ['user', 'Policies'],
      ['operator', 'Operator policies'],
    ]} />
    <p class="muted">${operator ? 'Limits that hold whatever policies and declarations say.' : 'Arguments for all queues and exchanges whose names match a pattern.'} One of each kind applies to an object.</p>
    <${Tools} list=${list} what=${operator ? 'operator policies' : 'policies'} />
    <${Table} list=${list} label="Policies" rowKey=${(row) => `${row.vhost}\n${row.name}`} short />
    ${mayChange && names.length > 0 && html`<${Section} title="New"><${Fold} key=${kind} title=${html`Add ${operator ? 'an operator policy' : 'a policy'}`}><div class="stack"><${PolicyForm} kind=${kind} vhosts=${vhost ? [vhost] : names} onSaved=${(of, name) => go((operator ? to.operatorPolicy : to.policy)(of, name))} /></div><//><//>`}
  </div>`;
}

// One policy or operator policy.

/** Changes that its deletion would make. */
function Loss({ base, vhost }) {
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  useEffect(() => {
    request('DELETE', `${base}?dry_run=true`).then(
      ({ body }) => setPreview(body),
      () => {},
    );
  }, [base]);
  return preview && html`<${Preview} of=${preview} vhost=${vhost} />`;
}

export function Policy({ path }) {
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
      aside=${
        found.body &&
        mayChange &&
        html`<${Destroy} verb="Delete" kind=${operator ? 'operator policy' : 'policy'} name=${name} small work=${async () => {
          await remove(base);
          [kind, 'queues', 'exchanges'].forEach(poke);
        }} then=${() => go(link(['policies'], { kind: operator && 'operator' }))}><${Loss} base=${base} vhost=${vhost} /><//>`
      } />
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

// Everything that is declared, as one file: out and in.

const PARTS = [
  'users',
  'vhosts',
  'permissions',
  'topic_permissions',
  'policies',
  'parameters',
  'global_parameters',
  'queues',
  'exchanges',
  'bindings',
];

function Export({ vhosts }) {
  const [vhost, setVhost] = useState('');
  const stamp = new Date().toISOString().slice(0, 10);
  const where = (vhost ? path`definitions/${vhost}` : 'definitions') + query({ download: `definitions-${stamp}.json` });
  return html`<div class="panel form">
    <${Select} label="Of" value=${vhost} onInput=${setVhost} options=${[['', 'the whole node'], ...vhosts.map((name) => [name, `virtual host ${name}`])]} hint=${vhost ? 'Queues, exchanges, bindings and policies of this virtual host.' : 'With users and hashes of their passwords: keep the file as safe as those.'} />
    <div class="form-end"><a class="button" href=${BASE + where} download>Download definitions</a></div>
  </div>`;
}

function Import({ vhosts }) {
  const [vhost, setVhost] = useState('');
  const [file, setFile] = useState(
    /** @type {{name: string, text: string, counts: Record<string, number>, error: string} | null} */ (null),
  );
  const [skip, setSkip] = useState(false);
  const action = useAction();
  const choose = async (event) => {
    const chosen = event.currentTarget.files?.[0];
    action.clear();
    if (!chosen) return setFile(null);
    const text = await chosen.text();
    try {
      const body = JSON.parse(text);
      setFile({
        name: chosen.name,
        text,
        error: '',
        counts: Object.fromEntries(PARTS.filter((part) => Array.isArray(body[part])).map((part) => [part, body[part].length])),
      });
    } catch (reason) {
      setFile({ name: chosen.name, text, error: String(reason.message), counts: {} });
    }
  };
  const send = async () => {
    const answer = await request(
      'POST',
      (vhost ? path`definitions/${vhost}` : 'definitions') + query({ skip_unsupported: skip && 'true' }),
      { body: file?.text },
    );
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

export function Definitions() {
  const vhosts = useVhosts();
  const names = vhosts ?? [];
  return html`<div class="page">
    <${Head} title="Definitions" />
    <p class="muted">Users, virtual hosts, permissions, policies, queues, exchanges and bindings as JSON, in RabbitMQ's format. Messages are not in it.</p>
    <div class="columns"><${Section} title="Out"><${Export} vhosts=${names} /><//><${Section} title="In"><${Import} vhosts=${names} /><//></div>
  </div>`;
}

// Traces of messages that are written to files of the node.

function Start({ vhosts }) {
  const [vhost, setVhost] = useState(usualVhost(vhosts));
  const [name, setName] = useState('');
  const [format, setFormat] = useState('text');
  const [pattern, setPattern] = useState('#');
  const [most, setMost] = useState('1000');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await put(path`traces/${vhost}/${name}`, { format, pattern, ...(most ? { max_payload_bytes: Number(most) } : {}) });
      poke('traces');
      poke('trace-files');
    }, 'Started.');
  };
  return html`<form class="panel form" onSubmit=${submit}>
    ${vhosts.length > 1 && html`<${Select} label="Virtual host" value=${vhost} onInput=${setVhost} options=${vhosts.map((one) => [one, one])} />`}
    <${Text} label="Name" value=${name} onInput=${setName} required hint="Also the name of the file." />
    <${Select} label="Format" value=${format} onInput=${setFormat} options=${[
      ['text', 'text'],
      ['json', 'JSON, one object a line'],
    ]} />
    <${Text} label="Pattern" value=${pattern} onInput=${setPattern} required hint="# is everything, publish.EXCHANGE what is published there, deliver.QUEUE what leaves a queue." />
    <${Text} label="Bytes of each body" type="number" min=${0} value=${most} onInput=${setMost} hint="Longer bodies are cut." />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Start trace</button></div>
  </form>`;
}

export function Traces() {
  const traces = useLive('traces');
  const files = useLive('trace-files');
  const vhosts = useVhosts();
  const running = useLocal('traces', Array.isArray(traces.body) ? traces.body : [], [
    { id: 'name', title: 'Name', sort: 'name', cell: (row) => html`<${Name} of=${row.name} />` },
    { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (row) => html`<${Name} of=${row.vhost} />` },
    { id: 'pattern', title: 'Pattern', cell: (row) => html`<code><${Name} of=${row.pattern} /></code>` },
    { id: 'format', title: 'Format', cell: (row) => row.format },
    {
      id: 'most',
      title: 'Bytes of each body',
      num: true,
      cell: (row) => (row.max_payload_bytes === undefined ? 'all' : count(row.max_payload_bytes)),
    },
    {
      id: 'stop',
      title: '',
      cell: (row) =>
        html`<${Ask} verb="Stop" small title=${`Stop the trace ${row.name}?`} work=${async () => {
          await remove(path`traces/${row.vhost}/${row.name}`);
          poke('traces');
        }}><p>Its file stays.</p><//>`,
    },
  ]);
  const kept = useLocal('trace-files', Array.isArray(files.body) ? files.body : [], [
    {
      id: 'name',
      title: 'File',
      sort: 'name',
      cell: (row) =>
        html`<a href=${BASE + path`trace-files/${row.name}`} target="_blank" rel="noopener"><${Name} of=${row.name} /></a>`,
    },
    { id: 'size', title: 'Size', num: true, sort: 'size', cell: (row) => bytes(row.size) },
    {
      id: 'delete',
      title: '',
      cell: (row) =>
        html`<${Destroy} verb="Delete" kind="trace file" name=${row.name} small work=${async () => {
          await remove(path`trace-files/${row.name}`);
          poke('trace-files');
        }}><p>${bytes(row.size)} are deleted.</p><//>`,
    },
  ]);
  return html`<div class="page">
    <${Head} title="Traces" />
    <p class="muted">Copies of messages that are published to a virtual host and delivered from it, in a file. While a trace runs, each message costs more.</p>
    <${Section} title="Running"><${Await} live=${traces}>${(rows) => (rows.length ? html`<${Table} list=${running} label="Traces" short rowKey=${(row) => `${row.vhost}\n${row.name}`} />` : html`<${Empty}>No trace runs.<//>`)}<//><//>
    <${Section} title="Files"><${Await} live=${files}>${(rows) => (rows.length ? html`<${Table} list=${kept} label="Trace files" short rowKey=${(row) => row.name} />` : html`<${Empty}>There is no file.<//>`)}<//><//>
    <${Section} title="New">${vhosts && html`<${Start} vhosts=${vhosts} />`}<//>
  </div>`;
}

// Feature flags, and deprecated features that are in use.

const PHASES = {
  permitted_by_default: 'permitted by default',
  denied_by_default: 'denied by default',
  disconnected: 'unavailable',
  removed: 'removed',
};

export function Features() {
  const flags = useLive('feature-flags');
  const deprecated = useLive('deprecated-features');
  const used = useLive('deprecated-features/used');
  const names = new Set((Array.isArray(used.body) ? used.body : []).map(({ name }) => name));
  const one = useLocal('flags', Array.isArray(flags.body) ? flags.body : [], [
    { id: 'name', title: 'Flag', sort: 'name', cell: (row) => html`<code><${Name} of=${row.name} /></code>` },
    {
      id: 'state',
      title: 'State',
      sort: 'state',
      cell: (row) => html`<span class=${row.state === 'enabled' ? 'good' : ''}>${row.state}</span>`,
    },
    { id: 'desc', title: 'Means', cell: (row) => html`<span title=${row.desc}>${row.desc}</span>` },
  ]);
  const two = useLocal(
    'deprecated',
    (Array.isArray(deprecated.body) ? deprecated.body : []).map((row) => ({ ...row, used: names.has(row.name) })),
    [
      {
        id: 'name',
        title: 'Feature',
        sort: 'name',
        cell: (row) => html`<code><${Name} of=${row.name} /></code> ${row.used && html`<${Tag} kind="warn">in use<//>`}`,
      },
      {
        id: 'phase',
        title: 'In RabbitMQ',
        sort: 'deprecation_phase',
        cell: (row) => PHASES[row.deprecation_phase] ?? row.deprecation_phase,
      },
      {
        id: 'state',
        title: 'Here',
        sort: 'state',
        cell: (row) => html`<span class=${row.state === 'denied' ? 'muted' : ''}>${row.state}</span>`,
      },
    ],
  );
  return html`<div class="page">
    <${Head} title="Features" />
    <div class="columns">
      <${Section} title="Deprecated features" aside=${html`<span class="muted">${names.size ? `${names.size} in use` : 'none in use'}</span>`}><${Await} live=${deprecated}>${(rows) => (rows.length ? html`<${Table} list=${two} label="Deprecated features" short rowKey=${(row) => row.name} />` : html`<${Empty}>None.<//>`)}<//>
        <p class="muted">RabbitMQ takes these away step by step. Here they work where it says permitted, whatever RabbitMQ's version does.</p><//>
      <${Section} title="Feature flags"><${Await} live=${flags}>${() => html`<${Table} list=${one} label="Feature flags" short rowKey=${(row) => row.name} />`}<//>
        <p class="muted">Clients and tools of RabbitMQ look at them. All are on from the first start; an upgrade asks for nothing.</p><//>
    </div>
  </div>`;
}
