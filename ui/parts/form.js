// Forms: rows with a label, pairs of arguments with types, and text areas of JSON.
import { html, useState } from '../lib.js';

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
export const Row = ({ label, hint, id, children }) => html`<div class="form-row">${id ? html`<label for=${id}>${label}</label>` : html`<span class="label">${label}</span>`}<div class="field">${children}${hint && html`<p class="hint">${hint}</p>`}</div></div>`;

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
    typeof value === 'string' ? { key, value, type: 'text' } : typeof value === 'number' ? { key, value: String(value), type: 'number' } : typeof value === 'boolean' ? { key, value: String(value), type: 'yes/no' } : { key, value: JSON.stringify(value), type: 'JSON' },
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
      ${pairs.map((pair, at) => html`<div key=${at}><div class="pair">
        <input type="text" aria-label=${`Name of ${what} ${at + 1}`} value=${pair.key} onInput=${(event) => change(at, { key: event.currentTarget.value })} spellcheck=${false} />
        ${pair.type === 'yes/no'
          ? html`<select aria-label=${`Value of ${what} ${at + 1}`} value=${pair.value === 'true' ? 'true' : 'false'} onChange=${(event) => change(at, { value: event.currentTarget.value })}><option value="true">true</option><option value="false">false</option></select>`
          : html`<input type="text" aria-label=${`Value of ${what} ${at + 1}`} value=${pair.value} onInput=${(event) => change(at, { value: event.currentTarget.value })} spellcheck=${false} />`}
        <select aria-label=${`Type of ${what} ${at + 1}`} value=${pair.type} onChange=${(event) => change(at, { type: event.currentTarget.value })}>${['text', 'number', 'yes/no', 'JSON'].map((type) => html`<option value=${type}>${type}</option>`)}</select>
        <button type="button" class="plain" aria-label=${`Remove ${what} ${at + 1}`} onClick=${() => onChange(pairs.filter((_, index) => index !== at))}>×</button>
      </div>${hints[at] && html`<p class="hint">${hints[at]}</p>`}</div>`)}
      <div class="chips"><button type="button" onClick=${() => add()}>+ ${what}</button>
        ${left.map(([name, type, hint, example]) => html`<button type="button" title=${hint} onClick=${() => add(name, type, example ?? (type === 'yes/no' ? 'true' : ''))}>${name}</button>`)}</div>
    </div>
  <//>`;
}
