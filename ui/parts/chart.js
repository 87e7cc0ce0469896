// Charts of what was and is: history from the API, then one point a second from the answers that arrive anyway.
import { html, signal, useEffect, useRef, useState } from '../lib.js';
import { get, query } from '../core/api.js';
import { at, clockTime, short } from '../core/format.js';
import { now } from '../core/live.js';
import { period, setPeriod, theme } from '../core/settings.js';
import { Choice } from './basics.js';

/**
 * @typedef {{key: string, label: string, colour: string, kind: 'rate' | 'level', format: (value: any) => string}} Series
 *   `key`: path in the answer; a rate is read from `KEY_details`
 */

/** Age and step of histories, in seconds. */
const STEPS = { 600: 5, 3600: 60, 28800: 600, 86400: 1800 };
const PERIODS = /** @type {[number, string][]} */ ([[600, '10 min'], [3600, '1 h'], [28800, '8 h'], [86400, '24 h']]);

/** Changes with the system's theme. */
const scheme = signal(matchMedia('(prefers-color-scheme: dark)').matches);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
  scheme.value = event.matches;
});

/** The choice of the period. @param {{long?: boolean}} properties `long`: whether the node keeps more than an hour of it */
export const Period = ({ long }) => html`<${Choice} label="Period of the charts" options=${long ? PERIODS : PERIODS.slice(0, 2)} value=${long ? period.value : Math.min(period.value, 3600)} onChange=${setPeriod} />`;

/** Resolves a colour of the style sheet for a canvas. @param {Element} near @param {string} name */
function colour(near, name) {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  near.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Times in seconds, and the values of each series. @param {any} body @param {Series[]} series */
function columnsOf(body, series) {
  /** @type {Map<number, (number | null)[]>} */
  const rows = new Map();
  series.forEach(({ key, kind }, index) => {
    const samples = [...(at(body, `${key}_details`)?.samples ?? [])].reverse();
    samples.forEach(({ sample, timestamp }, place) => {
      let value = sample;
      if (kind === 'rate') {
        const before = samples[place - 1];
        if (!before) return;
        value = Math.max(0, ((sample - before.sample) * 1000) / Math.max(1, timestamp - before.timestamp));
      }
      const second = Math.round(timestamp / 1000);
      const row = rows.get(second) ?? series.map(() => null);
      row[index] = value;
      rows.set(second, row);
    });
  });
  const times = [...rows.keys()].sort((a, b) => a - b);
  return [times, ...series.map((_, index) => times.map((time) => rows.get(time)?.[index] ?? null))];
}

/**
 * @param {{title: string, path: string, body: any, series: Series[], long?: boolean}} properties
 *   `path`: the GET with the history; `body`: its present answer
 */
export function Chart({ title, path, body, series, long = false }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const data = useRef(/** @type {any[]} */ ([[], ...series.map(() => [])]));
  const latest = useRef(body);
  const [hovered, setHovered] = useState(/** @type {number | null} */ (null));
  latest.current = body;
  const seconds = long ? period.value : Math.min(period.value, 3600);
  const [colours] = [`${theme.value}${scheme.value}`];

  /** @param {Series} one */
  const present = (one) => (one.kind === 'rate' ? at(latest.current, `${one.key}_details.rate`) : at(latest.current, one.key)) ?? null;
  const draw = () => {
    if (!plot.current) return;
    const end = Date.now() / 1000;
    plot.current.setData(data.current, false);
    let high = 0;
    for (const values of data.current.slice(1)) for (const value of values) if (value > high) high = value;
    plot.current.batch(() => {
      plot.current.setScale('x', { min: end - seconds, max: end });
      plot.current.setScale('y', { min: 0, max: high > 0 ? high * 1.08 : 1 });
    });
  };

  useEffect(() => {
    const stop = new AbortController();
    const step = STEPS[seconds] ?? 5;
    const ranges = Object.fromEntries(['lengths', 'msg_rates', 'data_rates', 'node_stats'].flatMap((kind) => [[`${kind}_age`, seconds], [`${kind}_incr`, step]]));
    const fields = series.map(({ key }) => `${key}_details.samples`).join(',');
    get(path + query({ ...ranges, columns: fields }), stop.signal).then(
      (answer) => {
        data.current = columnsOf(answer, series);
        draw();
      },
      () => {},
    );
    return () => stop.abort();
  }, [path, seconds]);

  useEffect(() => {
    let gone = false;
    let watched;
    import('../vendor/uplot.js').then(({ default: uPlot }) => {
      const target = box.current;
      if (gone || !target) return;
      const [line, text] = [colour(target, '--line'), colour(target, '--faint')];
      const font = '11px system-ui, sans-serif';
      const axis = { stroke: text, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
      plot.current = new uPlot(
        {
          width: target.clientWidth, height: target.clientHeight, padding: [8, 4, 0, 0],
          legend: { show: false },
          cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: 'charts', setSeries: false } },
          scales: { x: { time: true, auto: false }, y: { auto: false } },
          axes: [
            { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => clockTime(tick * 1000).slice(0, seconds > 600 ? 5 : 8)), space: 90 },
            { ...axis, size: 46, values: (_, ticks) => ticks.map(short), space: 34 },
          ],
          series: [{}, ...series.map((one) => ({ label: one.label, stroke: colour(target, one.colour), width: 1.6, spanGaps: true, points: { show: false } }))],
          hooks: { setCursor: [(of) => setHovered(of.cursor.idx ?? null)] },
        },
        data.current,
        target,
      );
      draw();
      watched = new ResizeObserver(() => plot.current?.setSize({ width: target.clientWidth, height: target.clientHeight }));
      watched.observe(target);
    });
    return () => {
      gone = true;
      watched?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [colours, seconds, series.map((one) => one.label).join()]);

  const second = Math.floor(now.value / 1000);
  useEffect(() => {
    if (latest.current === undefined) return;
    const [times] = data.current;
    // Long periods get a point a minute, so that they don't grow without end.
    const least = seconds > 3600 ? 60 : seconds > 600 ? 5 : 1;
    if (times.length && second - times[times.length - 1] < least) return;
    times.push(second);
    series.forEach((one, index) => data.current[index + 1].push(present(one)));
    while (times.length && times[0] < second - seconds - 60) for (const values of data.current) values.shift();
    draw();
  }, [second]);

  const shown = series.map((one, index) => (hovered === null ? present(one) : data.current[index + 1]?.[hovered]));
  return html`<div class="chart">
    <div class="chart-head"><h3>${title}</h3><div class="legend">${series.map((one, index) => html`<span class="legend-entry" style=${{ '--dot': `var(${one.colour})` }}>${one.label}<b>${one.format(shown[index])}</b></span>`)}
      ${hovered !== null && data.current[0][hovered] ? html`<span>${clockTime(data.current[0][hovered] * 1000)}</span>` : null}</div></div>
    <div class="chart-box" ref=${box} role="img" aria-label=${`${title}: ${series.map((one) => `${one.label} ${one.format(present(one))}`).join(', ')}`}></div>
  </div>`;
}
