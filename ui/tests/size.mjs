// Says what the page weighs over the wire, and fails if that is too much.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

const MOST = 100_000;
const ROOT = path.resolve(import.meta.dirname, '..');

/** @param {string} folder @returns {string[]} */
function files(folder) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const whole = path.join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'tests' ? [] : files(whole);
    return /\.(html|css|js|svg|png)$/.test(entry.name) ? [whole] : [];
  });
}

/** @param {Buffer} content */
const weight = (content) =>
  zlib.brotliCompressSync(content, {
    params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 11, [zlib.constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  }).length;

/**
 * A file as the node embeds it: lines of our own scripts that are comments are empty.
 * @param {string} file
 */
function embedded(file) {
  const content = fs.readFileSync(file);
  if (!file.endsWith('.js') || file.includes('/vendor/')) return content;
  let inside = false;
  const lines = content
    .toString()
    .split('\n')
    .map((line) => {
      const begins = inside || /^\s*(\/\/|\/\*)/.test(line);
      const ends = line.includes('*/');
      const isComment = begins && (!ends || line.trimEnd().endsWith('*/'));
      inside = begins && !line.trimStart().startsWith('//') && !ends;
      return isComment ? '' : line;
    });
  return Buffer.from(lines.join('\n'));
}

const rows = files(ROOT)
  .map((file) => ({ file: path.relative(ROOT, file), brotli: weight(embedded(file)) }))
  .sort((a, b) => b.brotli - a.brotli);
if (process.argv.includes('--all')) console.table(rows);
const all = rows.reduce((sum, { brotli }) => sum + brotli, 0);
const vendored = rows.filter(({ file }) => file.startsWith('vendor/')).reduce((sum, { brotli }) => sum + brotli, 0);
console.log(`${all} bytes of brotli in ${rows.length} files, ${vendored} of them libraries; at most ${MOST}`);
if (all > MOST) process.exit(1);
