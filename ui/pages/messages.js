// Messages: looked at without touching them, taken, published, and kept aside.
import { html, useEffect, useRef, useState } from '../lib.js';
import { get, path, post, query, refusal, remove, request, stream } from '../core/api.js';
import { bytes, clockTime, count, several, time } from '../core/format.js';
import { eventsOf } from '../core/hub.js';
import { poke, useLive } from '../core/live.js';
import { route, setQuery } from '../core/router.js';
import {
  Arguments,
  Await,
  Copy,
  Done,
  download,
  Empty,
  ExchangeLink,
  Fold,
  Name,
  Outcome,
  Problem,
  QueueLink,
  Section,
  Tag,
  useAction,
} from '../parts/basics.js';
import { Area, Ask, Check, Dialog, objectOf, Pairs, PROPERTIES, Select, Text } from '../parts/forms.js';

/** A JSON text with line breaks. The text itself isn't parsed: large numbers keep every digit. @param {string} text */
export function indented(text) {
  let [out, depth, inString] = ['', 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (inString) {
      out += character;
      if (character === '\\') out += text[(at += 1)] ?? '';
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
      out += character;
    } else if (character === '{' || character === '[') {
      const rest = /^\s*[}\]]/.exec(text.slice(at + 1, at + 40));
      if (rest) {
        out += character + rest[0].trim();
        at += rest[0].length;
      } else {
        depth += 1;
        out += `${character}\n${'  '.repeat(depth)}`;
      }
    } else if (character === '}' || character === ']') {
      depth = Math.max(0, depth - 1);
      out += `\n${'  '.repeat(depth)}${character}`;
    } else if (character === ',') out += `,\n${'  '.repeat(depth)}`;
    else if (character === ':') out += ': ';
    else if (!/\s/.test(character)) out += character;
  }
  return out;
}

/** Bytes in rows of sixteen, with their characters. @param {Uint8Array} bytes @param {number} [most] */
export function hexDump(bytes, most = 4096) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, most));
    const hex = [...row].map((byte) => byte.toString(16).padStart(2, '0'));
    const text = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('');
    rows.push(
      `${at.toString(16).padStart(6, '0')}  ${hex.slice(0, 8).join(' ').padEnd(23)}  ${hex.slice(8).join(' ').padEnd(23)}  ${text}`,
    );
  }
  if (bytes.length > most) rows.push(`… ${bytes.length - most} further bytes`);
  return rows.join('\n');
}

/** @param {string} hex */
export const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** The body of a message, as bytes. @param {any} message */
export const bytesOf = (message) =>
  message.payload_encoding === 'base64' ? fromBase64(message.payload) : new TextEncoder().encode(message.payload);

/**
 * The shown part of a body, and its form.
 * @param {any} message
 * @returns {{as: string, through: string[], text: string, truncated: boolean, error?: string}}
 */
export function shownBody(message) {
  const decoded = message.decoded;
  if (decoded) {
    const text =
      decoded.as === 'hex'
        ? hexDump(fromHex(decoded.text))
        : ['json', 'msgpack', 'cbor'].includes(decoded.as)
          ? indented(decoded.text)
          : decoded.text;
    return { as: decoded.as, through: decoded.through ?? [], text, truncated: decoded.truncated, error: decoded.error };
  }
  if (message.payload_encoding === 'base64')
    return { as: 'hex', through: [], text: hexDump(fromBase64(message.payload)), truncated: false };
  const trimmed = message.payload.trim();
  if (/^[[{]/.test(trimmed)) {
    try {
      JSON.parse(trimmed);
      return { as: 'json', through: [], text: indented(trimmed), truncated: false };
    } catch {
      // Text that only begins like JSON.
    }
  }
  return { as: 'text', through: [], text: message.payload, truncated: false };
}

// A message: where it came from, its properties and headers, its way through dead letters, and its body.

/** The queues that a message died in, the first one first. @param {{deaths: any[], vhost: string, queue?: string}} properties */
function Deaths({ deaths, vhost, queue }) {
  return html`<ol class="path" aria-label="Its way through dead letters">${[...deaths]
    .reverse()
    .map(
      (death) =>
        html`<li><${QueueLink} vhost=${vhost} name=${death.queue} /> <span class="muted" title=${death.time ? `First on ${time(typeof death.time === 'number' ? death.time * 1000 : death.time)}` : ''}>${death.reason}${death.count > 1 ? ` × ${count(death.count)}` : ''}</span></li>`,
    )}${queue && html`<li><${Name} of=${queue} /></li>`}</ol>`;
}

/** Publishes a copy. @param {{message: any, vhost: string, whole: () => Promise<any>}} properties */
function Again({ message, vhost, whole }) {
  const [open, setOpen] = useState(false);
  const [exchange, setExchange] = useState(message.exchange);
  const [key, setKey] = useState(message.routing_key);
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(
      async () => {
        const all = await whole();
        const answer = await post(path`exchanges/${vhost}/${exchange || 'amq.default'}/publish`, {
          properties: Array.isArray(all.properties) ? {} : all.properties,
          routing_key: key,
          payload: all.payload,
          payload_encoding: all.payload_encoding,
        });
        poke('queues');
        return answer;
      },
      (answer) => (answer.routed ? 'Published: it reached a queue.' : 'Published, but no binding matched: it reached no queue.'),
    );
  };
  return html`<button type="button" class="small" onClick=${() => {
    action.clear();
    setOpen(true);
  }}>Publish again…</button>
    <${Dialog} open=${open} onClose=${() => setOpen(false)} label="Publish a copy"><form class="dialog-body" onSubmit=${submit}>
      <h2>Publish a copy</h2>
      <p class="muted">The message that you see stays where it is. The copy has its properties, headers and body.</p>
      <div class="form"><${Text} label="Exchange" value=${exchange} onInput=${setExchange} placeholder="(AMQP default)" />
      <${Text} label="Routing key" value=${key} onInput=${setKey} /></div>
      <${Problem} of=${action.error} />${action.done && html`<${Done}>${action.done}<//>`}
      <div class="dialog-end"><button type="button" onClick=${() => setOpen(false)}>Close</button><button type="submit" class="primary" disabled=${action.busy}>Publish</button></div>
    </form><//>`;
}

/**
 * @param {{message: any, vhost: string, queue?: string, number?: number, label?: string, refetch?: string, children?: any}} properties
 *   `refetch`: the path that gives the whole body of a message that is shown in part
 */
export function Message({ message, vhost, queue, label, refetch, children }) {
  const body = shownBody(message);
  const { headers, ...properties } = Array.isArray(message.properties) ? { headers: undefined } : message.properties;
  const { 'x-death': deaths, ...others } = headers ?? {};
  const isPart = bytesOf(message).length < message.payload_bytes;
  const whole = async () => {
    if (!isPart || !refetch) return message;
    const [found] = await get(refetch);
    if (!found || found.payload_bytes !== message.payload_bytes || found.routing_key !== message.routing_key)
      throw new Error('The message has moved on in the queue. Look again.');
    return found;
  };
  const save = async () => {
    const all = await whole();
    download(
      `${(queue ?? 'message').replace(/[^\w.-]+/g, '_')}-${label ?? ''}.${body.as === 'json' && !body.through.length ? 'json' : body.as === 'text' && !body.through.length ? 'txt' : 'bin'}`,
      bytesOf(all),
      'application/octet-stream',
    );
  };
  return html`<article class="message">
    <header class="message-head">
      ${label !== undefined && html`<b>${label}</b>`}
      <span>from <${ExchangeLink} vhost=${vhost} name=${message.exchange} /></span>
      <span>key <code><${Name} of=${message.routing_key} empty="(none)" /></code></span>
      <span class="muted">${bytes(message.payload_bytes)}</span>
      ${message.redelivered && html`<${Tag} kind="warn" title="It was delivered before">redelivered<//>`}
      ${message.delivery_time !== undefined && html`<span class="muted">due ${time(message.delivery_time)}</span>`}
      ${message.deferral_token && html`<${Tag}>deferred: ${message.deferral_token}<//>`}
      <span class="spacer"></span>
      <${Copy} text=${body.text} /><button type="button" class="small" onClick=${save}>Download</button>
      ${(!isPart || refetch) && html`<${Again} message=${message} vhost=${vhost} whole=${whole} />`}${children}
    </header>
    <div class="message-body">
      <div><p class="muted">${body.through.length ? `${body.through.join(', then ')}, then ` : ''}${body.as}${body.truncated || (isPart && !message.decoded) ? ', the beginning' : ''}</p>
        ${body.error && html`<${Problem} of=${body.error} what="Not decoded further" />`}
        <pre class="payload" tabindex="0" role="region" aria-label=${`Body of ${(label ?? 'the message').toLowerCase()}`}>${body.text || html`<span class="faint">(empty)</span>`}</pre></div>
      <div class="stack">
        ${deaths?.length > 0 && html`<div><p class="muted">Died</p><${Deaths} deaths=${deaths} vhost=${vhost} queue=${queue} /></div>`}
        <div><p class="muted">Properties</p><${Arguments} of=${properties} none="none" /></div>
        ${Object.keys(others).length > 0 && html`<div><p class="muted">Headers</p><${Arguments} of=${others} /></div>`}
      </div>
    </div>
  </article>`;
}

// Messages as they pass.

/** Messages that the list keeps. */
const KEPT = 200;
/** Rates that are offered, in messages per second. */
const RATES = [1, 10, 100];
const SEEN = {
  published: ['', 'published'],
  put: ['accent', 'put'],
  delivered: ['', 'delivered'],
};

/** @param {{row: {at: number, message: any}, vhost: string, queue?: string}} properties */
function Passing({ row: { at, message }, vhost, queue }) {
  const [open, setOpen] = useState(false);
  const [kind, word] = SEEN[message.seen] ?? ['', message.seen];
  const begins = message.decoded.text.slice(0, 200).replace(/\s+/g, ' ');
  return html`<details class="fold" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary class="passing"><span class="muted">${clockTime(message.time)}</span> <${Tag} kind=${kind}>${word}<//> <code><${Name} of=${message.routing_key || message.exchange} empty="(none)" /></code><span class="muted">${bytes(message.payload_bytes)}</span>${message.passed_over > 0 && html`<span class="muted">after ${several(message.passed_over, 'message')} that ${message.passed_over === 1 ? "isn't" : "aren't"} shown</span>`}<span class="passing-text"><${Name} of=${begins} empty="(empty)" /></span></summary>
    ${
      open &&
      html`<div class="fold-body stack"><${Message} message=${message} vhost=${vhost} queue=${queue} label=${`Message ${count(at)}`} />
      ${message.queues !== undefined && html`<p class="muted">${message.queues ? `It went to ${several(message.queues, 'queue')}.` : 'It reached no queue.'}</p>`}
      ${message.headers_left_out && html`<p class="muted">Its headers are too long to be shown here.</p>`}</div>`
    }</details>`;
}

/**
 * What passes through a queue or an exchange, while somebody looks.
 * @param {{where: string, vhost: string, queue?: string, children?: any}} properties
 *   `where`: the path below `tap/`; the children say what is seen
 */
export function Live({ where, vhost, queue, children }) {
  const [rate, setRate] = useState(10);
  const [wanted, setWanted] = useState(false);
  const [state, setState] = useState('stopped');
  const [paused, setPaused] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const [text, setText] = useState('');
  const [shown, setShown] = useState({ rows: /** @type {{at: number, message: any}[]} */ ([]), seen: 0, passed: 0 });
  // Messages come faster than frames: they are kept here until the next one.
  const kept = useRef(shown);
  const frame = useRef(0);
  const stays = useRef(paused);
  stays.current = paused;
  const draw = () => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      const { rows, ...counts } = kept.current;
      setShown((last) => ({ ...counts, rows: stays.current ? last.rows : rows }));
    });
  };
  useEffect(draw, [paused]);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  useEffect(() => {
    if (!wanted) return;
    let stop = new AbortController();
    const follow = async () => {
      stop = new AbortController();
      const { signal } = stop;
      setState('starting');
      try {
        const pieces = await stream(`tap/${where}${query({ rate, decode: 'true', body_bytes: 4096 })}`, signal);
        for await (const { event, data } of eventsOf(pieces)) {
          if (event === 'open') setState('on');
          else if (event === 'end') throw refusal(data.status, data);
          else {
            const { rows, seen, passed } = kept.current;
            const message = event ? [] : [{ at: seen + 1, message: data }];
            kept.current = {
              rows: [...message, ...rows].slice(0, KEPT),
              seen: seen + message.length,
              passed: passed + data.passed_over,
            };
            draw();
          }
        }
        throw new Error('The node ended the stream.');
      } catch (reason) {
        if (signal.aborted) return;
        setError(reason);
        setWanted(false);
      }
    };
    // A tab that nobody sees asks for nothing.
    const look = () => {
      stop.abort();
      if (document.hidden) setState('hidden');
      else follow();
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => {
      document.removeEventListener('visibilitychange', look);
      stop.abort();
      setState('stopped');
    };
  }, [wanted, where, rate]);
  const needle = text.toLowerCase();
  const rows = needle ? shown.rows.filter(({ message }) => contains(message, needle)) : shown.rows;
  return html`<${Section} title="Live" aside=${html`<span class="muted">${children}</span>`}>
    <div class="table-tools">
      <button type="button" class="primary" aria-pressed=${wanted} onClick=${() => {
        setError(null);
        setWanted(!wanted);
      }}>${wanted ? 'Stop' : 'Start'}</button>
      <button type="button" disabled=${!wanted} aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Go on' : 'Pause'}</button>
      <button type="button" disabled=${!shown.rows.length} onClick=${() => {
        kept.current = { rows: [], seen: 0, passed: 0 };
        setShown(kept.current);
      }}>Clear</button>
      <label class="check">At most <select value=${rate} onChange=${(event) => setRate(Number(event.currentTarget.value))}>${RATES.map((one) => html`<option value=${one}>${several(one, 'message')}</option>`)}</select> a second</label>
      <input type="search" data-filter aria-label="Filter what is shown" placeholder="Filter what is shown  /" value=${text} onInput=${(event) => setText(event.currentTarget.value)} spellcheck=${false} />
      <span class="result">${several(shown.seen, 'message')} shown, ${count(shown.passed)} passed over</span>
    </div>
    <${Problem} of=${error} />
    <p class="muted" role="status">${state === 'on' ? (paused ? 'Paused: what comes meanwhile is shown afterwards.' : 'Watching.') : state === 'starting' ? 'Starting…' : state === 'hidden' ? 'Not watching while the tab is hidden.' : 'Stopped.'}${needle && ` ${count(rows.length)} of ${count(shown.rows.length)} have this text.`}</p>
    <div class="messages">${rows.map((row) => html`<${Passing} key=${row.at} row=${row} vhost=${vhost} queue=${queue} />`)}</div>
  <//>`;
}

// The form that publishes a message.

/** @param {{vhost: string, exchange: string, routingKey?: string}} properties */
export function Publish({ vhost, exchange, routingKey }) {
  const [key, setKey] = useState(routingKey ?? '');
  const [persistent, setPersistent] = useState(true);
  const [headers, setHeaders] = useState(/** @type {any[]} */ ([]));
  const [properties, setProperties] = useState(/** @type {any[]} */ ([]));
  const [payload, setPayload] = useState('');
  const [encoding, setEncoding] = useState('string');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(
      async () => {
        const given = objectOf(headers);
        const answer = await post(path`exchanges/${vhost}/${exchange || 'amq.default'}/publish`, {
          properties: {
            delivery_mode: persistent ? 2 : 1,
            ...objectOf(properties),
            ...(Object.keys(given).length ? { headers: given } : {}),
          },
          routing_key: key,
          payload,
          payload_encoding: encoding,
        });
        poke('queues');
        poke('exchanges');
        return answer;
      },
      (answer) =>
        answer.routed
          ? 'Published and on the disk, where it has to be.'
          : 'Published, but not routed: no binding matches, and the message is gone.',
    );
  };
  return html`<form class="form" onSubmit=${submit}>
    ${routingKey === undefined && html`<${Text} label="Routing key" value=${key} onInput=${setKey} />`}
    <${Check} label="Persistent" value=${persistent} onInput=${setPersistent} />
    <${Pairs} label="Properties" pairs=${properties} onChange=${setProperties} known=${PROPERTIES} what="property" />
    <${Pairs} label="Headers" pairs=${headers} onChange=${setHeaders} what="header" />
    <${Area} label="Body" value=${payload} onInput=${setPayload} />
    <${Select} label="The body is" value=${encoding} onInput=${setEncoding} options=${[
      ['string', 'text'],
      ['base64', 'base64'],
    ]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Publish message</button></div>
  </form>`;
}

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
  let place =
    from === 'last' ? Math.max(0, (isStream ? queue.next_offset : queue.messages_ready) - size) : Math.max(0, Number(from) || 0);
  if (isStream && from !== 'last') place = Math.max(place, queue.first_offset ?? 0);
  /** @type {Found['messages']} */
  const found = [];
  let searched = 0;
  let first = true;
  for (;;) {
    const batch = needle ? BATCH : size;
    const start = isStream && first && time ? { timestamp: new Date(time).getTime() } : { offset: place };
    const { body, headers } = await request(
      'GET',
      `${base}/browse${query({ ...start, count: batch, truncate: TRUNCATE, decode: 'true', ...(isStream ? { filter } : {}) })}`,
      { signal },
    );
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
  const view = {
    from: asked.from ?? '',
    size: COUNTS.includes(Number(asked.n)) ? Number(asked.n) : 20,
    text: asked.text ?? '',
    time: asked.time ?? '',
    filter: asked.filter ?? '',
  };
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
  const start = isStream ? (queue.first_offset ?? 0) : 0;
  return html`<${Section} title="Look at messages" aside=${html`<span class="muted">They stay where they are, in their order, and are not marked as redelivered.</span>`}>
    <form class="table-tools" onSubmit=${(event) => {
      event.preventDefault();
      show({});
    }}>
      <button type="button" onClick=${() => show({ from: '', time: '' })}>First</button>
      <button type="button" disabled=${firstAt <= start} onClick=${() => show({ from: Math.max(start, firstAt - view.size) || '', time: '' })}>‹ Earlier</button>
      <button type="button" disabled=${!found || found.end} onClick=${() => show({ from: found?.next ?? '', time: '' })}>Later ›</button>
      <button type="button" onClick=${() => show({ from: 'last', time: '' })}>Last</button>
      <label class="check">From ${isStream ? 'offset' : 'place'} <input type="number" min="0" style=${{ width: '110px' }} value=${draft.from === 'last' ? '' : draft.from} onInput=${(event) => setDraft({ ...draft, from: event.currentTarget.value, time: '' })} /></label>
      ${isStream && html`<label class="check">or time <input type="datetime-local" step="1" value=${draft.time} onInput=${(event) => setDraft({ ...draft, time: event.currentTarget.value, from: '' })} /></label>`}
      <label class="check">Containing <input type="text" style=${{ width: '150px' }} value=${draft.text} onInput=${(event) => setDraft({ ...draft, text: event.currentTarget.value })} spellcheck=${false} /></label>
      ${isStream && html`<label class="check" title="An SQL filter expression, as consumers use: properties.subject LIKE 'order%'">Filter <input type="text" style=${{ width: '190px' }} value=${draft.filter} onInput=${(event) => setDraft({ ...draft, filter: event.currentTarget.value })} spellcheck=${false} /></label>`}
      <label class="check">Count <select value=${draft.size} onChange=${(event) => show({ size: Number(event.currentTarget.value) })}>${COUNTS.map((size) => html`<option value=${size}>${size}</option>`)}</select></label>
      <button type="submit" class="primary">Look</button>
    </form>
    <${Problem} of=${error} />
    ${!found && !error && html`<p class="muted" role="status">${searched ? `Searched ${several(searched, 'message')}…` : 'Reading…'}</p>`}
    ${found && !messages.length && html`<${Empty}>${view.text || view.filter ? `None of ${several(found.searched, 'message')} has that.` : queue.messages_unacknowledged > 0 ? 'No message is ready: consumers hold all of them.' : 'No message is here.'}<//>`}
    <div class="messages">${messages.map(({ at, message }) => html`<${Message} key=${at} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${isStream ? `Offset ${count(at)}` : `Place ${count(at)}, number ${message.number}`} refetch=${`${base}/browse${query({ offset: String(at), count: 1 })}`} />`)}</div>
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
  return html`<${Fold} title="Take messages"><div class="form">
    <p class="muted">As a client with <code>basic.get</code> does. To see messages, look at them above instead: that changes nothing.</p>
    <${Select} label="And then" value=${mode} onInput=${setMode} options=${[
      ['ack_requeue_false', 'acknowledge them: they are gone'],
      ['reject_requeue_false', 'reject them: dead-lettered, or gone'],
      ['ack_requeue_true', 'put them back (nack), marked as redelivered'],
      ['reject_requeue_true', 'put them back (reject), counted as failed'],
    ]} />
    <${Text} label="Number" type="number" min=${1} max=${1000} value=${number} onInput=${setNumber} />
    <${Outcome} of=${action} />
    <div class="form-end">${
      destroys
        ? html`<${Ask} verb="Take messages" danger title=${`Take ${several(Number(number), 'message')}?`} work=${async () => {
            const messages = await take();
            action.run(async () => messages, `${several(messages.length, 'message')} taken.`);
          }}><p>${count(queue.messages_ready)} are ready. Those that are taken leave the queue.</p><//>`
        : html`<button type="button" class="primary" disabled=${action.busy} onClick=${() => action.run(take, (messages) => `${several(messages.length, 'message')} taken and put back.`)}>Take messages</button>`
    }</div>
    <div class="messages">${taken.map((message, at) => html`<${Message} key=${at} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${`${at + 1}`} />`)}</div>
  </div><//>`;
}

export const Messages = ({ queue, base }) => html`
  <${Look} queue=${queue} base=${base} />
  <${Fold} title="Publish a message to this queue"><div class="stack"><${Publish} vhost=${queue.vhost} exchange="" routingKey=${queue.name} /></div><//>
  ${queue.type !== 'stream' && html`<${Take} queue=${queue} base=${base} />`}`;

// Messages of a quorum queue that are kept aside at their delivery limit, or that wait for a time.

const COUNT = 50;

function Move({ base, total, action }) {
  const [where, setWhere] = useState('back');
  const [queue, setQueue] = useState('');
  const [exchange, setExchange] = useState('');
  const [key, setKey] = useState('');
  const submit = (event) => {
    event.preventDefault();
    action.run(
      async () => {
        const answer = await post(
          `${base}/parked/move`,
          where === 'back' ? {} : where === 'queue' ? { to: queue } : { exchange, routing_key: key },
        );
        poke('queues');
        return answer;
      },
      (answer) =>
        `${several(answer.moved, 'message')} moved, ${count(answer.parked)} still kept aside.${answer.reason ? ` Stopped at number ${answer.stopped_at}: ${answer.reason}` : ''}`,
    );
  };
  return html`<${Fold} title=${html`Move all ${count(total)} on`}><form class="form" onSubmit=${submit}>
    <${Select} label="To" value=${where} onInput=${setWhere} options=${[
      ['back', 'the end of this queue'],
      ['queue', 'another queue'],
      ['exchange', 'an exchange'],
    ]} hint="Each gets all its deliveries again. Each leaves here and arrives there in one step on the disk." />
    ${where === 'queue' && html`<${Text} label="Queue" value=${queue} onInput=${setQueue} required />`}
    ${where === 'exchange' && html`<${Text} label="Exchange" value=${exchange} onInput=${setExchange} required /><${Text} label="Routing key" value=${key} onInput=${setKey} />`}
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Move messages</button></div>
  </form><//>`;
}

export function Aside({ queue, base, which }) {
  const offset = Math.max(0, Number(route.value.query.offset) || 0);
  const live = useLive(`${base}/${which}${query({ offset: offset || '', count: COUNT, truncate: 65536, decode: 'true' })}`);
  const body = live.body;
  // Here, since the form goes with the last message.
  const moving = useAction();
  const drop = (range) => async () => {
    await remove(`${base}/${which}${query(range)}`);
    poke('queues');
  };
  return html`<${Section} title=${which === 'parked' ? 'Kept aside at the delivery limit' : 'Waiting for their time'} aside=${
    body?.total > 0 &&
    html`<span class="muted">${several(body.total, 'message')}, ${bytes(body.bytes)}</span><span class="spacer"></span>
      <${Ask} verb="Delete all" danger small title=${`Delete all ${count(body.total)} messages?`} work=${drop({})}><p>They are gone for good.</p><//>`
  }>
    ${which === 'parked' && body?.total > 0 && html`<${Move} base=${base} total=${body.total} action=${moving} />`}
    <${Outcome} of=${moving} />
    <${Await} live=${live}>${() =>
      body.messages.length
        ? html`
      <div class="messages">${body.messages.map(
        (
          message,
        ) => html`<${Message} key=${message.number} message=${message} vhost=${queue.vhost} queue=${queue.name} label=${`Number ${count(message.number)}`}>
        <${Ask} verb="Delete" danger small title=${`Delete message ${message.number}?`} work=${drop({ first: message.number, last: message.number })}><p>It is gone for good.</p><//><//>`,
      )}</div>
      <div class="form-end"><button type="button" disabled=${offset === 0} onClick=${() => setQuery({ offset: Math.max(0, offset - COUNT) || '' })}>Earlier</button>
        <button type="button" disabled=${offset + body.messages.length >= body.total} onClick=${() => setQuery({ offset: offset + COUNT })}>Later</button></div>`
        : html`<${Empty}>None.<//>`}<//>
  <//>`;
}
