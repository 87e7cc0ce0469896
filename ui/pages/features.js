// Feature flags, and deprecated features that are in use.
import { html } from '../lib.js';
import { useLive } from '../core/live.js';
import { Await, Empty, Head, Name, Section, Tag } from '../parts/basics.js';
import { Table, useLocal } from '../parts/table.js';

const PHASES = { permitted_by_default: 'permitted by default', denied_by_default: 'denied by default', disconnected: 'unavailable', removed: 'removed' };

export default function Features() {
  const flags = useLive('feature-flags');
  const deprecated = useLive('deprecated-features');
  const used = useLive('deprecated-features/used');
  const names = new Set((Array.isArray(used.body) ? used.body : []).map(({ name }) => name));
  const one = useLocal('flags', Array.isArray(flags.body) ? flags.body : [], [
    { id: 'name', title: 'Flag', sort: 'name', cell: (row) => html`<code><${Name} of=${row.name} /></code>` },
    { id: 'state', title: 'State', sort: 'state', cell: (row) => html`<span class=${row.state === 'enabled' ? 'good' : ''}>${row.state}</span>` },
    { id: 'desc', title: 'Means', cell: (row) => html`<span title=${row.desc}>${row.desc}</span>` },
  ]);
  const two = useLocal('deprecated', (Array.isArray(deprecated.body) ? deprecated.body : []).map((row) => ({ ...row, used: names.has(row.name) })), [
    { id: 'name', title: 'Feature', sort: 'name', cell: (row) => html`<code><${Name} of=${row.name} /></code> ${row.used && html`<${Tag} kind="warn">in use<//>`}` },
    { id: 'phase', title: 'In RabbitMQ', sort: 'deprecation_phase', cell: (row) => PHASES[row.deprecation_phase] ?? row.deprecation_phase },
    { id: 'state', title: 'Here', sort: 'state', cell: (row) => html`<span class=${row.state === 'denied' ? 'muted' : ''}>${row.state}</span>` },
  ]);
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
