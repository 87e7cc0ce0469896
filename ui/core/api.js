// Requests to the node's HTTP API.
import { signal } from '../lib.js';
import { quoted, segment } from './format.js';

/** The API below the folder that the page was loaded from, so that `management.path_prefix` needs no setting here. */
export const BASE = new URL('api/', location.origin + location.pathname.replace(/[^/]*$/, '')).href;

/** A refusal in the API's words. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if the node can't be reached
   * @param {string} error
   * @param {string} reason
   */
  constructor(status, error, reason) {
    super(reason);
    this.status = status;
    this.error = error;
    this.reason = reason;
  }
}

/**
 * A path with each interpolated name as a segment.
 * @param {TemplateStringsArray} texts
 * @param {...unknown} values
 */
export function path(texts, ...values) {
  return texts.reduce((whole, text, at) => whole + segment(String(values[at - 1])) + text);
}

/**
 * A query, without pairs that are empty.
 * @param {Record<string, unknown>} pairs
 */
export function query(pairs) {
  const given = Object.entries(pairs).filter(
    ([, value]) => value !== undefined && value !== null && value !== '' && value !== false,
  );
  return given.length
    ? '?' + given.map(([key, value]) => `${quoted(key)}=${quoted(String(value))}`).join('&')
    : '';
}

/** Called when an answer is 401, which may mean that the session ended. */
let unauthorised = () => {};
/** @param {() => void} then */
export function onUnauthorised(then) {
  unauthorised = then;
}

/** @param {unknown} reason */
function words(reason) {
  return typeof reason === 'string' ? reason : JSON.stringify(reason);
}

/**
 * The error that an answer is.
 * @param {number} status
 * @param {any} body
 */
export function refusal(status, body) {
  if (body && typeof body === 'object') return new ApiError(status, words(body.error ?? 'error'), words(body.reason ?? body));
  return new ApiError(
    status,
    'error',
    typeof body === 'string' && body ? body.slice(0, 500) : `The node answered with status ${status}.`,
  );
}

/** @param {Response} response */
async function bodyOf(response) {
  const text = await response.text();
  if (!text) return null;
  if (!(response.headers.get('content-type') ?? '').includes('json')) return text;
  return JSON.parse(text);
}

/**
 * Opens a stream of events.
 * @param {string} where path below `api/`
 * @param {AbortSignal} signal
 * @returns {Promise<ReadableStream<Uint8Array>>}
 */
export async function stream(where, signal) {
  const response = await fetch(BASE + where, {
    signal,
    credentials: 'same-origin',
    cache: 'no-store',
    headers: { Accept: 'text/event-stream', 'X-Leveret-Request': '1' },
  });
  if (response.status !== 200 || !response.body) throw refusal(response.status, await bodyOf(response));
  return response.body;
}

/**
 * A request; an answer of 400 and above is thrown.
 * @param {string} method
 * @param {string} where path below `api/`
 * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal, quiet?: boolean}} [options]
 * @returns {Promise<{status: number, body: any, headers: Headers}>}
 */
export async function request(method, where, { body, headers, signal, quiet } = {}) {
  let response;
  try {
    response = await fetch(BASE + where, {
      method,
      signal,
      credentials: 'same-origin',
      cache: 'no-store',
      headers: { 'X-Leveret-Request': '1', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : typeof body === 'string' || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch (reason) {
    if (signal?.aborted) throw reason;
    throw new ApiError(0, 'unreachable', 'The node cannot be reached.');
  }
  let answer;
  try {
    answer = await bodyOf(response);
  } catch {
    throw new ApiError(response.status, 'broken answer', 'The answer was cut off or is no JSON.');
  }
  if (response.status < 400) return { status: response.status, body: answer, headers: response.headers };
  if (response.status === 401 && !quiet) unauthorised();
  throw refusal(response.status, answer);
}

/** @param {string} where @param {AbortSignal} [signal] */
export const get = async (where, signal) => (await request('GET', where, { signal })).body;
/** @param {string} where @param {unknown} [body] */
export const put = (where, body = {}) => request('PUT', where, { body });
/** @param {string} where @param {unknown} [body] */
export const post = async (where, body = {}) => (await request('POST', where, { body })).body;
/** @param {string} where @param {Record<string, string>} [headers] */
export const remove = (where, headers) => request('DELETE', where, { headers });

// The session: who is logged in, and what the tags allow. The server decides; the page only leaves out what would be refused.

/** @typedef {{name: string, tags: string[]}} User */

/** Undefined until the node was asked, null if nobody is logged in. */
export const me = signal(/** @type {User | null | undefined} */ (undefined));
/** True if a session ended by itself. */
export const ended = signal(false);
/** Set if the node couldn't be asked. */
export const trouble = signal(/** @type {import('./api.js').ApiError | null} */ (null));

/** @param {...string} tags */
function has(...tags) {
  const own = me.value?.tags ?? [];
  return tags.some((tag) => own.includes(tag));
}

export const may = {
  administer: () => has('administrator'),
  monitor: () => has('administrator', 'monitoring'),
  setPolicies: () => has('administrator', 'policymaker'),
};

/** Whether somebody signed in here before: a first visit asks nothing, and gets no refusal in its console. */
const HINT = 'leveret.signed-in';
const remembered = () => {
  try {
    return localStorage.getItem(HINT) !== null;
  } catch {
    return true;
  }
};
/** @param {boolean} is */
const remember = (is) => {
  try {
    if (is) localStorage.setItem(HINT, '1');
    else localStorage.removeItem(HINT);
  } catch {
    // Then each visit asks.
  }
};

let asking = false;

/** Finds out at the start who is signed in. */
export async function begin() {
  if (remembered()) await ask();
  else me.value = null;
}

/** Asks the node who we are. */
export async function ask() {
  if (asking) return;
  asking = true;
  try {
    const { body } = await request('GET', 'whoami', { quiet: true });
    const tags = Array.isArray(body.tags) ? body.tags : String(body.tags ?? '').split(',');
    trouble.value = null;
    if (me.value?.name !== body.name || String(me.value?.tags) !== String(tags)) me.value = { name: body.name, tags };
    ended.value = false;
    remember(true);
  } catch (reason) {
    if (reason.status === 401) {
      ended.value = !!me.value;
      me.value = null;
      remember(false);
    } else if (!me.value) trouble.value = reason;
  } finally {
    asking = false;
  }
}
// RabbitMQ's API answers 401 also to what a user may not do: only a refused `whoami` ends the session.
onUnauthorised(ask);

/** @param {string} username @param {string} password */
export async function login(username, password) {
  const body = new URLSearchParams({ username, password });
  await request('POST', 'login', {
    body: body.toString(),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    quiet: true,
  });
  await ask();
}

export async function logout() {
  try {
    await request('POST', 'logout', { quiet: true });
  } catch {
    // It ended already, or the node is away: then the cookie is worth nothing there.
  }
  me.value = null;
  remember(false);
}
