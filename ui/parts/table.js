// Lists: paged and sorted by the server, with everything about the view in the address, and rows drawn only where one looks.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib.js';
import { query } from '../core/api.js';
import { count } from '../core/format.js';
import { useLive } from '../core/live.js';
import { columnsOf, keepColumns, route, setQuery } from '../core/router.js';
import { short } from '../core/why.js';
import { Guard, Name, Problem } from './basics.js';

/** Height of a row in pixels, as in the style sheet. */
const ROW = 30;
/** Rows drawn above and below those that are seen. */
const MARGIN = 10;
/** From this number of rows on, only those near the visible part are drawn. */
const VIRTUAL_FROM = 60;
export const SIZES = [50, 100, 250, 500];
const SIZE_DEFAULT = 100;

/**
 * @typedef {object} Column
 * @property {string} id
 * @property {string} title
 * @property {(row: any) => any} cell
 * @property {boolean} [num] numbers are aligned at the right and sorted from the largest
 * @property {string} [sort] the API's path to sort by; of a local list, the path of the value
 * @property {string[]} [need] fields that the cell shows
 * @property {string} [hint]
 * @property {boolean} [off] not shown unless chosen
 * @property {boolean} [fixed] can't be left out
 * @property {boolean} [slack] left out on a phone
 */

/**
 * The chosen columns: those of the address, else those kept in the browser, else the usual ones.
 * @param {string} id @param {Column[]} columns
 */
function useColumns(id, columns) {
  const usual = columns.filter((column) => !column.off).map((column) => column.id);
  const asked = route.value.query.cols ?? columnsOf(id);
  const ids = asked ? asked.split(',').filter((one) => columns.some((column) => column.id === one)) : usual;
  const shown = columns.filter((column) => column.fixed || ids.includes(column.id));
  const kept = columnsOf(id);
  useEffect(() => {
    // A view with other columns than the usual ones is a link, too.
    if (kept && !route.value.query.cols && kept !== usual.join(',')) setQuery({ cols: kept }, true);
  }, [id]);
  /** @param {string} one @param {boolean} on */
  const choose = (one, on) => {
    const next = columns.filter((column) => (column.id === one ? on : shown.includes(column))).map((column) => column.id);
    const text = next.join(',');
    const isUsual = text === usual.join(',');
    keepColumns(id, isUsual ? null : text);
    setQuery({ cols: isUsual ? '' : text }, true);
  };
  const reset = () => {
    keepColumns(id, null);
    setQuery({ cols: '' }, true);
  };
  return { all: columns, shown, choose, reset };
}

/**
 * A list of the API that stays current.
 * @param {{id: string, path: string | null, columns: Column[], always?: string[], sort?: string, reverse?: boolean, extra?: Record<string, any>, whole?: boolean}} of
 *   `always`: fields that every row needs; `whole`: rows with all their fields
 */
export function useList({
  id,
  path,
  columns,
  always = [],
  sort: usualSort = '',
  reverse: usualReverse = false,
  extra = {},
  whole = false,
}) {
  const chosen = useColumns(id, columns);
  const asked = route.value.query;
  const page = Math.max(1, Number.parseInt(asked.page, 10) || 1);
  const size = SIZES.includes(Number(asked.size)) ? Number(asked.size) : SIZE_DEFAULT;
  const sort = asked.sort ?? usualSort;
  const reverse = asked.sort === undefined ? usualReverse : asked.reverse === '1';
  const fields = whole ? '' : [...new Set([...always, ...chosen.shown.flatMap((column) => column.need ?? [])])].join(',');
  const where =
    path &&
    path +
      query({
        page,
        page_size: size,
        // A pattern is one of names; anything else is looked for in all that a row shows.
        ...(asked.regex === '1' ? { name: asked.name, use_regex: asked.name && 'true' } : { search: asked.name }),
        why: asked.why,
        severity: asked.severity,
        sort,
        sort_reverse: sort && reverse ? 'true' : '',
        columns: fields,
        pagination: 'true',
        ...extra,
      });
  const live = useLive(where);
  const body = live.body;
  const isPage = body && !Array.isArray(body);
  const rows = isPage ? (body.items ?? []) : (body ?? []);
  // Behind the last page, which rows that went have shortened, the last one is shown.
  const beyond = live.error?.status === 400 && page > 1;
  useEffect(() => {
    if (beyond) setQuery({ page: '' }, true);
  }, [beyond]);
  return {
    id,
    chosen,
    live,
    rows,
    page,
    size,
    sort,
    reverse,
    name: asked.name ?? '',
    regex: asked.regex === '1',
    pages: isPage ? Math.max(1, body.page_count) : 1,
    total: isPage ? body.total_count : rows.length,
    filtered: isPage ? body.filtered_count : rows.length,
    /** @param {Column} column */
    sortBy: (column) => {
      if (!column.sort) return;
      const first = !!column.num;
      if (sort !== column.sort) setQuery({ sort: column.sort, reverse: first ? '1' : '', page: '' });
      else if (reverse === first) setQuery({ sort: column.sort, reverse: first ? '' : '1', page: '' });
      else setQuery({ sort: '', reverse: '', page: '' });
    },
    key: [page, size, sort, reverse, asked.name, asked.why, asked.severity, fields].join(),
  };
}

/**
 * Rows that are here already, sorted here.
 * @param {string} id @param {any[]} rows @param {Column[]} columns
 */
export function useLocal(id, rows, columns) {
  const [order, setOrder] = useState({ sort: '', reverse: false });
  const value = (row) => order.sort.split('.').reduce((of, key) => of?.[key], row);
  const sorted = order.sort
    ? [...rows].sort((a, b) => {
        const [x, y] = [value(a) ?? '', value(b) ?? ''];
        const by =
          typeof x === 'number' && typeof y === 'number' ? x - y : String(x) < String(y) ? -1 : String(x) > String(y) ? 1 : 0;
        return order.reverse ? -by : by;
      })
    : rows;
  return {
    id,
    rows: sorted,
    sort: order.sort,
    reverse: order.reverse,
    key: id,
    chosen: { all: columns, shown: columns.filter((column) => !column.off), choose: () => {}, reset: () => {} },
    live: { body: rows, error: null, stale: false },
    /** @param {Column} column */
    sortBy: (column) => {
      if (!column.sort) return;
      const first = !!column.num;
      setOrder(
        order.sort !== column.sort
          ? { sort: column.sort, reverse: first }
          : order.reverse === first
            ? { sort: column.sort, reverse: !first }
            : { sort: '', reverse: false },
      );
    },
  };
}

/** @param {Column} column @param {number} at */
const classOf = ({ num, slack }, at) => `${num ? 'num ' : ''}${slack ? 'slack ' : ''}${at === 0 ? 'first' : ''}`;

/** The reasons that a list is limited to, with a way back to all. */
function Reasons() {
  const { why, severity = '' } = route.value.query;
  return html`${why && html`<button type="button" class="small" onClick=${() => setQuery({ why: '', page: '' })}>${short(why)} only: show all</button>`}
    <select aria-label="What goes wrong" value=${severity} onChange=${(event) => setQuery({ severity: event.currentTarget.value, page: '' })}>
      <option value="">All rows</option><option value="bad">Lost or stuck</option><option value="warn">To look at</option><option value="note">Ordinary waits</option></select>`;
}

/** Filter, pages and columns of a list. @param {{list: any, what: string}} properties */
export function Tools({ list, what }) {
  const [text, setText] = useState(list.name);
  const timer = useRef(/** @type {any} */ (null));
  useEffect(() => setText(list.name), [list.name]);
  const typed = (event) => {
    const value = event.currentTarget.value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ name: value, page: '' }, true), 180);
  };
  const result = list.filtered !== list.total ? `${count(list.filtered)} of ${count(list.total)}` : count(list.total);
  return html`<div class="table-tools">
    <input type="search" data-filter aria-label=${`Filter ${what} by what stands in their rows`} placeholder="Filter  /" value=${text} onInput=${typed} spellcheck=${false} />
    <label class="check" title="Names that a regular expression matches"><input type="checkbox" checked=${list.regex} onChange=${(event) => setQuery({ regex: event.currentTarget.checked ? '1' : '', page: '' }, true)} />Regex</label>
    ${list.chosen.all.some((column) => column.need?.includes('why')) && html`<${Reasons} />`}
    <span class="result" role="status">${list.live.body === undefined ? '' : `${result} ${what}`}</span>
    <span class="spacer"></span>
    ${list.pages > 1 || list.size !== SIZE_DEFAULT ? html`<${Pager} list=${list} />` : null}
    <${Chooser} chosen=${list.chosen} />
  </div>`;
}

function Pager({ list }) {
  const turn = (page) => setQuery({ page: page > 1 ? page : '' });
  return html`<div class="pager">
    <button type="button" aria-label="Previous page" title="Previous page  [" data-page="previous" disabled=${list.page <= 1} onClick=${() => turn(list.page - 1)}>‹</button>
    <span>Page ${count(list.page)} of ${count(list.pages)}</span>
    <button type="button" aria-label="Next page" title="Next page  ]" data-page="next" disabled=${list.page >= list.pages} onClick=${() => turn(list.page + 1)}>›</button>
    <select aria-label="Rows per page" value=${list.size} onChange=${(event) => setQuery({ size: event.currentTarget.value === String(SIZE_DEFAULT) ? '' : event.currentTarget.value, page: '' })}>
      ${SIZES.map((size) => html`<option value=${size}>${size} rows</option>`)}
    </select>
  </div>`;
}

function Chooser({ chosen }) {
  const box = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const [open, setOpen] = useState(false);
  const leave = (event) => {
    if (box.current && !box.current.contains(event.relatedTarget)) box.current.open = false;
  };
  const key = (event) => {
    if (event.key === 'Escape' && box.current?.open) {
      box.current.open = false;
      box.current.querySelector('summary')?.focus();
      event.stopPropagation();
    }
  };
  return html`<details class="chooser" ref=${box} onFocusOut=${leave} onKeyDown=${key} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>Columns</summary>
    ${
      open &&
      html`<div class="chooser-body" tabindex="-1">
      ${chosen.all
        .filter((column) => !column.fixed)
        .map(
          (column) => html`<label class="check" title=${column.hint}>
        <input type="checkbox" checked=${chosen.shown.includes(column)} onChange=${(event) => chosen.choose(column.id, event.currentTarget.checked)} />${column.title}</label>`,
        )}
      <button type="button" class="small" onClick=${chosen.reset}>Usual columns</button>
    </div>`
    }
  </details>`;
}

/** A row's key; rows that don't have what it is made of are told apart by their place. */
function keyOf(rowKey, row, at) {
  try {
    return rowKey(row, at);
  } catch {
    return `at ${at}`;
  }
}

/**
 * The rows of a list.
 * @param {{list: any, label: string, rowKey?: (row: any, at: number) => string, empty?: any, short?: boolean, fill?: boolean}} properties
 */
export function Table({ list, label, rowKey = (_, at) => String(at), empty = 'None.', short = false }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const widths = useRef({ key: '', of: /** @type {Record<string, number>} */ ({}) });
  const focusAt = useRef(-1);
  const [seen, setSeen] = useState({ first: 0, rows: 40 });
  const { rows, chosen, live } = list;
  const columns = chosen.shown;
  if (widths.current.key !== list.key) widths.current = { key: list.key, of: {} };

  const look = () => {
    const at = box.current;
    if (!at) return;
    const first = Math.max(0, Math.floor(at.scrollTop / ROW) - MARGIN);
    const visible = Math.ceil(at.clientHeight / ROW) + 2 * MARGIN;
    setSeen((before) =>
      Math.abs(before.first - first) < MARGIN / 2 && before.rows === visible && first !== 0 ? before : { first, rows: visible },
    );
  };
  useLayoutEffect(look, [rows.length]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [list.key]);
  useEffect(() => {
    if (!box.current) return undefined;
    const watched = new ResizeObserver(look);
    watched.observe(box.current);
    return () => watched.disconnect();
  }, []);
  useLayoutEffect(() => {
    // Columns only grow while the view stays the same, so that nothing jumps with each second's numbers.
    // A table that fits is stretched: its widths say nothing.
    const isWide = box.current && box.current.scrollWidth > box.current.clientWidth;
    for (const head of (isWide && box.current?.querySelectorAll('th[data-column]')) || []) {
      const id = /** @type {HTMLElement} */ (head).dataset.column ?? '';
      widths.current.of[id] = Math.max(widths.current.of[id] ?? 0, /** @type {HTMLElement} */ (head).offsetWidth);
    }
    if (focusAt.current >= 0) {
      const target = box.current?.querySelector(`tr[data-row="${focusAt.current}"] a, tr[data-row="${focusAt.current}"] button`);
      if (target) {
        /** @type {HTMLElement} */ (target).focus({ preventScroll: true });
        focusAt.current = -1;
      }
    }
  });

  /** @param {number} at */
  const focusRow = (at) => {
    const scroller = box.current;
    if (!scroller || at < 0 || at >= rows.length) return;
    const [top, bottom] = [at * ROW, (at + 1) * ROW + ROW];
    if (scroller.scrollTop > top) scroller.scrollTop = top;
    else if (scroller.scrollTop + scroller.clientHeight < bottom) scroller.scrollTop = bottom - scroller.clientHeight;
    focusAt.current = at;
    look();
    setSeen((before) => ({ ...before }));
  };
  const key = (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 20, PageUp: -20 };
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || ['INPUT', 'SELECT', 'TEXTAREA'].includes(target.tagName)) return;
    const row = target.closest('tr[data-row]');
    const at = row ? Number(/** @type {HTMLElement} */ (row).dataset.row) : -1;
    const next =
      event.key === 'Home'
        ? 0
        : event.key === 'End'
          ? rows.length - 1
          : event.key in steps
            ? Math.max(0, Math.min(rows.length - 1, at + steps[event.key]))
            : -1;
    if (next < 0) return;
    event.preventDefault();
    focusRow(next);
  };

  if (live.error && !rows.length) return html`<${Problem} of=${live.error} />`;
  const isVirtual = rows.length > VIRTUAL_FROM;
  const first = isVirtual ? Math.min(seen.first, Math.max(0, rows.length - seen.rows)) : 0;
  const last = isVirtual ? Math.min(rows.length, first + seen.rows) : rows.length;
  const heading = (column, at) => {
    const sorted = column.sort && list.sort === column.sort;
    return html`<th scope="col" key=${column.id} data-column=${column.id} class=${classOf(column, at)} title=${column.hint}
      style=${{ minWidth: widths.current.of[column.id] ? `${widths.current.of[column.id]}px` : '' }}
      aria-sort=${sorted ? (list.reverse ? 'descending' : 'ascending') : undefined}>
      ${column.sort ? html`<button type="button" onClick=${() => list.sortBy(column)}>${column.title}</button>` : column.title || html`<span class="sr">Actions</span>`}</th>`;
  };
  return html`<div class=${'table-box' + (short ? ' short' : '') + (live.stale ? ' stale' : '')} ref=${box} onScroll=${look} onKeyDown=${key} role="region" aria-label=${label} tabindex="0">
    <table aria-rowcount=${rows.length + 1}>
      <thead><tr>${columns.map(heading)}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr class="gap" aria-hidden="true" key="above"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }}></td></tr>`}
        ${rows.slice(first, last).map(
          (
            row,
            offset,
          ) => html`<${Guard} key=${keyOf(rowKey, row, first + offset)} instead=${(error) => html`<tr class="fault" data-row=${first + offset}><td class="first" colspan=${columns.length}><${Name} of=${row?.name ?? 'This row'} /> can't be shown: ${String(error?.message ?? error)}</td></tr>`}>
          ${() => html`<tr data-row=${first + offset} aria-rowindex=${first + offset + 2}>${columns.map((column, at) => html`<td key=${column.id} class=${classOf(column, at)}>${column.cell(row)}</td>`)}</tr>`}
        <//>`,
        )}
        ${last < rows.length && html`<tr class="gap" aria-hidden="true" key="below"><td colspan=${columns.length} style=${{ height: `${(rows.length - last) * ROW}px` }}></td></tr>`}
      </tbody>
    </table>
    ${!rows.length && live.body !== undefined && html`<p class="empty">${list.name || route.value.query.why || route.value.query.severity ? 'Nothing here is like that.' : empty}</p>`}
    ${!rows.length && live.body === undefined && html`<div class="loading" aria-busy="true"><span class="sr">Loading</span></div>`}
  </div>`;
}
