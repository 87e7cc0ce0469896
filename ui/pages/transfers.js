// Moves and copies of a queue's messages to other queues, and how far they are.
import { html, useState } from '../lib.js';
import { post, remove } from '../core/api.js';
import { count, several, time } from '../core/format.js';
import { poke, useLive } from '../core/live.js';
import { ExchangeLink, Fold, Outcome, Problem, QueueLink, Section, Tag, useAction } from '../parts/basics.js';
import { Select, Text } from '../parts/forms.js';

const KINDS = { running: 'accent', waiting: 'warn', stopped: 'bad' };

function Transfer({ transfer, base }) {
  const { id, copy, vhost, to, exchange, routing_key: key, done, total, state, reason } = transfer;
  const over = state !== 'running' && state !== 'waiting';
  const action = useAction();
  const end = () =>
    action.run(async () => {
      await remove(`${base}/transfers/${id}`);
      poke(base);
    });
  return html`<div class="panel stack" role="group" aria-label=${`Transfer ${id}`}>
    <div class="table-tools">
      <b>${copy ? 'Copy' : 'Move'}</b> to ${
        to
          ? html`<${QueueLink} vhost=${vhost} name=${to} />`
          : html`<span><${ExchangeLink} vhost=${vhost} name=${exchange} /> with the key <code>${key || '(empty)'}</code></span>`
      }
      <${Tag} kind=${KINDS[state]}>${state}<//>
      <span class="muted">${count(done)} of ${several(total, 'message')}, begun ${time(transfer.began)} by ${transfer.user}</span>
      <span class="spacer"></span>
      <button type="button" class="small" disabled=${action.busy} onClick=${end}>${over ? 'Forget' : 'Cancel'}</button>
    </div>
    ${!over && html`<progress max=${Math.max(total, 1)} value=${Math.min(done, total)} aria-label=${copy ? 'Copied' : 'Moved'}></progress>`}
    ${reason && html`<p>${state === 'waiting' ? `Waits and tries again: ${reason}` : reason}</p>`}
    <${Problem} of=${action.error} />
  </div>`;
}

export function Transfers({ queue, base }) {
  const isStream = queue.type === 'stream';
  const live = useLive(`${base}/transfers`);
  const [what, setWhat] = useState(isStream ? 'copy' : 'move');
  const [where, setWhere] = useState('queue');
  const [to, setTo] = useState('');
  const [exchange, setExchange] = useState('');
  const [key, setKey] = useState('');
  const [first, setFirst] = useState('');
  const [last, setLast] = useState('');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(async () => {
      await post(`${base}/transfers`, {
        copy: what === 'copy',
        ...(where === 'queue' ? { to } : { exchange, routing_key: key }),
        ...(first === '' ? {} : { first: Number(first) }),
        ...(last === '' ? {} : { last: Number(last) }),
      });
      poke(base);
    }, 'It has begun, and goes on after you leave this page.');
  };
  const all = Array.isArray(live.body) ? live.body.toReversed() : [];
  const number = isStream ? 'offset' : 'number';
  return html`<${Fold} title=${isStream ? 'Copy to another queue' : 'Move or copy to another queue'}><form class="form" onSubmit=${submit}>
    ${
      !isStream &&
      html`<${Select} label="Do" value=${what} onInput=${setWhat} options=${[
        ['move', 'move the ready messages'],
        ['copy', 'copy them'],
      ]} hint=${what === 'move' ? 'Each leaves here and arrives there in one step on the disk.' : 'They stay here as they are. After a crash of the node, up to 1,000 may be there twice.'} />`
    }
    <${Select} label="To" value=${where} onInput=${setWhere} options=${[
      ['queue', 'a queue'],
      ['exchange', 'an exchange'],
    ]} />
    ${where === 'queue' ? html`<${Text} label="Target queue" value=${to} onInput=${setTo} required />` : html`<${Text} label="Exchange" value=${exchange} onInput=${setExchange} required /><${Text} label="Routing key" value=${key} onInput=${setKey} />`}
    <${Text} label=${`From ${number}`} type="number" min=${0} value=${first} onInput=${setFirst} placeholder="the first" />
    <${Text} label=${`To ${number}`} type="number" min=${0} value=${last} onInput=${setLast} placeholder="the last" />
    <${Outcome} of=${action} />
    <div class="form-end"><button type="submit" class="primary" disabled=${action.busy}>${what === 'move' ? 'Move messages' : 'Copy messages'}</button></div>
  </form><//>
  ${all.length > 0 && html`<${Section} title="Moves and copies"><div class="stack">${all.map((one) => html`<${Transfer} key=${one.id} transfer=${one} base=${base} />`)}</div><//>`}`;
}
