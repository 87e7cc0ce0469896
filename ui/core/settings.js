// What a user chose, kept in the browser.
import { signal } from '../lib.js';

/** @param {string} key @returns {string | null} */
function read(key) {
  try {
    return localStorage.getItem('leveret.' + key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string | null} value */
function write(key, value) {
  try {
    if (value === null) localStorage.removeItem('leveret.' + key);
    else localStorage.setItem('leveret.' + key, value);
  } catch {
    // Without storage a choice holds until the tab is closed.
  }
}

/** `system`, `light` or `dark`. */
export const theme = signal(read('theme') ?? 'system');

/** @param {string} name */
export function setTheme(name) {
  theme.value = name;
  write('theme', name === 'system' ? null : name);
  const root = document.documentElement;
  if (name === 'system') delete root.dataset.theme;
  else root.dataset.theme = name;
}

/** The virtual host that lists are limited to; empty for all. */
export const chosenVhost = signal(read('vhost') ?? '');

/** @param {string} name */
export function chooseVhost(name) {
  chosenVhost.value = name;
  write('vhost', name || null);
}

/** @param {string} table @returns {string | null} the ids of columns, separated by commas */
export const columnsOf = (table) => read('columns.' + table);
/** @param {string} table @param {string | null} ids */
export const keepColumns = (table, ids) => write('columns.' + table, ids);

/** The period of charts, in seconds. */
export const period = signal(Number(read('period')) || 600);
/** @param {number} seconds */
export function setPeriod(seconds) {
  period.value = seconds;
  write('period', String(seconds));
}

addEventListener('storage', (event) => {
  if (event.key === 'leveret.theme') setTheme(event.newValue ?? 'system');
});
