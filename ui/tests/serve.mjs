// A server for work on the page: it serves ui/ as it is on the disk and passes the API on to a node. With `--fake` it also does what
// an older node lacks: login, sessions and the event stream, in the simplest way.
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';
import { randomUUID } from 'node:crypto';

const ROOT = path.resolve(import.meta.dirname, '..');
const TYPES = {
  html: 'text/html; charset=utf-8',
  css: 'text/css',
  js: 'text/javascript',
  svg: 'image/svg+xml',
  png: 'image/png',
  json: 'application/json',
};
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** @param {string} name @param {string} [fallback] */
const option = (name, fallback) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : fallback);
const node = new URL(option('--node', 'http://127.0.0.1:15672'));
const port = Number(option('--port', '15700'));
const fake = process.argv.includes('--fake');
/** @type {Map<string, string>} */
const sessions = new Map();

/** @param {http.IncomingMessage} request */
const authorization = (request) => sessions.get(/leveret_session=([^;]+)/.exec(request.headers.cookie ?? '')?.[1] ?? '');

/** @param {string} where @param {string | undefined} auth @returns {Promise<{status: number, text: string}>} */
const ask = (where, auth) =>
  new Promise((done) => {
    http
      .get(new URL(where, node), { headers: auth ? { authorization: auth } : {} }, (answer) => {
        let text = '';
        answer
          .setEncoding('utf8')
          .on('data', (part) => (text += part))
          .on('end', () => done({ status: answer.statusCode ?? 0, text }));
      })
      .on('error', () => done({ status: 503, text: '{"error":"unavailable","reason":"the node is away"}' }));
  });

/** @param {http.IncomingMessage} request @returns {Promise<string>} */
const bodyOf = (request) =>
  new Promise((done) => {
    let text = '';
    request.on('data', (part) => (text += part)).on('end', () => done(text));
  });

/** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
async function watch(request, response) {
  const auth = authorization(request);
  if (!auth) return response.writeHead(401).end();
  const paths = new URL(request.url ?? '', 'http://x').searchParams.getAll('path');
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  /** @type {Map<string, string>} */
  const last = new Map();
  const look = async () => {
    for (const one of paths) {
      const { status, text } = await ask(one.startsWith('/') ? one : `/api/${one}`, auth);
      if (last.get(one) === text) continue;
      last.set(one, text);
      response.write(`data: {"path":${JSON.stringify(one)},"status":${status},"body":${text || 'null'}}\n\n`);
    }
  };
  await look();
  const timer = setInterval(look, 1000);
  response.on('close', () => clearInterval(timer));
}

/** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
async function pass(request, response) {
  const headers = { ...request.headers };
  delete headers.host;
  const auth = authorization(request);
  if (fake) {
    if (auth) headers.authorization = auth;
    else if (!headers.authorization)
      return response
        .writeHead(401, { 'content-type': 'application/json' })
        .end('{"error":"not_authorized","reason":"Not_Authorized"}');
  }
  // The path as it came: a URL object would shorten `%2e%2e`.
  const passed = http.request(node, { method: request.method, headers, path: request.url }, (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
    // A node that ends takes its streams along.
    answer.on('close', () => answer.complete || response.destroy());
  });
  passed.on('error', () => {
    if (!response.headersSent) response.writeHead(503);
    response.end();
  });
  response.on('close', () => passed.destroy());
  request.pipe(passed);
}

const server = http.createServer(async (request, response) => {
  const url = new URL(request.url ?? '', 'http://x');
  if (fake && url.pathname === '/api/login' && request.method === 'POST') {
    const form = new URLSearchParams(await bodyOf(request));
    const auth = `Basic ${Buffer.from(`${form.get('username')}:${form.get('password')}`).toString('base64')}`;
    const { status, text } = await ask('/api/whoami', auth);
    if (status !== 200)
      return response
        .writeHead(401, { 'content-type': 'application/json' })
        .end(text || '{"error":"not_authorized","reason":"Not_Authorized"}');
    const id = randomUUID();
    sessions.set(id, auth);
    return response.writeHead(204, { 'set-cookie': `leveret_session=${id}; HttpOnly; SameSite=Strict; Path=/` }).end();
  }
  if (fake && url.pathname === '/api/logout') {
    sessions.clear();
    return response.writeHead(204).end();
  }
  if (fake && url.pathname === '/api/watch') return watch(request, response);
  if (url.pathname.startsWith('/api/')) return pass(request, response);
  const file = path.join(ROOT, url.pathname === '/' ? 'index.html' : url.pathname.replace(/^\/ui\/[^/]+\//, ''));
  if (!file.startsWith(ROOT) || !fs.existsSync(file) || !fs.statSync(file).isFile()) return response.writeHead(404).end();
  const type = TYPES[/** @type {keyof typeof TYPES} */ (path.extname(file).slice(1))] ?? 'application/octet-stream';
  const content = fs.readFileSync(file);
  response.writeHead(200, {
    'content-type': type,
    'content-security-policy': CSP,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache',
  });
  response.end(file.endsWith('index.html') ? content.toString().replaceAll('HASH', 'dev') : content);
});
server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/`));
