// Messages of a quorum queue that are kept aside at their delivery limit, or that wait for a time.
import { html, useState } from '../lib.js';
import { post, query, remove } from '../core/api.js';
import { bytes, count, several } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { route, setQuery } from '../core/router.js';
import { Await, Empty, Outcome, Section, useAction } from '../parts/basics.js';
import { Ask } from '../parts/dialog.js';
import { Select, Text } from '../parts/form.js';
import { Message } from '../parts/message.js';

const COUNT = 50;

function Move({ base, total }) {
  const [where, setWhere] = useState('back');
  const [queue, setQueue] = useState('');
  const [exchange, setExchange] = useState('');
  const [key, setKey] = useState('');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(
      async () => {
        const answer = await post(`${base}/parked/move`, where === 'back' ? {} : where === 'queue' ? { to: queue } : { exchange, routing_key: key });
        poke('queues');
        return answer;
      },
      (answer) => `${several(answer.moved, 'message')} moved, ${count(answer.parked)} still kept aside.${answer.reason ? ` Stopped at number ${answer.stopped_at}: ${answer.reason}` : ''}`,
    );
  };
  return html`<details class="fold"><summary>Move all ${count(total)} on</summary><form class="fold-body form" onSubmit=${submit}>
    <${Select} label="To" value=${where} onInput=${setWhere} options=${[['back', 'the end of this queue'], ['queue', 'another queue'], ['exchange', 'an exchange']]} hint="Each gets all its deliveries again. Each leaves here and arrives there in one step on the disk." />
    ${where === 'queue' && html`<${Text} label="Queue" value=${queue} onInput=${setQueue} required />`}
    ${where === 'exchange' && html`<${Text} label="Exchange" value=${exchange} onInput=${setExchange} required /><${Text} label="Routing key" value=${key} onInput=${setKey} />`}
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Move messages</button></div>
  </form></details>`;
}

/** @param {{queue: any, base: string, which: 'parked' | 'delayed'}} properties */
export function Aside({ queue, base, which }) {
  const offset = Math.max(0, Number(route.value.query.offset) || 0);
  const live = useLive(`${base}/${which}${query({ offset: offset || '', count: COUNT, truncate: 65536, decode: 'true' })}`);
  const body = live.body;
  const drop = (range) => async () => {
    await remove(`${base}/${which}${query(range)}`);
    poke('queues');
  };
  return html`<${Section} title=${which === 'parked' ? 'Kept aside at the delivery limit' : 'Waiting for their time'} aside=${body?.total > 0 && html`<span class="muted">${several(body.total, 'message')}, ${bytes(body.bytes)}</span><span class="spacer"></span>
      <${Ask} verb="Delete all" danger small title=${`Delete all ${count(body.total)} messages?`} work=${drop({})}><p>They are gone for good.</p><//>`}>
    ${which === 'parked' && body?.total > 0 && html`<${Move} base=${base} total=${body.total} />`}
    <${Await} live=${live}>${() => (body.messages.length ? html`
      <div class="messages">${body.messages.map((message) => html`<${Message} key=${message.number} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${`Number ${count(message.number)}`}>
        <${Ask} verb="Delete" danger small title=${`Delete message ${message.number}?`} work=${drop({ first: message.number, last: message.number })}><p>It is gone for good.</p><//><//>`)}</div>
      <div class="form-end"><button type="button" disabled=${offset === 0} onClick=${() => setQuery({ offset: Math.max(0, offset - COUNT) || '' })}>Earlier</button>
        <button type="button" disabled=${offset + body.messages.length >= body.total} onClick=${() => setQuery({ offset: offset + COUNT })}>Later</button></div>`
      : html`<${Empty}>None.<//>`)}<//>
  <//>`;
}
