// Columns that several lists have.
import { html } from '../lib.js';
import { at, bytes, count, rate } from '../core/format.js';
import { chosenVhost } from '../core/settings.js';
import { VhostName } from './basics.js';

/** A count; zeros are faint, so that the others stand out. @param {any} value @param {(value: any) => string} [format] */
export const quiet = (value, format = count) => html`<span class=${value ? '' : 'zero'}>${format(value)}</span>`;

/**
 * A number at a path of the row.
 * @param {string} id @param {string} title @param {string} path
 * @param {{format?: (value: any) => string, off?: boolean, hint?: string}} [of]
 * @returns {import('./table.js').Column}
 */
export const number = (id, title, path, { format = count, off, hint } = {}) => ({ id, title, num: true, sort: path, need: [path], off, hint, cell: (row) => quiet(at(row, path), format) });

/** A rate. @param {string} id @param {string} title @param {string} path @param {{off?: boolean, hint?: string}} [of] */
export const perSecond = (id, title, path, of = {}) => number(id, title, `${path}_details.rate`, { format: (value) => rate(value ?? 0), hint: 'per second', ...of });

/** @param {string} id @param {string} title @param {string} path @param {{off?: boolean, hint?: string}} [of] */
export const size = (id, title, path, of = {}) => number(id, title, path, { format: bytes, ...of });

/** The virtual host, unless the list is limited to one. @returns {import('./table.js').Column[]} */
export const vhostColumn = () => (chosenVhost.value ? [] : [{ id: 'vhost', title: 'Virtual host', sort: 'vhost', need: ['vhost'], cell: (row) => html`<${VhostName} name=${row.vhost} />` }]);
