// A message: where it came from, its properties and headers, its way through dead letters, and its body.
import { html, useState } from '../lib.js';
import { get, path, post } from '../core/api.js';
import { bytes, count, time } from '../core/format.js';
import { poke } from '../core/live.js';
import { Arguments, Copy, Done, ExchangeLink, Name, Problem, QueueLink, Tag, download, useAction } from './basics.js';
import { Dialog } from './dialog.js';
import { Text } from './form.js';
import { bytesOf, shownBody } from './payload.js';

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

