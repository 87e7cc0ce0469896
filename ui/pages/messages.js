// Looking at messages without touching them, taking some, and publishing one.
import { html, useEffect, useRef, useState } from '../lib.js';
import { post, query, remove, request } from '../core/api.js';
import { bytes, count, several } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { route, setQuery } from '../core/router.js';
import { Await, Empty, Outcome, Problem, Section, useAction } from '../parts/basics.js';
import { Ask, Select, Text } from '../parts/forms.js';
import { Message, Publish, shownBody } from '../parts/message.js';

const COUNTS = [10, 20, 50, 100];
/** Bytes of each body that are asked for; the whole body comes with a download. */
const TRUNCATE = 65536;
/** Messages of one request while a text is looked for, and after how many the search asks whether to go on. */
const [BATCH, SEARCHED] = [200, 10_000];

/** @param {any} message @param {string} text lower case */
function contains(message, text) {
  const parts = [shownBody(message).text, message.routing_key, message.exchange, JSON.stringify(message.properties)];
  return parts.some((part) => part.toLowerCase().includes(text));
}

/**
 * @typedef {{messages: {at: number, message: any}[], next: number, end: boolean, searched: number}} Found
 *   `next`: where the next ones begin; `end`: whether there are none
 */

/**
 * Reads messages from a place on.
 * @param {any} queue @param {string} base
 * @param {{from: string, size: number, text: string, time: string, filter: string}} asked
 * @param {(searched: number) => void} onSearched
 * @param {AbortSignal} signal
 * @returns {Promise<Found>}
 */
async function look(queue, base, { from, size, text, time, filter }, onSearched, signal) {
  const isStream = queue.type === 'stream';
  const needle = text.toLowerCase();
  let place = from === 'last' ? Math.max(0, (isStream ? queue.next_offset : queue.messages_ready) - size) : Math.max(0, Number(from) || 0);
  if (isStream && from !== 'last') place = Math.max(place, queue.first_offset ?? 0);
  /** @type {Found['messages']} */
  const found = [];
  let searched = 0;
  let first = true;
  for (;;) {
    const batch = needle ? BATCH : size;
    const start = isStream && first && time ? { timestamp: new Date(time).getTime() } : { offset: place };
    const { body, headers } = await request('GET', `${base}/browse${query({ ...start, count: batch, truncate: TRUNCATE, decode: 'true', ...(isStream ? { filter } : {}) })}`, { signal });
    first = false;
    const numbered = body.map((message, index) => ({ at: message.offset ?? place + index, message }));
    for (const one of numbered) {
      if (needle && !contains(one.message, needle)) continue;
      found.push(one);
      if (found.length === size) return { messages: found, next: one.at + 1, end: false, searched };
    }
    searched += body.length;
    onSearched(searched);
    const next = isStream ? Number(headers.get('x-next-offset')) || place : place + body.length;
    const end = isStream ? next >= queue.next_offset || next === place : body.length < batch;
    if (!needle || end || searched >= SEARCHED) return { messages: found, next, end, searched };
    place = next;
  }
}

function Look({ queue, base }) {
  const asked = route.value.query;
  const isStream = queue.type === 'stream';
  const view = { from: asked.from ?? '', size: COUNTS.includes(Number(asked.n)) ? Number(asked.n) : 20, text: asked.text ?? '', time: asked.time ?? '', filter: asked.filter ?? '' };
  const [draft, setDraft] = useState(view);
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [searched, setSearched] = useState(0);
  const [turn, setTurn] = useState(0);
  const latest = useRef(queue);
  latest.current = queue;
  const key = JSON.stringify(view);
  useEffect(() => {
    const stop = new AbortController();
    setDraft(view);
    setError(null);
    setSearched(0);
    setFound(null);
    look(latest.current, base, view, (n) => !stop.signal.aborted && setSearched(n), stop.signal).then(
      (answer) => !stop.signal.aborted && setFound(answer),
      (reason) => !stop.signal.aborted && setError(reason),
    );
    return () => stop.abort();
  }, [key, base, turn]);
  /** @param {Record<string, any>} changes */
  const show = (changes) => {
    const next = { ...draft, ...changes };
    const same = JSON.stringify({ ...view, ...changes }) === key && JSON.stringify(draft) === key;
    setQuery({ from: next.from, n: next.size === 20 ? '' : next.size, text: next.text, time: next.time, filter: next.filter });
    if (same) setTurn(turn + 1);
  };
  const messages = found?.messages ?? [];
  const firstAt = messages[0]?.at ?? Number(view.from) ?? 0;
  const start = isStream ? queue.first_offset ?? 0 : 0;
  return html`<${Section} title="Look at messages" aside=${html`<span class="muted">They stay where they are, in their order, and are not marked as redelivered.</span>`}>
    <form class="table-tools" onSubmit=${(event) => { event.preventDefault(); show({}); }}>
      <button type="button" onClick=${() => show({ from: '', time: '' })}>First</button>
      <button type="button" disabled=${firstAt <= start} onClick=${() => show({ from: Math.max(start, firstAt - view.size) || '', time: '' })}>‹ Earlier</button>
      <button type="button" disabled=${!found || found.end} onClick=${() => show({ from: found?.next ?? '', time: '' })}>Later ›</button>
      <button type="button" onClick=${() => show({ from: 'last', time: '' })}>Last</button>
      <label class="check">From ${isStream ? 'offset' : 'number'} <input type="number" min="0" style=${{ width: '110px' }} value=${draft.from === 'last' ? '' : draft.from} onInput=${(event) => setDraft({ ...draft, from: event.currentTarget.value, time: '' })} /></label>
      ${isStream && html`<label class="check">or time <input type="datetime-local" step="1" value=${draft.time} onInput=${(event) => setDraft({ ...draft, time: event.currentTarget.value, from: '' })} /></label>`}
      <label class="check">Containing <input type="text" style=${{ width: '150px' }} value=${draft.text} onInput=${(event) => setDraft({ ...draft, text: event.currentTarget.value })} spellcheck=${false} /></label>
      ${isStream && html`<label class="check" title="An SQL filter expression, as consumers use: properties.subject LIKE 'order%'">Filter <input type="text" style=${{ width: '190px' }} value=${draft.filter} onInput=${(event) => setDraft({ ...draft, filter: event.currentTarget.value })} spellcheck=${false} /></label>`}
      <label class="check">Count <select value=${draft.size} onChange=${(event) => show({ size: Number(event.currentTarget.value) })}>${COUNTS.map((size) => html`<option value=${size}>${size}</option>`)}</select></label>
      <button type="submit" class="primary">Look</button>
    </form>
    <${Problem} of=${error} />
    ${!found && !error && html`<p class="muted" role="status">${searched ? `Searched ${several(searched, 'message')}…` : 'Reading…'}</p>`}
    ${found && !messages.length && html`<${Empty}>${view.text || view.filter ? `None of ${several(found.searched, 'message')} has that.` : queue.messages_unacknowledged > 0 ? 'No message is ready: consumers hold all of them.' : 'No message is here.'}<//>`}
    <div class="messages">${messages.map(({ at, message }) => html`<${Message} key=${at} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${isStream ? `Offset ${count(at)}` : `Number ${count(at)}`} refetch=${`${base}/browse${query({ offset: String(at), count: 1 })}`} />`)}</div>
    ${found && !found.end && view.text && html`<p><button type="button" onClick=${() => show({ from: found.next })}>Search on from ${count(found.next)}</button></p>`}
  <//>`;
}

function Take({ queue, base }) {
  const [mode, setMode] = useState('ack_requeue_false');
  const [number, setNumber] = useState('1');
  const [taken, setTaken] = useState(/** @type {any[]} */ ([]));
  const action = useAction();
  const take = async () => {
    const messages = await post(`${base}/get`, { ackmode: mode, count: Number(number), encoding: 'auto' });
    setTaken(messages);
    poke('queues');
    return messages;
  };
  const destroys = mode.endsWith('false');
  return html`<details class="fold"><summary>Take messages</summary><div class="fold-body form">
    <p class="muted">As a client with <code>basic.get</code> does. To see messages, look at them above instead: that changes nothing.</p>
    <${Select} label="And then" value=${mode} onInput=${setMode} options=${[
      ['ack_requeue_false', 'acknowledge them: they are gone'],
      ['reject_requeue_false', 'reject them: dead-lettered, or gone'],
      ['ack_requeue_true', 'put them back (nack), marked as redelivered'],
      ['reject_requeue_true', 'put them back (reject), counted as failed'],
    ]} />
    <${Text} label="Number" type="number" min=${1} max=${1000} value=${number} onInput=${setNumber} />
    <${Outcome} of=${action} />
    <div class="form-end">${destroys
      ? html`<${Ask} verb="Take messages" danger title=${`Take ${several(Number(number), 'message')}?`} work=${async () => { const messages = await take(); action.run(async () => messages, `${several(messages.length, 'message')} taken.`); }}><p>${count(queue.messages_ready)} are ready. Those that are taken leave the queue.</p><//>`
      : html`<button type="button" class="primary" disabled=${action.busy} onClick=${() => action.run(take, (messages) => `${several(messages.length, 'message')} taken and put back.`)}>Take messages</button>`}</div>
    <div class="messages">${taken.map((message, at) => html`<${Message} key=${at} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${`${at + 1}`} />`)}</div>
  </div></details>`;
}

export const Messages = ({ queue, base }) => html`
  <${Look} queue=${queue} base=${base} />
  <details class="fold"><summary>Publish a message to this queue</summary><div class="fold-body"><${Publish} vhost=${queue.vhost} exchange="" routingKey=${queue.name} /></div></details>
  ${queue.type !== 'stream' && html`<${Take} queue=${queue} base=${base} />`}`;

// Messages of a quorum queue that are kept aside at their delivery limit, or that wait for a time.

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
