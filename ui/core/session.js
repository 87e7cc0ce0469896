// Who is logged in, and what the tags allow. The server decides; the page only leaves out what would be refused.
import { signal } from '../lib.js';
import { BASE, onUnauthorised, request } from './api.js';

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

let asking = false;

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
  } catch (reason) {
    if (reason.status === 401) {
      ended.value = !!me.value;
      me.value = null;
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
}

export { BASE };
