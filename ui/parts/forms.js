// Forms: rows with a label, pairs of arguments with types, dialogs, and the arguments that are known.
import { html, useLayoutEffect, useRef, useState } from '../lib.js';
import { Problem, useAction, visible } from './basics.js';

let ids = 0;
/** An id for a label and its field. */
export function useId() {
  const [id] = useState(() => `field-${(ids += 1)}`);
  return id;
}

/**
 * A row of a form.
 * @param {{label: any, hint?: any, id?: string, children?: any}} properties
 */
export const Row = ({ label, hint, id, children }) =>
  html`<div class="form-row">${id ? html`<label for=${id}>${label}</label>` : html`<span class="label">${label}</span>`}<div class="field">${children}${hint && html`<p class="hint">${hint}</p>`}</div></div>`;

/**
 * A text or number field.
 * @param {{label: any, value: any, onInput: (value: string) => void, hint?: any, type?: string, required?: boolean, placeholder?: string, list?: string[], autocomplete?: string, min?: number, max?: number, pattern?: string}} properties
 */
export function Text({ label, value, onInput, hint, type = 'text', list, autocomplete = 'off', ...rest }) {
  const id = useId();
  return html`<${Row} label=${label} hint=${hint} id=${id}>
    <input id=${id} type=${type} value=${value} onInput=${(event) => onInput(event.currentTarget.value)} autocomplete=${autocomplete} spellcheck=${false} list=${list && `${id}-list`} ...${rest} />
    ${list && html`<datalist id=${`${id}-list`}>${list.map((option) => html`<option value=${option}></option>`)}</datalist>`}
  <//>`;
}

/** @param {{label: any, value: any, onInput: (value: string) => void, options: [string, string][], hint?: any}} properties */
export function Select({ label, value, onInput, options, hint }) {
  const id = useId();
  return html`<${Row} label=${label} hint=${hint} id=${id}><select id=${id} value=${value} onChange=${(event) => onInput(event.currentTarget.value)}>
    ${options.map(([key, title]) => html`<option value=${key}>${title}</option>`)}</select><//>`;
}

/** @param {{label: any, value: boolean, onInput: (value: boolean) => void, hint?: any}} properties */
export function Check({ label, value, onInput, hint }) {
  const id = useId();
  return html`<${Row} label=${label} hint=${hint} id=${id}><input id=${id} type="checkbox" checked=${value} onChange=${(event) => onInput(event.currentTarget.checked)} /><//>`;
}

/** @param {{label: any, value: string, onInput: (value: string) => void, rows?: number, hint?: any}} properties */
export function Area({ label, value, onInput, rows = 5, hint }) {
  const id = useId();
  return html`<${Row} label=${label} hint=${hint} id=${id}><textarea id=${id} rows=${rows} value=${value} onInput=${(event) => onInput(event.currentTarget.value)} spellcheck=${false}></textarea><//>`;
}

/**
 * @typedef {{key: string, value: string, type: string}} Pair
 * @typedef {[key: string, type: string, hint: string, example?: string]} Known
 */

/** An object as pairs to be edited. @param {any} object @returns {Pair[]} */
export const pairsOf = (object) =>
  Object.entries(object ?? {}).map(([key, value]) =>
    typeof value === 'string'
      ? { key, value, type: 'text' }
      : typeof value === 'number'
        ? { key, value: String(value), type: 'number' }
        : typeof value === 'boolean'
          ? { key, value: String(value), type: 'yes/no' }
          : { key, value: JSON.stringify(value), type: 'JSON' },
  );

/**
 * The object that pairs mean.
 * @param {Pair[]} pairs
 * @throws {Error} a value isn't of its type
 */
export function objectOf(pairs) {
  /** @type {Record<string, any>} */
  const object = {};
  for (const { key, value, type } of pairs) {
    if (!key) continue;
    if (type === 'number') {
      const number = Number(value);
      if (value.trim() === '' || Number.isNaN(number)) throw new Error(`${key}: "${value}" is no number.`);
      object[key] = number;
    } else if (type === 'yes/no') object[key] = value === 'true';
    else if (type === 'JSON') {
      try {
        object[key] = JSON.parse(value);
      } catch {
        throw new Error(`${key}: the value is no JSON.`);
      }
    } else object[key] = value;
  }
  return object;
}

/**
 * Pairs of a name and a typed value, with the known names to choose from.
 * @param {{label: any, pairs: Pair[], onChange: (pairs: Pair[]) => void, known?: Known[], what?: string}} properties
 */
export function Pairs({ label, pairs, onChange, known = [], what = 'argument' }) {
  const change = (at, part) => onChange(pairs.map((pair, index) => (index === at ? { ...pair, ...part } : pair)));
  const hints = pairs.map(({ key }) => known.find(([name]) => name === key)?.[2]);
  const add = (key = '', type = 'text', value = '') => onChange([...pairs, { key, type, value }]);
  const left = known.filter(([name]) => !pairs.some(({ key }) => key === name));
  return html`<${Row} label=${label}>
    <div class="pairs">
      ${pairs.map(
        (pair, at) => html`<div key=${at}><div class="pair">
        <input type="text" aria-label=${`Name of ${what} ${at + 1}`} value=${pair.key} onInput=${(event) => change(at, { key: event.currentTarget.value })} spellcheck=${false} />
        ${
          pair.type === 'yes/no'
            ? html`<select aria-label=${`Value of ${what} ${at + 1}`} value=${pair.value === 'true' ? 'true' : 'false'} onChange=${(event) => change(at, { value: event.currentTarget.value })}><option value="true">true</option><option value="false">false</option></select>`
            : html`<input type="text" aria-label=${`Value of ${what} ${at + 1}`} value=${pair.value} onInput=${(event) => change(at, { value: event.currentTarget.value })} spellcheck=${false} />`
        }
        <select aria-label=${`Type of ${what} ${at + 1}`} value=${pair.type} onChange=${(event) => change(at, { type: event.currentTarget.value })}>${['text', 'number', 'yes/no', 'JSON'].map((type) => html`<option value=${type}>${type}</option>`)}</select>
        <button type="button" class="plain" aria-label=${`Remove ${what} ${at + 1}`} onClick=${() => onChange(pairs.filter((_, index) => index !== at))}>×</button>
      </div>${hints[at] && html`<p class="hint">${hints[at]}</p>`}</div>`,
      )}
      <div class="chips"><button type="button" onClick=${() => add()}>+ ${what}</button>
        ${left.map(([name, type, hint, example]) => html`<button type="button" title=${hint} onClick=${() => add(name, type, example ?? (type === 'yes/no' ? 'true' : ''))}>${name}</button>`)}</div>
    </div>
  <//>`;
}

// Dialogs: the browser's own element, which keeps the focus and gives it back.

/** @param {{open: boolean, onClose: () => void, label: string, children?: any, class?: string}} properties */
export function Dialog({ open, onClose, label, children, class: kind = '' }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  const outside = (event) => {
    if (event.target === element.current) onClose();
  };
  // The browser tells of it later, when the dialog may be open again.
  const closed = () => {
    if (!element.current?.open) onClose();
  };
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} class=${kind} aria-label=${label} onCancel=${cancel} onClose=${closed} onMouseDown=${outside}>${open && children}</dialog>`;
}

/**
 * A button for something that can't be taken back: it shows what is lost and asks for the name.
 * @param {{verb: string, kind: string, name: string, children?: any, work: () => Promise<any>, then?: () => void, options?: any, small?: boolean, disabled?: boolean}} properties
 */
export function Destroy({ verb, kind, name, children, work, then, options, small, disabled }) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState('');
  const action = useAction();
  const begin = () => {
    setTyped('');
    action.clear();
    setOpen(true);
  };
  // Hidden characters can't be typed: their spelled-out form will do.
  const matches = typed === name || typed === visible(name);
  const submit = async (event) => {
    event.preventDefault();
    if (!matches) return;
    if (await action.run(work)) {
      setOpen(false);
      then?.();
    }
  };
  const title = `${verb} ${kind}`;
  return html`<button type="button" class=${'danger' + (small ? ' small' : '')} disabled=${disabled} onClick=${begin}>${verb}…</button>
  <${Dialog} open=${open} onClose=${() => setOpen(false)} label=${title}>
    <form class="dialog-body" onSubmit=${submit}>
      <h2>${title}</h2>
      <div class="confirm-name">${visible(name)}</div>
      ${children}
      ${options}
      <label>Type the name to confirm
        <input type="text" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} autocomplete="off" spellcheck=${false} style=${{ width: '100%' }} autofocus />
      </label>
      <${Problem} of=${action.error} />
      <div class="dialog-end"><button type="button" onClick=${() => setOpen(false)}>Cancel</button>
        <button type="submit" class="danger" disabled=${!matches || action.busy}>${verb}</button></div>
    </form>
  <//>`;
}

/**
 * A button that asks once before it acts.
 * @param {{verb: string, title: string, children?: any, work: () => Promise<any>, then?: () => void, danger?: boolean, small?: boolean, disabled?: boolean}} properties
 */
export function Ask({ verb, title, children, work, then, danger, small, disabled }) {
  const [open, setOpen] = useState(false);
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (await action.run(work)) {
      setOpen(false);
      then?.();
    }
  };
  return html`<button type="button" class=${(danger ? 'danger' : '') + (small ? ' small' : '')} disabled=${disabled} onClick=${() => {
    action.clear();
    setOpen(true);
  }}>${verb}…</button>
  <${Dialog} open=${open} onClose=${() => setOpen(false)} label=${title}>
    <form class="dialog-body" onSubmit=${submit}>
      <h2>${title}</h2>
      ${children}
      <${Problem} of=${action.error} />
      <div class="dialog-end"><button type="button" onClick=${() => setOpen(false)}>Cancel</button>
        <button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${action.busy}>${verb}</button></div>
    </form>
  <//>`;
}

// Arguments that queues and exchanges take, keys of policies, and properties of messages: offered in forms with a word of help.

/** @type {Record<string, Known>} */
const A = {
  ttl: ['x-message-ttl', 'number', 'Milliseconds that a message lives in the queue'],
  expires: ['x-expires', 'number', 'Milliseconds without use after which the queue is deleted'],
  length: ['x-max-length', 'number', 'Most ready messages'],
  bytes: ['x-max-length-bytes', 'number', 'Most bytes of ready messages'],
  overflow: [
    'x-overflow',
    'text',
    'What happens at the limit: drop-head, reject-publish or reject-publish-dlx',
    'reject-publish',
  ],
  dlx: ['x-dead-letter-exchange', 'text', 'Exchange that rejected, expired and dropped messages go to'],
  dlk: ['x-dead-letter-routing-key', 'text', 'Routing key of dead letters, instead of their own'],
  single: ['x-single-active-consumer', 'yes/no', 'One consumer at a time gets all messages'],
  priority: ['x-max-priority', 'number', 'Number of priorities, up to 255', '10'],
  durability: ['x-durability', 'text', 'When publishes are confirmed: synced (flushed to disk), os or memory', 'synced'],
  limit: ['x-delivery-limit', 'number', 'Failed deliveries after which a message is dead-lettered or parked'],
  parked: ['x-parked-max', 'number', 'Most messages that are kept aside at their delivery limit'],
  retry: [
    'x-delayed-retry-type',
    'text',
    'Returned messages that wait before they are delivered again: all, failed or returned',
    'failed',
  ],
  retryMin: ['x-delayed-retry-min', 'number', 'Milliseconds that a message waits after its first failure'],
  retryMax: ['x-delayed-retry-max', 'number', 'Longest wait in milliseconds'],
  strategy: ['x-dead-letter-strategy', 'text', 'at-most-once, or at-least-once: kept until a queue takes them', 'at-least-once'],
  timeout: ['x-consumer-timeout', 'number', 'Milliseconds after which unacknowledged deliveries are taken back'],
  age: ['x-max-age', 'text', 'Age at which messages leave: a number with Y, M, D, h, m or s', '7D'],
  segment: ['x-stream-max-segment-size-bytes', 'number', 'Accepted; has no effect here'],
  filter: ['x-stream-filter-size-bytes', 'number', 'Bytes of the filter of each chunk, 16 to 255'],
};

/** @type {Record<string, Known[]>} */
export const QUEUE_ARGUMENTS = {
  classic: [A.ttl, A.expires, A.length, A.bytes, A.overflow, A.dlx, A.dlk, A.single, A.priority, A.durability],
  quorum: [
    A.ttl,
    A.expires,
    A.length,
    A.bytes,
    A.overflow,
    A.dlx,
    A.dlk,
    A.strategy,
    A.limit,
    A.parked,
    A.single,
    A.timeout,
    A.retry,
    A.retryMin,
    A.retryMax,
  ],
  stream: [A.bytes, A.age, A.filter, A.segment, A.durability],
};

/** @type {Known[]} */
export const EXCHANGE_ARGUMENTS = [
  ['alternate-exchange', 'text', 'Exchange that gets messages which no binding matches'],
  ['x-delayed-type', 'text', 'Of x-delayed-message: the type by which it routes when the delay is over', 'direct'],
];

const without = (known) => /** @type {Known} */ ([known[0].slice(2), ...known.slice(1)]);

/** @type {Known[]} */
export const POLICY_KEYS = [
  ...[
    A.length,
    A.bytes,
    A.ttl,
    A.expires,
    A.overflow,
    A.dlx,
    A.dlk,
    A.strategy,
    A.limit,
    A.timeout,
    A.retry,
    A.retryMin,
    A.retryMax,
    A.age,
    A.filter,
  ].map(without),
  ['alternate-exchange', 'text', 'Of exchanges: gets messages which no binding matches'],
];

/** @type {Known[]} */
export const OPERATOR_KEYS = [A.length, A.bytes, A.ttl, A.expires, A.overflow, A.limit, A.retry, A.retryMin, A.retryMax].map(
  without,
);

/** @type {Known[]} */
export const PROPERTIES = [
  ['delivery_mode', 'number', '2: kept over a restart; 1: not', '2'],
  ['content_type', 'text', 'Such as application/json', 'application/json'],
  ['priority', 'number', '0 to 255'],
  ['correlation_id', 'text', 'Which request this answers'],
  ['reply_to', 'text', 'Where answers go'],
  ['expiration', 'text', 'Milliseconds to live, as text', '60000'],
  ['message_id', 'text', "The message's own name"],
  ['timestamp', 'number', 'Seconds since 1970'],
  ['type', 'text', 'What kind of message it is'],
  ['user_id', 'text', 'The user that publishes; checked by the node'],
  ['app_id', 'text', 'The program that publishes'],
  ['content_encoding', 'text', 'Such as gzip'],
];
