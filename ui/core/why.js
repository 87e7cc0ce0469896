// Reasons why something waits or goes wrong. The node says each as a sentence, with names in it; here these become links.
import { link, to } from './router.js';

/**
 * @typedef {{code: string, severity: 'bad' | 'warn' | 'note', short: string, text: string, parts: (string | {name: string, to: any})[], advice?: string, since?: string | null, seconds?: number | null, cause?: any}} Reason as the node tells it
 * @typedef {string | {name: string, href?: string}} Part a text, or a name with a link to the cause
 * @typedef {{code: string, level: 'bad' | 'warn' | 'note', short: string, parts: Part[], todo?: string, since?: string | null, seconds?: number | null}} Finding
 */

/** Short names of waits that are ordinary, for tables. */
const SHORT = /** @type {Record<string, string>} */ ({
  empty: 'idle',
  credit: 'prefetch used up',
  link_credit: 'no link credit',
  window: 'window shut',
  room: 'client does not read',
  disk: 'reads from disk',
  turn: 'waits for its core',
  inactive: 'stands by',
  replaced: 'gives way',
});

/** @param {string} code */
export const short = (code) => SHORT[code] ?? code.replaceAll('_', ' ');

/** @param {any} of what a name stands for @param {any} object the object that waits */
function hrefOf(of, object) {
  switch (of?.kind) {
    case 'queue':
      return to.queue(of.vhost, of.name, { tab: of.tab });
    case 'exchange':
      return to.exchange(of.vhost, of.name);
    case 'connection':
      return of.name ? to.connection(of.name) : undefined;
    case 'policy':
      return to.policy(of.vhost, of.name);
    case 'operator_policy':
      return to.operatorPolicy(of.vhost, of.name);
    case 'node':
      return of.name || object?.node ? to.node(of.name ?? object.node) : link(['nodes']);
    default:
      return undefined;
  }
}

/** @param {Reason} reason @param {any} object @returns {Finding} */
const told = (reason, object) => ({
  code: reason.code,
  level: reason.severity,
  short: reason.short,
  parts: reason.parts.map((part) => (typeof part === 'string' ? part : { name: part.name, href: hrefOf(part.to, object) })),
  todo: reason.advice || undefined,
  since: reason.since,
  seconds: reason.seconds,
});

/** The reasons of a queue, exchange, connection or channel, the most important first. @param {any} object @returns {Finding[]} */
export const findingsOf = (object) => (object.why ?? []).map((reason) => told(reason, object));

/** An object of `api/attention`, named at the beginning of its sentence. @param {any} item @returns {Finding} */
export function ofItem(item) {
  const { code, parts, ...rest } = told(item, item);
  const href =
    item.kind === 'exchange'
      ? to.exchange(item.vhost, item.name)
      : item.kind === 'connection'
        ? to.connection(item.name)
        : to.queue(item.vhost, item.name);
  return {
    ...rest,
    code: [code, item.kind, item.vhost, item.name, item.node].join('\n'),
    parts: [
      { name: item.name || '(AMQP default)', href },
      // Nodes of a cluster say whose it is.
      ...(item.node ? [' on ', { name: item.node, href: to.node(item.node) }] : []),
      ': ',
      ...parts,
    ],
  };
}

/** The reason that a consumer gets nothing at the moment. @param {any} row of `api/consumers` @returns {Finding | null} */
export function ofConsumer(row) {
  const [first] = findingsOf(row);
  if (first || !row.wait) return first ?? null;
  const { reason, since, seconds } = row.wait;
  return { code: reason, level: 'note', short: short(reason), parts: [`It waits: ${short(reason)}.`], since, seconds };
}

/** The histogram's bound below which half of the values lie, in seconds. @param {Record<string, number> | undefined} buckets */
export function median(buckets) {
  const sorted = Object.entries(buckets ?? {})
    .map(([bound, n]) => /** @type {[number, number]} */ ([Number(bound), n]))
    .sort((a, b) => a[0] - b[0]);
  const all = sorted.reduce((sum, [, n]) => sum + n, 0);
  let seen = 0;
  for (const [bound, n] of sorted) {
    seen += n;
    if (all > 0 && seen * 2 >= all) return bound / 1e6;
  }
  return null;
}
