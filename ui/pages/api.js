// The HTTP API, from the description that the node serves.
import { html, useState } from '../lib.js';
import { BASE, request } from '../core/api.js';
import { useLive } from '../core/live.js';
import { route, setQuery } from '../core/router.js';
import { Await, Copy, Head, Name, Problem, Section } from '../parts/basics.js';
import { Text } from '../parts/form.js';

/** Asks a GET route with values for its parameters. @param {{path: string}} properties */
function Try({ path }) {
  const words = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [query, setQuery] = useState('');
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const where = path.replace(/^\/api\//, '').replace(/\{(\w+)\}/g, (_, word) => encodeURIComponent(values[word] ?? '')) + (query ? `?${query}` : '');
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

/** @param {{entry: any}} properties */
function Entry({ entry }) {
  const [open, setOpen] = useState(false);
  const { method, path, operation } = entry;
  const access = operation['x-access'] ?? (operation.description ?? '').replace(/^Access: /, '');
  return html`<details class="fold" onToggle=${(event) => setOpen(event.currentTarget.open)}><summary><span class=${`method ${method}`}>${method}</span> <code>${path}</code></summary>
    ${open && html`<div class="fold-body stack"><p>${operation.summary}</p>${access && html`<p class="muted">For: ${access}</p>`}${method === 'GET' && html`<${Try} path=${path} />`}</div>`}</details>`;
}

export default function Api() {
  const live = useLive('openapi.json');
  const text = route.value.query.name ?? '';
  return html`<div class="page">
    <${Head} title="HTTP API" aside=${html`<a href=${`${BASE}openapi.json`} download>OpenAPI document</a>`} />
    <p class="muted">This page uses nothing else. Programs sign in with basic authentication.</p>
    <div class="table-tools"><input type="search" data-filter aria-label="Filter routes" placeholder="Filter routes  /" value=${text} onInput=${(event) => setQuery({ name: event.currentTarget.value }, true)} spellcheck=${false} /></div>
    <${Await} live=${live}>${(document) => {
      const low = text.toLowerCase();
      const entries = Object.entries(document.paths ?? {}).flatMap(([path, methods]) => Object.entries(methods).filter(([method]) => ['get', 'put', 'post', 'delete'].includes(method)).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })));
      const shown = entries.filter(({ path, method, operation }) => `${method} ${path} ${operation.summary}`.toLowerCase().includes(low));
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
