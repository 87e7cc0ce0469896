// Offsets of consumers and sequences of publishers that a stream keeps.
import { html } from '../lib.js';
import { path } from '../core/api.js';
import { count } from '../core/format.js';
import { useLive } from '../core/live.js';
import { Await, Empty, Name, Section } from '../parts/basics.js';

/** @param {{queue: any}} properties */
export function Tracking({ queue }) {
  const live = useLive(path`stream/${queue.vhost}/${queue.name}/tracking`);
  const table = (rows, head) => html`<div class="table-box plain-table"><table><thead><tr>${head.map(([title, kind]) => html`<th scope="col" class=${kind}>${title}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`;
  return html`<${Await} live=${live}>${(body) => {
    const offsets = Object.entries(body.offsets ?? {});
    const writers = Object.entries(body.writers ?? {});
    return html`<div class="columns">
      <${Section} title="Stored offsets">${offsets.length ? table(offsets.map(([name, offset]) => html`<tr key=${name}><td><${Name} of=${name} /></td><td class="num">${count(offset)}</td><td class="num">${count(Math.max(0, queue.next_offset - 1 - Number(offset)))}</td></tr>`), [['Name'], ['Offset', 'num'], ['Behind', 'num']]) : html`<${Empty}>No consumer has stored an offset here.<//>`}<//>
      <${Section} title="Publishers by reference">${writers.length ? table(writers.map(([name, sequence]) => html`<tr key=${name}><td><${Name} of=${name} /></td><td class="num">${count(sequence)}</td></tr>`), [['Reference'], ['Last sequence', 'num']]) : html`<${Empty}>No publisher with a reference: nothing is deduplicated.<//>`}<//>
    </div>`;
  }}<//>`;
}
