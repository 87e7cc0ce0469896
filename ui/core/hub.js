// One event stream for all open tabs. The hub runs in a SharedWorker, or in the tab where browsers have none. HTTP/1.1 gives a
// browser six connections to a node, so seven tabs with a stream each would block one another.

/** Most paths that one stream takes; further ones are polled. */
const PATHS_MAX = 16;
/** Time for further changes of the set of paths, in milliseconds: a tab that changes pages drops some and adds others. */
const SETTLE_MS = 120;
/** A stream without even a heartbeat for so long is dead. The node sends one every 15 s. */
const SILENCE_MS = 40_000;
const POLL_MS = 2000;
const RETRY_MS = [500, 1000, 2000, 4000];
/** Time after which streaming is tried again if the node has no streams, or refused one. */
const STREAM_AGAIN_MS = 30_000;

/**
 * @typedef {{path: string, status: number, body: any, error?: boolean}} Update
 * @typedef {{update: (update: Update) => void, state: (state: string) => void, wants: Set<string>}} Tab
 */

/**
 * The events of a stream, until it ends.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {() => void} [heard] called with every piece
 * @returns {AsyncGenerator<{event: string, data: any}>}
 */
export async function* eventsOf(stream, heard) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  /** Pieces of the line that isn't complete. @type {string[]} */
  let pieces = [];
  let [event, data] = ['', ''];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard?.();
    const lines = decoder.decode(value, { stream: true }).split('\n');
    for (let at = 0; at < lines.length - 1; at += 1) {
      const line = (pieces.length ? pieces.join('') + lines[at] : lines[at]).replace(/\r$/, '');
      pieces = [];
      if (line.startsWith('data:')) data += (data && '\n') + line.slice(line[5] === ' ' ? 6 : 5);
      else if (line.startsWith('event:')) event = line.slice(6).trim();
      else if (!line && data) {
        const whole = { event, data: JSON.parse(data) };
        [event, data] = ['', ''];
        yield whole;
      }
    }
    const rest = lines[lines.length - 1];
    if (rest) pieces.push(rest);
  }
}

export class Hub {
  /** @param {string} base */
  constructor(base) {
    this.base = base;
    /** @type {Set<Tab>} */
    this.tabs = new Set();
    /** The last update of each wanted path. @type {Map<string, Update>} */
    this.known = new Map();
    /** @type {AbortController | null} */
    this.stream = null;
    this.failures = 0;
    this.state = 'starting';
    /** Paths of the current stream, joined. */
    this.streamed = '';
    this.streamsFrom = 0;
    /** @type {any} */
    this.settling = null;
    /** @type {any} */
    this.polling = null;
  }

  /** @param {Tab} tab */
  add(tab) {
    this.tabs.add(tab);
    tab.state(this.state);
  }

  /** @param {Tab} tab */
  drop(tab) {
    this.tabs.delete(tab);
    this.settle();
  }

  /** @param {Tab} tab @param {string[]} paths */
  want(tab, paths) {
    const fresh = paths.filter((path) => !tab.wants.has(path));
    tab.wants = new Set(paths);
    for (const path of fresh) {
      const update = this.known.get(path);
      if (update) tab.update(update);
    }
    this.settle();
  }

  wanted() {
    /** @type {Set<string>} */
    const all = new Set();
    for (const tab of this.tabs) for (const path of tab.wants) all.add(path);
    return [...all];
  }

  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.follow(), SETTLE_MS);
  }

  /** @param {Update} update */
  tell(update) {
    this.known.set(update.path, update);
    for (const tab of this.tabs) if (tab.wants.has(update.path)) tab.update(update);
  }

  /** @param {string} state */
  become(state) {
    if (state === this.state) return;
    this.state = state;
    for (const tab of this.tabs) tab.state(state);
  }

  follow() {
    const wanted = this.wanted();
    for (const path of this.known.keys()) if (!wanted.includes(path)) this.known.delete(path);
    const streams = Date.now() >= this.streamsFrom;
    const streamed = streams ? wanted.slice(0, PATHS_MAX) : [];
    clearTimeout(this.polling);
    if (wanted.length > streamed.length) this.poll(wanted.slice(streamed.length));
    const key = streamed.join('\n');
    if (key === this.streamed && (this.stream || !key)) return;
    this.streamed = key;
    const before = this.stream;
    this.stream = null;
    if (streamed.length) this.open(streamed, before);
    else before?.abort();
  }

  /**
   * Opens a stream; the one before ends when the new one runs.
   * @param {string[]} paths
   * @param {AbortController | null} before
   */
  async open(paths, before) {
    const control = new AbortController();
    this.stream = control;
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => control.abort(), SILENCE_MS);
    };
    try {
      heard();
      const query = paths.map((path) => 'path=' + encodeURIComponent(path)).join('&');
      const response = await fetch(`${this.base}watch?${query}`, {
        signal: control.signal,
        credentials: 'same-origin',
        cache: 'no-store',
        headers: { Accept: 'text/event-stream', 'X-Leveret-Request': '1' },
      });
      before?.abort();
      before = null;
      const type = response.headers.get('content-type') ?? '';
      if (response.status !== 200 || !type.includes('event-stream') || !response.body) {
        control.abort();
        if (this.stream !== control) return;
        this.stream = null;
        this.streamed = '';
        if (response.status === 401) return this.become('unauthorised');
        // A proxy in front of a node that is away.
        if (response.status >= 502 && !type.includes('json')) return this.retry();
        this.streamsFrom = Date.now() + STREAM_AGAIN_MS;
        return this.follow();
      }
      this.failures = 0;
      await this.read(response.body, heard);
    } catch {
      before?.abort();
    } finally {
      clearTimeout(silence);
    }
    if (this.stream !== control) return;
    this.stream = null;
    this.streamed = '';
    if (this.state === 'unauthorised') return;
    this.retry();
  }

  retry() {
    this.become('lost');
    const wait = RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)];
    this.settling = setTimeout(() => this.follow(), wait);
  }

  /**
   * Reads events until the stream ends.
   * @param {ReadableStream<Uint8Array>} stream
   * @param {() => void} heard
   */
  async read(stream, heard) {
    this.become('live');
    for await (const { event, data } of eventsOf(stream, heard)) {
      // The session ended: another stream would be refused.
      if (event === 'end') return this.become('unauthorised');
      this.tell(data);
    }
  }

  /** @param {string[]} paths */
  async poll(paths) {
    const reached = await Promise.all(paths.map((path) => this.fetch(path)));
    if (!this.stream)
      this.become(
        reached.some((status) => status === 401)
          ? 'unauthorised'
          : reached.some((status) => status > 0 && status < 502)
            ? 'polled'
            : 'lost',
      );
    clearTimeout(this.polling);
    this.polling = setTimeout(() => this.follow(), POLL_MS);
  }

  /** @param {string} path */
  async fetch(path) {
    try {
      const response = await fetch(this.base + path, {
        credentials: 'same-origin',
        cache: 'no-store',
        headers: { 'X-Leveret-Request': '1' },
      });
      const text = await response.text();
      this.tell({ path, status: response.status, body: text ? JSON.parse(text) : null });
      return response.status;
    } catch {
      return 0;
    }
  }
}
