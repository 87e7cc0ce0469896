// Before all tests: a node with traffic, and the page in front of it.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { Node, freePort, until } from './node.mjs';
import { declare, hostile, run } from './traffic.mjs';

export default async function start() {
  const node = await Node.start();
  await declare(node.url);
  await hostile(node.url);
  const stop = await run({ amqp: node.amqp, http: node.http });
  let url = `${node.url}/`;
  let server;
  const serves = (await fetch(url)).headers.get('content-type')?.includes('html');
  if (!serves || process.env.PAGE_FROM === 'disk') {
    // A node that doesn't serve the page, or another state of it.
    const port = await freePort();
    server = spawn(process.execPath, [path.join(import.meta.dirname, 'serve.mjs'), ...(serves ? [] : ['--fake']), '--node', node.url, '--port', String(port)], { stdio: 'ignore' });
    url = `http://127.0.0.1:${port}/`;
    await until(() => fetch(url).then((answer) => answer.ok));
  }
  process.env.PAGE = url;
  process.env.NODE_API = node.url;
  process.env.NODE_AMQP = String(node.amqp);
  await new Promise((done) => setTimeout(done, 4000));
  return async () => {
    // A client that waits for an answer must not keep the node from being ended.
    await Promise.race([stop(), new Promise((done) => setTimeout(done, 3000))]);
    server?.kill('SIGTERM');
    await node.end();
  };
}
