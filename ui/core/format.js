// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { year: 'numeric', month: 'short', day: '2-digit' });

/** @param {unknown} value */
const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

/** @param {any} value */
export const count = (value) => (isNumber(value) ? whole.format(value) : '–');

/** Something per second. @param {any} value */
export function rate(value) {
  if (!isNumber(value)) return '–';
  if (value === 0) return '0';
  if (value > 0 && value < 0.1) return '< 0.1';
  return Math.abs(value) < 10 ? tenth.format(value) : whole.format(value);
}

/** A number for an axis or a narrow place: 12k, 3.4M. @param {number} value */
export function short(value) {
  for (const [size, unit] of /** @type {[number, string][]} */ ([
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ])) {
    if (Math.abs(value) >= size) return `${+(value / size).toFixed(Math.abs(value) < size * 10 ? 1 : 0)}${unit}`;
  }
  return String(+value.toFixed(2));
}

/** @param {any} value */
export function bytes(value) {
  if (!isNumber(value)) return '–';
  let size = value;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (Math.abs(size) < 1024 || unit === 'TiB')
      return unit === 'B'
        ? `${whole.format(size)} B`
        : `${size < 10 ? size.toFixed(2) : size < 100 ? size.toFixed(1) : whole.format(size)} ${unit}`;
    size /= 1024;
  }
  return '';
}

/** A length of time. @param {any} seconds @param {boolean} [brief] in its largest unit only */
export function span(seconds, brief = false) {
  if (!isNumber(seconds)) return '–';
  const s = Math.max(0, seconds);
  if (s < 1) return s === 0 ? '0 s' : `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (brief)
    return s < 3600 ? `${Math.floor(s / 60)} min` : s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** A moment. @param {any} at milliseconds since 1970, or text */
export function time(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime()) || at === null) return '–';
  return `${day.format(date)}, ${clock.format(date)}`;
}

/** @param {any} at milliseconds */
export const clockTime = (at) => clock.format(new Date(at));

/** @param {number} share 0 to 1 */
export const percent = (share) => (isNumber(share) ? `${Math.round(share * 100)} %` : '–');

/** One thing or several. @param {any} n @param {string} one @param {string} [many] */
export const several = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

/** The value at a path such as `message_stats.publish`. @param {any} row @param {string} path */
export function at(row, path) {
  return path.split('.').reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), row);
}

/** A value of arguments or properties as text. @param {any} value */
export const plain = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** Names that a browser takes out of a path, and words that stand in the API's own paths where others have a name. */
const PLAIN_MEANS_ELSE = new Set(
  ' . .. bulk-delete channels connections detailed node publishers quorum sessions status super-streams tracking transfers username without-permissions'.split(
    ' ',
  ),
);

/** A text in an address. Half a pair of surrogates, which nothing can encode, becomes a question mark. @param {string} text */
export const quoted = (text) => encodeURIComponent(text.toWellFormed?.() ?? text);

/**
 * A name as one segment of a path. Behind `;=` a segment is a name whatever else it would mean, and no browser or proxy shortens it.
 * @param {string} name
 */
export const segment = (name) => (PLAIN_MEANS_ELSE.has(name) ? ';=' : '') + quoted(name);
