// Before all tests: a node with traffic, and the page in front of it.
import { Node, pageOf } from './node.mjs';
import { declare, hostile, run } from './traffic.mjs';

export default async function start() {
  const node = await Node.start();
  await declare(node.url);
  await hostile(node.url);
  const stop = await run({ amqp: node.amqp, http: node.http });
  const page = await pageOf(node);
  process.env.PAGE = page.url;
  process.env.NODE_API = node.url;
  process.env.NODE_AMQP = String(node.amqp);
  await new Promise((done) => setTimeout(done, 4000));
  return async () => {
    // A client that waits for an answer must not keep the node from being ended.
    await Promise.race([stop(), new Promise((done) => setTimeout(done, 3000))]);
    page.end();
    await node.end();
  };
}
