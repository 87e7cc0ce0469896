// Bodies of messages as people read them.
import { html, useState } from '../lib.js';
import { get, path, post } from '../core/api.js';
import { bytes, count, time } from '../core/format.js';
import { poke } from '../core/live.js';
import { Arguments, Copy, Done, download, ExchangeLink, Name, Outcome, Problem, QueueLink, Tag, useAction } from './basics.js';
import { Area, Check, Dialog, objectOf, Pairs, PROPERTIES, Select, Text } from './forms.js';

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
    rows.push(`${at.toString(16).padStart(6, '0')}  ${hex.slice(0, 8).join(' ').padEnd(23)}  ${hex.slice(8).join(' ').padEnd(23)}  ${text}`);
  }
  if (bytes.length > most) rows.push(`… ${bytes.length - most} further bytes`);
  return rows.join('\n');
}

/** @param {string} hex */
export const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** The body of a message, as bytes. @param {any} message */
export const bytesOf = (message) => (message.payload_encoding === 'base64' ? fromBase64(message.payload) : new TextEncoder().encode(message.payload));

/**
 * What is shown of a body, and what it is.
 * @param {any} message
 * @returns {{as: string, through: string[], text: string, truncated: boolean, error?: string}}
 */
export function shownBody(message) {
  const decoded = message.decoded;
  if (decoded) {
    const text = decoded.as === 'hex' ? hexDump(fromHex(decoded.text)) : ['json', 'msgpack', 'cbor'].includes(decoded.as) ? indented(decoded.text) : decoded.text;
    return { as: decoded.as, through: decoded.through ?? [], text, truncated: decoded.truncated, error: decoded.error };
  }
  if (message.payload_encoding === 'base64') return { as: 'hex', through: [], text: hexDump(fromBase64(message.payload)), truncated: false };
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
  return html`<ol class="path" aria-label="Its way through dead letters">${[...deaths].reverse().map(
    (death) => html`<li><${QueueLink} vhost=${vhost} name=${death.queue} /> <span class="muted" title=${death.time ? `First on ${time(typeof death.time === 'number' ? death.time * 1000 : death.time)}` : ''}>${death.reason}${death.count > 1 ? ` × ${count(death.count)}` : ''}</span></li>`,
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
        const answer = await post(path`exchanges/${vhost}/${exchange || 'amq.default'}/publish`, { properties: Array.isArray(all.properties) ? {} : all.properties, routing_key: key, payload: all.payload, payload_encoding: all.payload_encoding });
        poke('queues');
        return answer;
      },
      (answer) => (answer.routed ? 'Published: it reached a queue.' : 'Published, but no binding matched: it reached no queue.'),
    );
  };
  return html`<button type="button" class="small" onClick=${() => { action.clear(); setOpen(true); }}>Publish again…</button>
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
    if (!found || found.payload_bytes !== message.payload_bytes || found.routing_key !== message.routing_key) throw new Error('The message has moved on in the queue. Look again.');
    return found;
  };
  const save = async () => {
    const all = await whole();
    download(`${(queue ?? 'message').replace(/[^\w.-]+/g, '_')}-${label ?? ''}.${body.as === 'json' && !body.through.length ? 'json' : body.as === 'text' && !body.through.length ? 'txt' : 'bin'}`, bytesOf(all), 'application/octet-stream');
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
      <${Again} message=${message} vhost=${vhost} whole=${whole} />${children}
    </header>
    <div class="message-body">
      <div><p class="muted">${body.through.length ? `${body.through.join(', then ')}, then ` : ''}${body.as}${body.truncated || (isPart && !message.decoded) ? ', the beginning' : ''}</p>
        ${body.error && html`<${Problem} of=${body.error} what="Not decoded further" />`}
        <pre class="payload" tabindex="0" role="region" aria-label="Body">${body.text || html`<span class="faint">(empty)</span>`}</pre></div>
      <div class="stack">
        ${deaths?.length > 0 && html`<div><p class="muted">Died</p><${Deaths} deaths=${deaths} vhost=${vhost} queue=${queue} /></div>`}
        <div><p class="muted">Properties</p><${Arguments} of=${properties} none="none" /></div>
        ${headers && html`<div><p class="muted">Headers</p><${Arguments} of=${others} none="none" /></div>`}
      </div>
    </div>
  </article>`;
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
          properties: { delivery_mode: persistent ? 2 : 1, ...objectOf(properties), ...(Object.keys(given).length ? { headers: given } : {}) },
          routing_key: key, payload, payload_encoding: encoding,
        });
        poke('queues');
        poke('exchanges');
        return answer;
      },
      (answer) => (answer.routed ? 'Published and on the disk, where it has to be.' : 'Published, but not routed: no binding matches, and the message is gone.'),
    );
  };
  return html`<form class="form" onSubmit=${submit}>
    ${routingKey === undefined && html`<${Text} label="Routing key" value=${key} onInput=${setKey} />`}
    <${Check} label="Persistent" value=${persistent} onInput=${setPersistent} />
    <${Pairs} label="Properties" pairs=${properties} onChange=${setProperties} known=${PROPERTIES} what="property" />
    <${Pairs} label="Headers" pairs=${headers} onChange=${setHeaders} what="header" />
    <${Area} label="Body" value=${payload} onInput=${setPayload} />
    <${Select} label="The body is" value=${encoding} onInput=${setEncoding} options=${[['string', 'text'], ['base64', 'base64']]} />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>Publish message</button></div>
  </form>`;
}
