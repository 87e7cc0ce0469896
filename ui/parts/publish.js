// The form that publishes a message.
import { html, useState } from '../lib.js';
import { path, post } from '../core/api.js';
import { poke } from '../core/live.js';
import { Outcome, useAction } from './basics.js';
import { Area, Check, Pairs, Select, Text, objectOf } from './form.js';
import { PROPERTIES } from './known.js';

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
