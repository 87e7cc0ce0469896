// Arguments that queues and exchanges take, keys of policies, and properties of messages: offered in forms with a word of help.

/** @typedef {import('./form.js').Known} Known */

/** @type {Record<string, Known>} */
const A = {
  ttl: ['x-message-ttl', 'number', 'Milliseconds that a message lives in the queue'],
  expires: ['x-expires', 'number', 'Milliseconds without use after which the queue is deleted'],
  length: ['x-max-length', 'number', 'Most ready messages'],
  bytes: ['x-max-length-bytes', 'number', 'Most bytes of ready messages'],
  overflow: ['x-overflow', 'text', 'What happens at the limit: drop-head, reject-publish or reject-publish-dlx', 'reject-publish'],
  dlx: ['x-dead-letter-exchange', 'text', 'Exchange that rejected, expired and dropped messages go to'],
  dlk: ['x-dead-letter-routing-key', 'text', 'Routing key of dead letters, instead of their own'],
  single: ['x-single-active-consumer', 'yes/no', 'One consumer at a time gets all messages'],
  priority: ['x-max-priority', 'number', 'Number of priorities, up to 255', '10'],
  durability: ['x-durability', 'text', 'When publishes are confirmed: synced (flushed to disk), os or memory', 'synced'],
  limit: ['x-delivery-limit', 'number', 'Failed deliveries after which a message is dead-lettered or parked'],
  parked: ['x-parked-max', 'number', 'Most messages that are kept aside at their delivery limit'],
  retry: ['x-delayed-retry-type', 'text', 'Returned messages that wait before they are delivered again: all, failed or returned', 'failed'],
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
  quorum: [A.ttl, A.expires, A.length, A.bytes, A.overflow, A.dlx, A.dlk, A.strategy, A.limit, A.parked, A.single, A.timeout, A.retry, A.retryMin, A.retryMax],
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
  ...[A.length, A.bytes, A.ttl, A.expires, A.overflow, A.dlx, A.dlk, A.strategy, A.limit, A.timeout, A.retry, A.retryMin, A.retryMax, A.age, A.filter].map(without),
  ['alternate-exchange', 'text', 'Of exchanges: gets messages which no binding matches'],
];

/** @type {Known[]} */
export const OPERATOR_KEYS = [A.length, A.bytes, A.ttl, A.expires, A.overflow, A.limit, A.retry, A.retryMin, A.retryMax].map(without);

/** @type {Known[]} */
export const PROPERTIES = [
  ['delivery_mode', 'number', '2: kept over a restart; 1: not', '2'],
  ['content_type', 'text', 'Such as application/json', 'application/json'],
  ['priority', 'number', '0 to 255'],
  ['correlation_id', 'text', 'Which request this answers'],
  ['reply_to', 'text', 'Where answers go'],
  ['expiration', 'text', 'Milliseconds to live, as text', '60000'],
  ['message_id', 'text', 'The message\'s own name'],
  ['timestamp', 'number', 'Seconds since 1970'],
  ['type', 'text', 'What kind of message it is'],
  ['user_id', 'text', 'The user that publishes; checked by the node'],
  ['app_id', 'text', 'The program that publishes'],
  ['content_encoding', 'text', 'Such as gzip'],
];
