// Answers of the API that stay current: a store of signals, one per path, fed by the stream that all tabs share.
import { signal, useEffect, useRef } from '../lib.js';
import { BASE, get, refusal } from './api.js';
import { Hub } from './hub.js';

/** Time for which a path that nobody shows any more stays current: going back is instant then. */
const KEEP_MS = 2000;
const ALIVE_MS = 45_000;

/**
 * @typedef {{body: any, error: import('./api.js').ApiError | null, at: number}} Answer
 * @typedef {{answer: import('@preact/signals').Signal<Answer>, users: number, timer: any}} Entry
 */

/** Nothing yet. @type {Answer} */
const NONE = { body: undefined, error: null, at: 0 };

/** @type {Map<string, Entry>} */
const entries = new Map();

/** `starting`, `live`, `polled` (the node has no stream), `lost` (it can't be reached), or `unauthorised`. */
export const connection = signal('starting');

/** The time, moved on once a second while the tab is visible. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** @type {(message: any) => void} */
let send = () => {};
let sending = false;

function tellWants() {
  if (sending) return;
  sending = true;
  queueMicrotask(() => {
    sending = false;
    send({ wants: document.hidden ? [] : [...entries.keys()] });
  });
}

/** @param {import('./hub.js').Update} update */
function take({ path, status, body }) {
  const entry = entries.get(path);
  if (!entry) return;
  const at = Date.now();
  if (status < 400) entry.answer.value = { body, error: null, at };
  else if (status === 401 && connection.value === 'unauthorised') return;
  else entry.answer.value = { body: undefined, error: refusal(status, body), at };
}

/** A hub of this tab's own, where the browser has no worker that tabs share. */
function followAlone() {
  const hub = new Hub(BASE);
  const tab = { wants: new Set(), update: take, state: (state) => (connection.value = state) };
  hub.add(tab);
  send = (message) => {
    if (message.wants) hub.want(tab, message.wants);
    if (message.again) hub.settle();
  };
  tellWants();
}

let connected = false;

/** Begins to follow. Called whenever somebody has logged in. */
export function connect() {
  if (connected) {
    tellWants();
    return tryAgain();
  }
  connected = true;
  try {
    const worker = new SharedWorker(new URL('../worker.js', import.meta.url), { type: 'module', name: 'leveret' });
    worker.onerror = followAlone;
    worker.port.onmessage = ({ data }) => {
      if (data.update) take(data.update);
      if (data.state) connection.value = data.state;
    };
    send = (message) => worker.port.postMessage(message);
    send({ base: BASE });
    setInterval(() => send({ alive: true }), ALIVE_MS);
    addEventListener('pagehide', () => send({ bye: true }));
    addEventListener('pageshow', (event) => event.persisted && tellWants());
  } catch {
    followAlone();
  }
  document.addEventListener('visibilitychange', tellWants);
  tellWants();
}

/** Tries at once what would be tried later. */
export function tryAgain() {
  send({ again: true });
}

/** @param {string} path */
async function fetchNow(path) {
  try {
    const body = await get(path);
    take({ path, status: 200, body });
  } catch (reason) {
    const entry = entries.get(path);
    if (entry && reason.status !== undefined && !entry.answer.value.body) {
      entry.answer.value = { body: undefined, error: reason, at: Date.now() };
    }
  }
}

/** Asks again at once for what a change may have touched. @param {string} prefix */
export function poke(prefix) {
  for (const path of entries.keys()) if (path.startsWith(prefix)) fetchNow(path);
}

/** @param {string} path */
function use(path) {
  let entry = entries.get(path);
  if (!entry) {
    entry = { answer: signal(NONE), users: 0, timer: null };
    entries.set(path, entry);
    // The stream follows a moment later; the first answer doesn't wait for it.
    fetchNow(path);
    tellWants();
  }
  clearTimeout(entry.timer);
  entry.users += 1;
  return entry;
}

/** @param {string} path */
function leave(path) {
  const entry = entries.get(path);
  if (!entry) return;
  entry.users -= 1;
  if (entry.users > 0) return;
  entry.timer = setTimeout(() => {
    entries.delete(path);
    tellWants();
  }, KEEP_MS);
}

/** Forgets everything, at sign-out. */
export function forget() {
  entries.clear();
  tellWants();
}

/**
 * The current answer to a GET. While another path's first answer is awaited, the last body stays, marked as stale.
 * @param {string | null | undefined | false} path null: nothing is asked
 * @returns {{body: any, error: import('./api.js').ApiError | null, at: number, stale: boolean}}
 */
export function useLive(path) {
  const last = useRef(/** @type {any} */ (undefined));
  const held = useRef({ path: /** @type {any} */ (null), entry: /** @type {Entry | null} */ (null) });
  if (held.current.path !== path) {
    if (held.current.path) leave(held.current.path);
    held.current = { path, entry: path ? use(path) : null };
  }
  useEffect(
    () => () => {
      if (held.current.path) leave(held.current.path);
      held.current = { path: null, entry: null };
    },
    [],
  );
  if (!held.current.entry) return { ...NONE, stale: false };
  const answer = held.current.entry.answer.value;
  if (answer.body === undefined && !answer.error) return { ...NONE, body: last.current, stale: true };
  last.current = answer.body;
  return { ...answer, stale: false };
}
