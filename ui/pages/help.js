// The HTTP API, from the description that the node serves, and a list of words.
import { html, useState } from '../lib.js';
import { BASE, request } from '../core/api.js';
import { segment } from '../core/format.js';
import { useLive } from '../core/live.js';
import { route, setQuery } from '../core/router.js';
import { Await, Copy, Head, Name, Problem, Section } from '../parts/basics.js';
import { Text } from '../parts/forms.js';

/** Asks a GET route with values for its parameters. */
function Try({ path }) {
  const words = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [query, setQuery] = useState('');
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const where =
    path.replace(/^\/api\//, '').replace(/\{(\w+)\}/g, (_, word) => values[word] ? segment(values[word]) : '') +
    (query ? `?${query}` : '');
  const ask = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const { body } = await request('GET', where);
      const text = typeof body === 'string' ? body : JSON.stringify(body, null, 2);
      setAnswer(text.length > 100_000 ? `${text.slice(0, 100_000)}\n…` : text);
    } catch (reason) {
      setAnswer(null);
      setError(reason);
    }
  };
  return html`<form class="form" onSubmit=${ask}>
    ${words.map((word) => html`<${Text} key=${word} label=${word} value=${values[word] ?? ''} onInput=${(value) => setValues({ ...values, [word]: value })} required />`)}
    <${Text} label="Query" value=${query} onInput=${setQuery} placeholder="page=1&columns=name" />
    <div class="form-end"><button type="submit">Ask</button><code><${Name} of=${`GET ${BASE}${where}`} /></code><${Copy} text=${`curl -u USER:PASSWORD '${BASE}${where}'`} label="Copy as curl" /></div>
    <${Problem} of=${error} />${answer !== null && html`<pre class="log" tabindex="0" role="region" aria-label="Answer">${answer}</pre>`}
  </form>`;
}

function Entry({ entry }) {
  const [open, setOpen] = useState(false);
  const { method, path, operation } = entry;
  const access = operation['x-access'] ?? (operation.description ?? '').replace(/^Access: /, '');
  return html`<details class="fold" onToggle=${(event) => setOpen(event.currentTarget.open)}><summary><span class=${`method ${method}`}>${method}</span> <code>${path}</code> <span class="muted">${operation.summary}</span></summary>
    ${open && html`<div class="fold-body stack">${access && html`<p class="muted">For: ${access}</p>`}${method === 'GET' && !path.startsWith('/api/tap/') && html`<${Try} path=${path} />`}</div>`}</details>`;
}

export function Api() {
  const live = useLive('openapi.json');
  const text = route.value.query.name ?? '';
  return html`<div class="page">
    <${Head} title="HTTP API" aside=${html`<a href=${`${BASE}openapi.json`} download>OpenAPI document</a>`} />
    <p class="muted">This page uses nothing else. Programs sign in with basic authentication.</p>
    <div class="table-tools"><input type="search" data-filter aria-label="Filter routes" placeholder="Filter routes  /" value=${text} onInput=${(event) => setQuery({ name: event.currentTarget.value }, true)} spellcheck=${false} /></div>
    <${Await} live=${live}>${(document) => {
      const low = text.toLowerCase();
      const entries = Object.entries(document.paths ?? {}).flatMap(([path, methods]) =>
        Object.entries(methods)
          .filter(([method]) => ['get', 'put', 'post', 'delete'].includes(method))
          .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
      );
      const shown = entries.filter(({ path, method, operation }) =>
        `${method} ${path} ${operation.summary}`.toLowerCase().includes(low),
      );
      /** @type {Map<string, any[]>} */
      const groups = new Map();
      for (const entry of shown) {
        const group = entry.path.split('/')[2] ?? '';
        groups.set(group, [...(groups.get(group) ?? []), entry]);
      }
      return html`<p class="muted" role="status">${shown.length} of ${entries.length} routes</p>${[...groups].map(([group, rows]) => html`<${Section} title=${group} key=${group}><div class="messages">${rows.map((entry) => html`<${Entry} entry=${entry} key=${entry.method + entry.path} />`)}</div><//>`)}`;
    }}<//>
  </div>`;
}

// Words on this page, and their meaning.

/** @type {[string, [string, string][]][]} */
const WORDS = [
  [
    'Messages',
    [
      ['Ready', 'In the queue, and a consumer could have it now.'],
      [
        'Unacked',
        'Delivered to a consumer that has not acknowledged it. It comes back if the consumer ends or rejects it with requeue.',
      ],
      [
        'Confirm',
        "The node's word to a publisher that it is responsible for a message now. With synced durability the message is flushed to the disk before.",
      ],
      [
        'Live',
        'Messages as they pass through a queue or an exchange, some of each second: the others are counted as passed over. Only the beginnings of bodies are copied, and nothing is while nobody looks.',
      ],
      ['Redelivered', 'Delivered before, and come back. Consumers see a flag.'],
      [
        'Dead letter',
        'A message that was rejected, expired, dropped at a length limit or reached its delivery limit, and was published to the dead-letter exchange of its queue.',
      ],
      [
        'Parked',
        'A message of a quorum queue that reached its delivery limit while the queue has no dead-letter exchange. It is kept aside until somebody moves or deletes it.',
      ],
      [
        'Delayed',
        'A message that waits for its time: published with one, returned with a retry delay, or held by a delayed exchange.',
      ],
    ],
  ],
  [
    'Queues',
    [
      ['Classic queue', 'A queue of one node. Durable, if it is declared so.'],
      ['Quorum queue', 'A durable queue that counts deliveries on disk. So far it has one member.'],
      [
        'Stream',
        'A queue that keeps its messages: consumers read it from any offset, as often as they want, until messages leave by size or age.',
      ],
      ['Super stream', "An exchange with several streams as partitions; a message's routing key chooses one."],
      ['Exclusive', 'Belongs to the connection that declared it, and is deleted with it.'],
      ['Single active consumer', 'One consumer at a time gets all messages, so that their order holds. The others stand by.'],
      [
        'Capacity',
        "The share of a queue's consumers that could take a message at this moment. 0 % means that consumers are the bottleneck.",
      ],
      [
        'Policy',
        'Arguments for all queues and exchanges whose names match a pattern. One policy and one operator policy apply to each.',
      ],
    ],
  ],
  [
    'Clients',
    [
      ['Prefetch', 'Messages that a consumer of AMQP 0-9-1 may hold unacknowledged. 0 is no limit.'],
      [
        'Link credit',
        'Messages that a receiver of AMQP 1.0 has asked for and not got yet. The same limits publishers in the other direction.',
      ],
      ['Session window', 'Transfers that a side of an AMQP 1.0 session accepts before it says more.'],
      ['Channel', 'A conversation within a connection of AMQP 0-9-1. Errors end it, not the connection.'],
      ['Behind', "Of a stream's consumer: messages between what it has read and the end."],
    ],
  ],
  [
    'Waits',
    [
      ['No consumers', 'Messages are ready, and nobody consumes.'],
      ['Consumers busy', 'Every consumer has used up its prefetch, its credit or its room.'],
      ['Small prefetch', 'A consumer gets one message at a time, and waits for the way there and back in between.'],
      ['Does not read', 'The client leaves its socket full.'],
      ['Slow disk syncs', 'Publishes wait until the disk says that they are safe.'],
      [
        'Paced',
        'Publishers that are a little too fast are held to the pace of consumers, so that the queue stays short. Nothing is wrong.',
      ],
      ['Alarm', 'The node is short of memory or disk space, and reads no publisher until it has enough.'],
      ['Redelivery loop', 'A consumer returns the same messages again and again.'],
    ],
  ],
];

export function Words() {
  const text = (route.value.query.name ?? '').toLowerCase();
  return html`<div class="page">
    <${Head} title="Words" />
    <div class="table-tools"><input type="search" data-filter aria-label="Filter words" placeholder="Filter words  /" value=${route.value.query.name ?? ''} onInput=${(event) => setQuery({ name: event.currentTarget.value }, true)} spellcheck=${false} /></div>
    <div class="columns">${WORDS.map(([group, words]) => {
      const shown = words.filter(([word, means]) => `${word} ${means}`.toLowerCase().includes(text));
      return (
        shown.length > 0 &&
        html`<${Section} title=${group} key=${group}><div class="panel"><dl class="facts">${shown.map(([word, means]) => html`<div key=${word}><dt>${word}</dt><dd>${means}</dd></div>`)}</dl></div><//>`
      );
    })}</div>
  </div>`;
}
