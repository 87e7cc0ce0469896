// Charts of what was and is: history from the API, then one point a second from the answers that arrive anyway. Lines, two axes and
// a pointer on a canvas: a chart library would be a fifth of all that the page weighs.
import { html, signal, useEffect, useRef, useState } from '../lib.js';
import { get, may, query } from '../core/api.js';
import { at, bytes, clockTime, count, rate, short } from '../core/format.js';
import { now, useLive } from '../core/live.js';
import { period, route, setPeriod, setQuery, theme } from '../core/router.js';
import { Choice, guarded, visible } from './basics.js';

/**
 * @typedef {{key: string, label: string, colour: string, kind: 'rate' | 'level' | 'counter', format: (value: any) => string}} Series
 *   `key`: path in the answer; a rate is read from `KEY_details`, and of a counter it is what was added since the last answer
 */

/** @param {string} key @param {string} label @param {string} colour @param {(value: any) => string} [format] @returns {Series} */
export const level = (key, label, colour, format = count) => ({ key, label, colour, kind: 'level', format });
/** @param {string} key @param {string} label @param {string} colour @param {(value: any) => string} [format] @returns {Series} */
export const flow = (key, label, colour, format = rate) => ({ key, label, colour, kind: 'rate', format });

/** @param {string} key @param {string} label @param {string} colour @param {(value: any) => string} [format] @returns {Series} */
export const counter = (key, label, colour, format = rate) => ({ key, label, colour, kind: 'counter', format });

/** Lengths of queues. @param {string} [prefix] */
export const lengths = (prefix = '') => [
  level(`${prefix}messages`, 'Total', '--total'),
  level(`${prefix}messages_ready`, 'Ready', '--ready'),
  level(`${prefix}messages_unacknowledged`, 'Unacked', '--unacked'),
];

const RATES = {
  publish: ['In', '--in'],
  publish_in: ['In', '--in'],
  confirm: ['Confirms', '--total'],
  deliver_get: ['Out', '--out'],
  publish_out: ['Out', '--out'],
  ack: ['Acks', '--acks'],
  redeliver: ['Redelivered', '--again'],
  return_unroutable: ['Returned', '--ready'],
  drop_unroutable: ['Reached no queue', '--bad'],
};
/** Rates of messages. @param {...string} keys */
export const rates = (...keys) => keys.map((key) => flow(`message_stats.${key}`, RATES[key][0], RATES[key][1]));

/** Age and step of histories, in seconds. */
const STEPS = { 600: 5, 3600: 60, 28800: 600, 86400: 1800 };
const PERIODS = { 600: '10 min', 3600: '1 h', 21600: '6 h', 28800: '8 h', 86400: '24 h' };
/** Periods that are kept of the node, of a queue, and of everything else. */
const OF = { node: [600, 3600, 28800, 86400], queue: [600, 3600, 21600], other: [600, 3600] };
/** @typedef {keyof typeof OF} Kind */
/** The chosen period, or the longest below that is kept. @param {Kind} kind */
const chosen = (kind) => OF[kind].filter((seconds) => seconds <= (Number(route.value.query.range) || period.value)).at(-1) ?? 600;
/** Distances between times that are marked, in seconds. */
const TICKS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600];
/** Events that are bad news. */
export const WORST = /stopped|raised|disconnect/;
/** Room for the axes, in pixels. */
const [LEFT, BOTTOM, TOP] = [58, 20, 8];

/** Changes with the system's theme. */
const scheme = signal(matchMedia('(prefers-color-scheme: dark)').matches);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
  scheme.value = event.matches;
});
/** The time that the pointer is at in any chart: all show the same moment. */
const pointed = signal(/** @type {number | null} */ (null));

/** The choice of the period. @param {{of?: Kind}} properties */
export const Period = ({ of = 'other' }) =>
  html`<${Choice} label="Period of the charts" options=${OF[of].map((seconds) => [seconds, PERIODS[seconds]])} value=${chosen(of)} onChange=${(
    seconds,
  ) => {
    setPeriod(seconds);
    setQuery({ range: seconds }, true);
  }} />`;

/** Times in seconds, and the values of each series. @param {any} body @param {Series[]} series */
function columnsOf(body, series) {
  /** @type {Map<number, (number | null)[]>} */
  const rows = new Map();
  series.forEach(({ key, kind }, index) => {
    const samples = [...(at(body, `${key}_details`)?.samples ?? [])].reverse();
    samples.forEach(({ sample, timestamp }, place) => {
      const before = samples[place - 1];
      // Of the newest two samples one may repeat the other, or a part of it.
      if (kind !== 'level' && (!before || place >= samples.length - 2)) return;
      const second = Math.round(timestamp / 1000);
      const row = rows.get(second) ?? series.map(() => null);
      row[index] =
        kind !== 'level' ? Math.max(0, ((sample - before.sample) * 1000) / Math.max(1, timestamp - before.timestamp)) : sample;
      rows.set(second, row);
    });
  });
  const all = [...rows.keys()].sort((a, b) => a - b);
  // Times before anything was sampled repeat the first sample: the line begins where something changes.
  const same = (time) => String(rows.get(time)) === String(rows.get(all[0]));
  const first = all.findIndex((time) => !same(time));
  const isLevel = series[0]?.kind === 'level';
  const times = all.slice(first >= 0 ? first + (isLevel ? 0 : 1) : isLevel ? -1 : all.length);
  return [times, ...series.map((_, index) => times.map((time) => rows.get(time)?.[index] ?? null))];
}

/**
 * The same from the history by the minute, in which a minute without a sample has the lengths of the one before and no rates.
 * @param {any} body @param {Series[]} series @param {number} from in seconds
 */
function minutesOf({ columns, samples }, series, from) {
  const places = series.map(({ key }) => columns.indexOf(key.replace(/^.*\./, '')) + 1);
  const out = /** @type {any[]} */ ([[], ...series.map(() => [])]);
  const value = (sample, index) =>
    places[index] ? sample[places[index]] : series[index].key.endsWith('messages') ? sample[1] + sample[2] : null;
  samples.forEach((sample, at) => {
    // The minute that hasn't ended has no sample yet.
    const until = (samples[at + 1]?.[0] ?? Math.max(sample[0] + 1, Date.now() - 90_000)) / 1000;
    for (let time = sample[0] / 1000; time < until; time += 60) {
      if (time < from) continue;
      out[0].push(time);
      series.forEach((one, index) =>
        out[index + 1].push(one.kind === 'level' || time === sample[0] / 1000 ? value(sample, index) : 0),
      );
    }
  });
  return out;
}

/** The last point that isn't after a time. @param {number[]} times @param {number} time */
function before(times, time) {
  let [low, high] = [-1, times.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A round number not below a value, and how many steps lead to it. @param {number} value */
function roundUp(value) {
  const size = 10 ** Math.floor(Math.log10(value || 1));
  const [top, steps] = [
    [1, 2],
    [2, 4],
    [2.5, 5],
    [3, 3],
    [4, 4],
    [5, 5],
    [6, 3],
    [8, 4],
    [10, 2],
  ].find(([times]) => times * size >= value) ?? [10, 2];
  return [top * size, steps];
}

/**
 * @param {HTMLCanvasElement} canvas @param {any[]} data @param {Series[]} series @param {number} seconds @param {number | null} mark @param {any[]} events
 */
function draw(canvas, data, series, seconds, mark, events) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext('2d');
  if (!pen) return;
  const colour = (name) => {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  };
  const [line, text] = [colour('--line'), colour('--faint')];
  const end = Date.now() / 1000;
  const [times, ...columns] = data;
  let high = 0;
  for (const values of columns) for (const value of values) if (value > high) high = value;
  // Sizes are round in their own unit.
  const unit = series[0].format === bytes && high > 0 ? 1024 ** Math.floor(Math.log2(high) / 10) : 1;
  const [round, steps] = roundUp(high / unit);
  const top = round * unit;
  const x = (time) => LEFT + ((time - end + seconds) / seconds) * (width - LEFT - 4);
  const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - TOP);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '11px system-ui, sans-serif';
  pen.lineWidth = 1;
  pen.strokeStyle = line;
  pen.fillStyle = text;
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  pen.beginPath();
  for (let step = 0; step <= steps; step += 1) {
    const value = (top * step) / steps;
    const level = Math.round(y(value)) + 0.5;
    pen.moveTo(LEFT, level);
    pen.lineTo(width - 4, level);
    if (top >= steps || step === 0 || step === steps)
      pen.fillText(unit > 1 || series[0].format === bytes ? bytes(value).replace(/\.0+ /, ' ') : short(value), LEFT - 6, level);
  }
  const gap = TICKS.find((size) => (size / seconds) * (width - LEFT) > 80) ?? 21600;
  // Marks stand at whole minutes and hours of the local clock.
  const shift = new Date().getTimezoneOffset() * 60;
  pen.textAlign = 'center';
  for (let time = Math.ceil((end - seconds - shift) / gap) * gap + shift; time < end; time += gap) {
    const place = Math.round(x(time)) + 0.5;
    pen.moveTo(place, TOP);
    pen.lineTo(place, height - BOTTOM);
    if (place > LEFT + 18 && place < width - 22)
      pen.fillText(clockTime(time * 1000).slice(0, gap < 60 ? 8 : 5), place, height - BOTTOM / 2);
  }
  pen.stroke();
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width, height);
  pen.clip();
  pen.lineJoin = 'round';
  pen.lineWidth = 1.6;
  series.forEach((one, index) => {
    pen.strokeStyle = colour(one.colour);
    pen.beginPath();
    let down = false;
    columns[index].forEach((value, place) => {
      if (value === null) return;
      if (down) pen.lineTo(x(times[place]), y(value));
      else pen.moveTo(x(times[place]), y(value));
      down = true;
    });
    pen.stroke();
  });
  for (const event of events) {
    pen.fillStyle = colour(WORST.test(event.kind) ? '--bad' : '--note');
    pen.fillRect(x(event.at / 1000) - 1, TOP, 2, 7);
  }
  if (mark !== null && mark > end - seconds) {
    pen.strokeStyle = text;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x(mark), TOP);
    pen.lineTo(x(mark), height - BOTTOM);
    pen.stroke();
  }
  pen.restore();
}

const unmark = () => {
  pointed.value = null;
};

/**
 * @param {{title: string, path: string, body: any, series: Series[], of?: Kind, past?: string}} properties
 *   `path`: the GET with the history; `body`: its present answer; `past`: the GET with the history by the minute
 */
function Drawing({ title, path, body, series, of = 'other', past }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const data = useRef(/** @type {any[]} */ ([[], ...series.map(() => [])]));
  const counted = useRef(/** @type {Record<string, {value: number, at: number, rate?: number}>} */ ({}));
  const [loads, setLoads] = useState(0);
  const seconds = chosen(of);
  const events = useLive(may.monitor() && 'events').body ?? [];
  const second = Math.floor(now.value / 1000);
  const mark = pointed.value;

  /** @param {Series} one */
  const present = (one) =>
    (one.kind === 'counter'
      ? counted.current[one.key]?.rate
      : at(body, one.kind === 'rate' ? `${one.key}_details.rate` : one.key)) ?? null;
  for (const { key, kind } of body ? series : []) {
    const value = kind === 'counter' ? at(body, key) : undefined;
    const last = counted.current[key];
    if (value === undefined || last?.value === value) continue;
    counted.current[key] = {
      value,
      at: Date.now(),
      rate: last && ((value - last.value) * 1000) / Math.max(500, Date.now() - last.at),
    };
  }

  useEffect(() => {
    const stop = new AbortController();
    const ranges = Object.fromEntries(
      ['lengths', 'msg_rates', 'data_rates', 'node_stats'].flatMap((kind) => [
        [`${kind}_age`, seconds],
        [`${kind}_incr`, STEPS[seconds] ?? 5],
      ]),
    );
    // Without a history the chart begins now.
    const ask = (where) => get(where, stop.signal).catch(() => null);
    Promise.all([
      (!past || seconds <= 3600) &&
        ask(path + query({ ...ranges, columns: series.map(({ key }) => `${key}_details.samples`).join(',') })),
      past && ask(past + query({ from: Date.now() - seconds * 1000 })),
    ]).then(([recent, minutes]) => {
      if (stop.signal.aborted) return;
      const near = columnsOf(recent, series);
      // Samples since the first request are finer than the minutes before.
      const begin = near[0][0] ?? Infinity;
      const far = minutes ? minutesOf(minutes, series, Date.now() / 1000 - seconds) : [];
      const older = far[0]?.filter((time) => Number(time) < Number(begin)).length;
      data.current = near.map((values, index) => [...(far[index]?.slice(0, older) ?? []), ...values]);
      setLoads((count) => count + 1);
    });
    return () => stop.abort();
  }, [path, past, seconds]);

  useEffect(() => {
    const [times] = data.current;
    // Long periods get a point a minute, so that they don't grow without end.
    const least = seconds > 3600 ? 60 : seconds > 600 ? 5 : 1;
    if (body === undefined || (times.length && second - times[times.length - 1] < least)) return;
    times.push(second);
    series.forEach((one, index) => data.current[index + 1].push(present(one)));
    while (times.length && times[0] < second - seconds - 60) for (const values of data.current) values.shift();
  }, [second]);

  useEffect(() => {
    if (canvas.current) draw(canvas.current, data.current, series, seconds, mark, events);
  }, [second, loads, seconds, mark, events, theme.value, scheme.value]);
  useEffect(() => {
    if (!canvas.current) return undefined;
    const watched = new ResizeObserver(() => setLoads((count) => count + 1));
    watched.observe(canvas.current);
    return () => watched.disconnect();
  }, []);

  const point = (event) => {
    const { clientWidth: width } = event.currentTarget;
    const share = (event.offsetX - LEFT) / (width - LEFT - 4);
    pointed.value = share < 0 || share > 1 ? null : Date.now() / 1000 - seconds * (1 - share);
  };
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (by === undefined && event.key !== 'Escape') return;
    event.preventDefault();
    const end = Date.now() / 1000;
    const moved = (mark ?? end) + ((by ?? 0) * seconds) / 120;
    pointed.value = by === undefined ? null : Math.max(end - seconds, Math.min(end, moved));
  };
  const [times] = data.current;
  const place = mark === null ? -1 : before(times, mark);
  const near = mark !== null && events.find((event) => Math.abs(event.at / 1000 - Number(mark)) < seconds / 80);
  const shown = series.map((one, index) => (place < 0 ? present(one) : data.current[index + 1][place]));
  return html`<div class="chart">
    <div class="chart-head"><h2>${title}</h2><div class="legend">${series.map((one, index) => html`<span class="legend-entry" style=${{ '--dot': `var(${one.colour})` }}>${one.label}<b>${one.format(shown[index])}</b></span>`)}
      ${place >= 0 && html`<span>${clockTime(times[place] * 1000)}</span>`}${near && html`<span class=${WORST.test(near.kind) ? 'bad' : ''}>${near.kind.replaceAll('_', ' ')}: ${visible(near.what)}</span>`}</div></div>
    <canvas class="chart-box" ref=${canvas} role="img" tabindex="0" aria-label=${`${title}${place >= 0 ? ` at ${clockTime(times[place] * 1000)}` : ''}: ${series.map((one, index) => `${one.label} ${one.format(shown[index])}`).join(', ')}`} onPointerMove=${point} onKeyDown=${step} onBlur=${unmark} onPointerLeave=${unmark}></canvas>
  </div>`;
}

export const Chart = guarded(Drawing);
