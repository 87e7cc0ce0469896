// Functions without a browser: addresses, numbers, bodies, sentences.
import assert from 'node:assert/strict';
import test from 'node:test';

Object.assign(globalThis, {
  location: new URL('http://localhost:15672/x/#/'),
  addEventListener: () => {},
  document: { hidden: false, documentElement: { dataset: {} } },
});
const { link, parse, to } = await import('../core/router.js');
const { BASE, path, query } = await import('../core/api.js');
const { bytes, rate, segment, short, several, span } = await import('../core/format.js');
const fs = await import('node:fs');
const { bytesOf, hexDump, indented, shownBody } = await import('../pages/messages.js');
const { findingsOf, median, ofConsumer, ofItem } = await import('../core/why.js');

/** @param {any} finding */
const said = (finding) => finding.parts.map((part) => (typeof part === 'string' ? part : part.name)).join('');

test('an address is read as it is written, whatever the names', () => {
  for (const name of [
    '',
    '.',
    '..',
    ';=',
    ';=..',
    'detailed',
    '__proto__',
    '/',
    'a/b',
    'a?b=c',
    '100%',
    'a&b',
    'ö',
    '#',
    ' ',
    '\'"<',
  ]) {
    assert.deepEqual(parse(link(['queues', name, name], { name: `of ${name}`, page: 2, none: '' })), {
      path: ['queues', name, name],
      query: { name: `of ${name}`, page: '2' },
    });
  }
  assert.deepEqual(parse('#/queues/%'), { path: ['queues', '%'], query: {} });
  assert.deepEqual(parse('#/queues/%2F/..?__proto__=x'), { path: ['queues', '/', '..'], query: {} });
  assert.equal(to.exchange('/', ''), '#/exchanges/%2F/amq.default');
});

test('requests go below the folder of the page', () => {
  assert.equal(BASE, 'http://localhost:15672/x/api/');
  assert.equal(path`queues/${'/'}/${'a/b?'}`, 'queues/%2F/a%2Fb%3F');
  for (const name of ['', '.', '..', 'detailed', ';=', '%2e%2e', '\u0000']) {
    const whole = new URL(path`queues/${'/'}/${name}`, BASE).pathname;
    const last = whole.split('/');
    assert.equal(last.length, 6, `${name} is one segment of ${whole}`);
    assert.equal(decodeURIComponent(last[5].replace(/^;=/, '')), name);
  }
  assert.equal(path`queues/${';=x'}`, 'queues/%3B%3Dx');
  assert.equal(query({ a: '', b: 0, c: 'x y', d: undefined }), '?b=0&c=x%20y');
});

test('the page and the node agree on the names that need a mark', () => {
  const rust = fs.readFileSync(new URL('../../crates/management/src/percent.rs', import.meta.url), 'utf8');
  const names =
    /MEAN_ELSE: \[[^=]*= \[([^\]]*)\]/
      .exec(rust)?.[1]
      .match(/"[^"]*"/g)
      ?.map((name) => name.slice(1, -1)) ?? [];
  assert.ok(names.length > 10);
  for (const name of names) assert.equal(segment(name), `;=${name}`);
  assert.equal(segment('queue'), 'queue');
});

test('numbers are short and honest', () => {
  assert.deepEqual([rate(0), rate(0.04), rate(12.6), rate(undefined)], ['0', '< 0.1', '13', '–']);
  assert.deepEqual([short(1500), short(250000), short(2e6), short(0.5)], ['1.5k', '250k', '2M', '0.5']);
  assert.deepEqual([bytes(1023), bytes(1536), bytes(10 * 2 ** 20)], ['1,023 B', '1.50 KiB', '10.0 MiB']);
  assert.deepEqual([span(0.25), span(61), span(7300), span(7300, true)], ['250 ms', '1 min 1 s', '2 h 1 min', '2 h']);
  assert.deepEqual([several(1, 'queue'), several(2, 'queue')], ['1 queue', '2 queues']);
});

test('JSON is indented without a digit lost', () => {
  const text = '{"id":12345678901234567890,"empty":{},"list":[1,"a,b:{}"],"quote":"\\""}';
  const shown = indented(text);
  assert.match(shown, /12345678901234567890/);
  assert.match(shown, /"empty": \{\}/);
  assert.match(shown, /"a,b:\{\}"/);
  assert.equal(JSON.stringify(JSON.parse(shown)), JSON.stringify(JSON.parse(text)));
});

test('a body is shown as the node decoded it, otherwise as it is', () => {
  assert.equal(shownBody({ payload: 'x', payload_encoding: 'string' }).as, 'text');
  assert.equal(shownBody({ payload: ' {"a":1}', payload_encoding: 'string' }).as, 'json');
  assert.equal(shownBody({ payload: '{a', payload_encoding: 'string' }).as, 'text');
  assert.deepEqual(
    shownBody({
      payload: '',
      payload_encoding: 'base64',
      decoded: { as: 'cbor', through: ['gzip'], text: '[1]', truncated: false },
    }).through,
    ['gzip'],
  );
  assert.equal(hexDump(new Uint8Array([0x41, 0x00, 0xff])), '000000  41 00 ff                                          A··');
  assert.deepEqual([...bytesOf({ payload: '/w==', payload_encoding: 'base64' })], [255]);
});

test('names in the sentence of a reason lead to what they name', () => {
  const reason = (parts) => ({
    code: 'full',
    severity: 'bad',
    short: 'full',
    text: '',
    parts,
    advice: 'Look.',
    since: null,
    seconds: null,
  });
  const [found] = findingsOf({
    node: 'n@h',
    why: [
      reason([
        'Of ',
        { name: 'q', to: { kind: 'queue', vhost: '/', name: 'q', tab: 'parked' } },
        { name: 'c', to: { kind: 'connection', name: 'a -> b' } },
        { name: 'p', to: { kind: 'operator_policy', vhost: '/', name: '..' } },
        { name: 'the node', to: { kind: 'node' } },
        { name: 'guest', to: { kind: 'user', name: 'guest' } },
      ]),
    ],
  });
  assert.deepEqual(
    found.parts.map((part) => (typeof part === 'string' ? part : (part.href ?? ''))),
    ['Of ', '#/queues/%2F/q?tab=parked', '#/connections/a%20-%3E%20b', '#/operator-policies/%2F/..', '#/nodes/n%40h', ''],
  );
  assert.deepEqual([found.level, found.todo], ['bad', 'Look.']);
  const item = ofItem({ ...reason(['no queue']), kind: 'exchange', vhost: '/', name: '' });
  assert.equal(said(item), '(AMQP default): no queue');
  assert.equal(ofConsumer({ wait: { reason: 'empty' } })?.short, 'idle');
  assert.deepEqual(findingsOf({}), []);
  assert.equal(median({ 1024: 1, 2048: 5, 4096: 1 }), 0.002048);
});

test('the objects of a cluster are named with their nodes', () => {
  const item = { kind: 'queue', vhost: '/', name: 'q', code: 'full', severity: 'bad', short: 'full', parts: ['It is full.'] };
  assert.equal(said(ofItem(item)), 'q: It is full.');
  const found = ofItem({ ...item, node: 'leveret@b' });
  assert.equal(said(found), 'q on leveret@b: It is full.');
  assert.notEqual(found.code, ofItem(item).code);
  const link = { kind: 'node', name: 'leveret@c' };
  const [finding] = findingsOf({ node: 'leveret@a', why: [{ ...item, code: 'link', parts: [{ name: 'leveret@c', to: link }] }] });
  assert.deepEqual(finding.parts, [{ name: 'leveret@c', href: to.node('leveret@c') }]);
});
