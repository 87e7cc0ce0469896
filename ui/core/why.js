// Reasons why something waits or goes wrong: the node names the reason and who causes it; this makes a sentence of it, with a link to the
// cause and what to do.
import { bytes, count, several, span } from './format.js';
import { to } from './router.js';

/**
 * @typedef {{code: string, since?: string | null, seconds?: number | null, cause?: any}} Reason as the node tells it
 * @typedef {string | {name: string, href?: string}} Part a text, or a name with a link to the cause
 * @typedef {{code: string, level: 'bad' | 'warn' | 'note', short: string, parts: Part[], todo?: string, since?: string | null, seconds?: number | null}} Finding
 */

/** Short names for tables. */
export const SHORT = /** @type {Record<string, string>} */ ({
  empty: 'idle',
  credit: 'prefetch used up',
  link_credit: 'no link credit',
  window: 'window shut',
  room: 'client does not read',
  disk: 'reads from disk',
  turn: 'waits for its core',
  inactive: 'stands by',
  replaced: 'gives way',
  overdue: 'overdue',
  no_consumers: 'no consumers',
  consumers_busy: 'consumers busy',
  slow_consumer: 'slow consumer',
  small_prefetch: 'small prefetch',
  redelivery_loop: 'redelivery loop',
  dropping: 'drops messages',
  sync: 'slow disk syncs',
  full: 'full',
  exclusive_consumer: 'exclusive consumer',
  unacknowledged: 'unacknowledged',
  log_full: 'log full',
  disk_full: 'disk full',
  alarm: 'alarm',
  body_file: 'large messages',
  pacing: 'paced',
  failed: 'stopped',
});

/** Reasons that need nobody's attention. */
const CALM = new Set(['empty', 'inactive', 'turn', 'pacing', 'replaced']);
/** Reasons that are ordinary as long as they don't last. */
const BRIEF = new Set([
  'sync',
  'disk',
  'body_file',
  'log_full',
  'consumers_busy',
  'credit',
  'room',
  'window',
  'unacknowledged',
  'no_consumers',
]);
const BAD = new Set(['failed', 'alarm', 'disk_full', 'full', 'dropping', 'redelivery_loop']);

/** @param {string} code @param {number | null | undefined} seconds @returns {Finding['level']} */
export function level(code, seconds) {
  if (BAD.has(code)) return 'bad';
  if (CALM.has(code) || (BRIEF.has(code) && (seconds ?? 2) < 1)) return 'note';
  return 'warn';
}

/**
 * @param {Reason} reason @param {Part[]} parts @param {string} [todo]
 * @returns {Finding}
 */
const finding = ({ code, since, seconds }, parts, todo) => ({
  code,
  level: level(code, seconds),
  short: SHORT[code] ?? code.replaceAll('_', ' '),
  parts,
  todo,
  since,
  seconds,
});

/** @param {any} cause @returns {Part} */
const consumer = (cause) => ({
  name: cause.consumer_tag || cause.channel || 'a consumer',
  href: cause.connection && to.connection(cause.connection),
});

/** Whose consumer it is. @param {any} cause @returns {Part[]} */
const whose = (cause) => [consumer(cause), ...(cause.user ? [' of user ', { name: cause.user }] : [])];

/** The limit that a queue has reached. @param {any} cause @param {any} queue @returns {Part[]} */
function limit(cause, queue) {
  if (cause?.kind !== 'limit') return ['its length limit'];
  const size = cause.argument === 'max-length-bytes' ? bytes(cause.value) : several(cause.value, 'message');
  const operator = cause.source === 'operator_policy';
  const from = cause.policy
    ? [
        operator ? ' (operator policy ' : ' (policy ',
        {
          name: cause.policy,
          href: operator ? to.operatorPolicy(queue.vhost, cause.policy) : to.policy(queue.vhost, cause.policy),
        },
        ')',
      ]
    : [' (argument of the queue)'];
  return [`its limit of ${size}`, ...from];
}

/** @param {any} object */
const nodeOf = (object) => ({ name: 'the node', href: object.node && to.node(object.node) });

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

/** The wait of a busy consumer in words. @param {any} cause @returns {[Part[], string?]} */
function busy(cause) {
  const held = several(cause.unacknowledged, 'message');
  switch (cause.reason) {
    case 'link_credit':
      return [
        [' has granted no link credit: it asks for no further messages.'],
        'Let the receiver grant credit, or look whether it hangs.',
      ];
    case 'window':
      return [[' leaves the incoming window of its session shut.'], 'Its client has to read and settle what it has.'];
    case 'room':
      return [
        [' reads its socket more slowly than messages come.'],
        'Its client may be busy, stopped, or behind a slow network.',
      ];
    case 'overdue':
      return [
        [` left deliveries unsettled beyond its timeout, and gets nothing until it settles them.`],
        'Raise the consumer timeout if such long work is expected.',
      ];
    default:
      return [
        [
          ` holds ${held}${cause.prefetch_count ? ` of the ${count(cause.prefetch_count)} that its prefetch allows` : ''} and has to acknowledge before it gets more.`,
        ],
        'Make its work faster, or add consumers.',
      ];
  }
}

/**
 * Waits of a queue and whatever goes wrong in it, the most important first.
 * @param {any} queue `/api/queues/VHOST/NAME`, or a row of the list
 * @returns {Finding[]}
 */
export function ofQueue(queue) {
  /** @type {Reason[]} */
  const reasons = queue.why ?? (queue.waits ?? []).map((wait) => ({ code: wait.reason, ...wait }));
  const found = reasons.map((reason) => {
    const cause = reason.cause ?? { kind: 'none' };
    const named = cause.kind === 'consumer';
    const ready = several(queue.messages_ready, 'ready message');
    switch (reason.code) {
      case 'no_consumers':
        return finding(
          reason,
          [`${ready}, and no consumer to take ${queue.messages_ready === 1 ? 'it' : 'them'}.`],
          'Start a consumer, or look why it lost its connection.',
        );
      case 'slow_consumer':
      case 'consumers_busy':
      case 'link_credit':
      case 'window':
      case 'room': {
        if (!named)
          return finding(
            reason,
            ['None of its consumers has credit or room for a message.'],
            'Make consumers faster, or add some.',
          );
        const [said, todo] = busy({ reason: reason.code, ...cause });
        return finding(reason, [`${ready}. Consumer `, ...whose(cause), ...said], todo);
      }
      case 'small_prefetch':
        return finding(
          reason,
          [
            'Consumer ',
            ...(named ? whose(cause) : ['']),
            ` has a prefetch of ${count(cause.prefetch_count ?? 1)}: after each acknowledgement it waits for the way there and back before it has work again.`,
          ],
          'A prefetch of some dozens hides that time.',
        );
      case 'unacknowledged':
        return finding(
          reason,
          [
            `${several(queue.messages_unacknowledged, 'message')} ${queue.messages_unacknowledged === 1 ? 'is' : 'are'} delivered and not acknowledged`,
            ...(named ? [`, ${count(cause.unacknowledged)} of them with consumer `, ...whose(cause)] : []),
            '.',
          ],
          'They stay with the consumer until it acknowledges them or ends. A lower prefetch would leave them to others.',
        );
      case 'redelivery_loop':
        return finding(
          reason,
          [
            'The same messages come back again and again',
            ...(named ? ['; consumer ', ...whose(cause), ' returns them'] : []),
            '.',
          ],
          'Reject without requeue, and give the queue a delivery limit and a dead-letter exchange.',
        );
      case 'dropping':
        return finding(
          reason,
          [
            'It has reached ',
            ...limit(cause, queue),
            `, and its oldest messages are dropped${cause.dropped ? `: ${count(cause.dropped)} so far` : ''}.`,
          ],
          'Consume faster, raise the limit, or give it a dead-letter exchange.',
        );
      case 'full':
        return finding(
          reason,
          ['It has reached ', ...limit(cause, queue), ', and refuses what is published.'],
          'Let consumers catch up, or raise the limit.',
        );
      case 'exclusive_consumer':
        return finding(reason, [
          'Its exclusive consumer ',
          ...(named ? whose(cause) : ['']),
          ' gets all messages, and takes none now.',
        ]);
      case 'sync':
        return finding(
          reason,
          [
            'What is published waits for the disk of ',
            nodeOf(queue),
            cause.sync_ms ? `, where a sync takes ${span(cause.sync_ms / 1000)}.` : '.',
          ],
          cause.sync_ms > 20 || (reason.seconds ?? 0) > 1
            ? 'Something else keeps the disk busy, or it is slow. A faster disk helps, and so do more messages in flight per publisher.'
            : undefined,
        );
      case 'disk':
        return finding(reason, ['Its next messages are being read from the disk: it is longer than what is kept in memory.']);
      case 'log_full':
        return finding(
          reason,
          ['What is published to it waits for room in the log of ', nodeOf(queue), '.'],
          'Publishers are faster than the disk.',
        );
      case 'disk_full':
        return finding(
          reason,
          ['The disk of ', nodeOf(queue), ' is full: nothing can be published.'],
          'Free disk space. Consumers and acknowledgements go on.',
        );
      case 'alarm':
        return finding(
          reason,
          [
            `An alarm for ${cause.resources?.join(' and ') ?? 'memory or disk'} of `,
            nodeOf(queue),
            ' is raised: publishers are not read until it clears.',
          ],
          'Free memory or disk space, or let consumers empty queues.',
        );
      case 'pacing':
        return finding(reason, ['Its publishers are held to the pace of its consumers, so that it stays short.']);
      case 'failed':
        return finding(
          reason,
          [`It stopped: ${queue.failure ?? 'see the log of the node'}`],
          'Its messages are untouched on the disk. The log says what is damaged and what to do.',
        );
      default:
        return finding(reason, [`It waits: ${reason.code.replaceAll('_', ' ')}.`]);
    }
  });
  if (queue.parked > 0) {
    const one = queue.parked === 1;
    found.push({
      code: 'parked',
      level: 'warn',
      short: 'parked',
      parts: [
        { name: several(queue.parked, 'message'), href: to.queue(queue.vhost, queue.name, { tab: 'parked' }) },
        ` reached ${one ? 'its' : 'their'} delivery limit and ${one ? 'is' : 'are'} kept aside.`,
      ],
      todo: 'Look at them, mend the consumer, and move them back.',
    });
  }
  return found;
}

/**
 * The reason that a consumer gets nothing at the moment.
 * @param {any} row of `/api/consumers`
 * @returns {Finding | null}
 */
export function ofConsumer(row) {
  const wait = row.wait;
  if (!wait) return null;
  const reason = { code: wait.reason, since: wait.since, seconds: wait.seconds };
  const half = median(row.latency_us);
  const speed = half === null ? '' : ` Half of its messages waited up to ${span(half)} for it.`;
  switch (wait.reason) {
    case 'empty':
      return finding(reason, ['It waits for a message.']);
    case 'credit':
      return row.prefetch_count === 1
        ? finding(
            reason,
            [`Its prefetch is 1, and it holds a message.${speed}`],
            'A prefetch of some dozens hides the time of the round trip.',
          )
        : finding(
            reason,
            [
              `It holds ${several(row.unacknowledged, 'message')}, as many as its prefetch of ${count(row.prefetch_count)} allows.${speed}`,
            ],
            'Make its work faster, add consumers, or raise its prefetch if the work is done in parallel.',
          );
    case 'disk':
      return finding(reason, ['Its next messages are being read from the disk.']);
    case 'turn':
      return finding(reason, ['It is about to be served.']);
    case 'inactive':
      return finding(reason, ['Another consumer is the single active one; this one takes over when that ends.']);
    case 'replaced':
      return finding(reason, ['A consumer of a higher priority takes over once this one has settled what it holds.']);
    default: {
      const [parts, todo] = busy({ reason: wait.reason, unacknowledged: row.unacknowledged });
      return finding(reason, ['It', ...parts], todo);
    }
  }
}

/**
 * The reasons that a connection isn't read at the moment.
 * @param {any} connection a row of `/api/connections`
 * @returns {Finding[]}
 */
export function ofConnection(connection) {
  /** @type {Reason[]} */
  const reasons = connection.why ?? (connection.wait ? [{ code: connection.wait.reason, ...connection.wait }] : []);
  return reasons.map((reason) => {
    const cause = reason.cause ?? { kind: 'none' };
    const node = nodeOf(connection);
    const queue = cause.kind === 'queue' ? [{ name: cause.name, href: to.queue(cause.vhost, cause.name) }] : ['a queue'];
    switch (reason.code) {
      case 'alarm':
        return finding(
          reason,
          [
            `It publishes while an alarm for ${cause.resources?.join(' and ') ?? 'memory or disk'} of `,
            node,
            ' is raised: it is not read until that clears.',
          ],
          'Free memory or disk space, or let consumers empty queues.',
        );
      case 'disk_full':
        return finding(
          reason,
          ['The disk of ', node, ' is full: the log could not make a file.'],
          'Free disk space. Consumers and acknowledgements go on.',
        );
      case 'log_full':
        return finding(
          reason,
          [
            'What it published is on its way to the disk, and its share of the log is used up',
            cause.sync_ms ? `; a sync takes ${span(cause.sync_ms / 1000)}.` : '.',
          ],
          'It publishes as fast as the disk takes it.',
        );
      case 'sync':
        return finding(reason, [
          'It waits for the disk of ',
          node,
          cause.sync_ms ? `, where a sync takes ${span(cause.sync_ms / 1000)}.` : '.',
        ]);
      case 'body_file':
        return finding(reason, ['It sends large messages, of which more than 1 MiB is not written yet.']);
      case 'pacing':
        return finding(reason, ['It is held to the pace of the consumers of ', ...queue, ', so that the queue stays short.']);
      case 'room':
      case 'window':
      case 'link_credit':
        return finding(reason, ['Its client', ...busy({ reason: reason.code })[0]], busy({ reason: reason.code })[1]);
      default:
        return finding(reason, [
          `It waits: ${reason.code.replaceAll('_', ' ')}`,
          ...(cause.kind === 'queue' ? [', because of ', ...queue] : []),
          '.',
        ]);
    }
  });
}
