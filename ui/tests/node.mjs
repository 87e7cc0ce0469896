// A node of its own for the tests: free ports, a temporary directory, ended by its process id.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');
export const BINARY = process.env.LEVERET_BIN ?? path.join(ROOT, 'target/release/leveret');

/** @returns {Promise<number>} */
export const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {net.AddressInfo} */ (server.address());
      server.close(() => done(port));
    });
  });

/** @param {() => Promise<boolean>} ready @param {number} [milliseconds] */
export async function until(ready, milliseconds = 15_000) {
  const end = Date.now() + milliseconds;
  while (!(await ready().catch(() => false))) {
    if (Date.now() > end) throw new Error('it took too long');
    await new Promise((done) => setTimeout(done, 50));
  }
}

export class Node {
  /** @param {Record<string, string>} [settings] */
  static async start(settings = {}) {
    const node = new Node();
    node.data = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-page-'));
    [node.amqp, node.http, node.stream, node.metrics] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
    node.settings = settings;
    await node.run();
    return node;
  }

  async run() {
    const set = {
      'listeners.tcp.1': `127.0.0.1:${this.amqp}`,
      'management.tcp.ip': '127.0.0.1',
      'management.tcp.port': String(this.http),
      'stream.listeners.tcp.1': `127.0.0.1:${this.stream}`,
      'prometheus.tcp.ip': '127.0.0.1',
      'prometheus.tcp.port': String(this.metrics),
      'disk_free_limit.absolute': '50MB',
      ...this.settings,
    };
    this.process = spawn(
      BINARY,
      ['server', '--data-dir', this.data, ...Object.entries(set).flatMap(([key, value]) => ['--set', `${key}=${value}`])],
      { stdio: ['ignore', fs.openSync(path.join(this.data, 'out.log'), 'a'), fs.openSync(path.join(this.data, 'out.log'), 'a')] },
    );
    const log = () => fs.readFileSync(path.join(this.data, 'out.log'), 'utf8').slice(-2000);
    await until(() => fetch(`${this.url}/api/version`).then((answer) => answer.ok)).catch(() => {
      throw new Error(`the node doesn't start:\n${log()}`);
    });
  }

  get url() {
    return `http://127.0.0.1:${this.http}`;
  }

  async stop() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGTERM');
    await ended;
  }

  async end() {
    await this.stop();
    fs.rmSync(this.data, { recursive: true, force: true });
  }
}

/**
 * The page in front of a node: its own, or that of the disk (`PAGE_FROM=disk`, and if the node has none).
 * @param {Node} node
 */
export async function pageOf(node) {
  const own = (await fetch(`${node.url}/`)).headers.get('content-type')?.includes('html');
  if (own && process.env.PAGE_FROM !== 'disk') return { url: `${node.url}/`, end: () => {} };
  const port = await freePort();
  const server = spawn(
    process.execPath,
    [path.join(import.meta.dirname, 'serve.mjs'), ...(own ? [] : ['--fake']), '--node', node.url, '--port', String(port)],
    { stdio: 'ignore' },
  );
  const url = `http://127.0.0.1:${port}/`;
  await until(() => fetch(url).then((answer) => answer.ok));
  return { url, end: () => void server.kill('SIGTERM') };
}

/**
 * Asks a node over HTTP.
 * @param {string} url @param {string} method @param {string} where below /api/ @param {unknown} [body] @param {string} [user]
 */
export async function ask(url, method, where, body, user = 'guest:guest') {
  const answer = await fetch(`${url}/api/${where}`, {
    method,
    headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}`, 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, body: text && /json/.test(answer.headers.get('content-type') ?? '') ? JSON.parse(text) : text };
}
