// Writes ui/vendor anew from the pinned packages: `npm ci`, then `node vendor.mjs`. Imports by package name become relative ones,
// because a strict content security policy forbids import maps, and a first line says what the file is.
import fs from 'node:fs';
import path from 'node:path';
import { createHash } from 'node:crypto';

const HERE = import.meta.dirname;
const TO = path.join(HERE, '../vendor');
const FILES = [
  ['preact.js', 'preact', 'dist/preact.mjs'],
  ['hooks.js', 'preact', 'hooks/dist/hooks.mjs'],
  ['signals-core.js', '@preact/signals-core', 'dist/signals-core.module.js'],
  ['signals.js', '@preact/signals', 'dist/signals.module.js'],
  ['htm.js', 'htm', 'dist/htm.module.js'],
];
const NAMES = { preact: './preact.js', 'preact/hooks': './hooks.js', '@preact/signals-core': './signals-core.js' };

const rows = FILES.map(([file, name, from]) => {
  const folder = path.join(HERE, 'node_modules', name);
  const { version, license } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  let text = fs.readFileSync(path.join(folder, from), 'utf8');
  text = text.replace(/(from\s*|import\s*)(["'])((?:@?preact)[^"']*)\2/g, (whole, before, quote, target) => {
    if (!(target in NAMES)) throw new Error(`${file} imports ${target}`);
    return `${before}${quote}${NAMES[/** @type {keyof typeof NAMES} */ (target)]}${quote}`;
  });
  text = `// @ts-nocheck ${name} ${version}, ${license}\n${text.replace(/\n?\/\/# sourceMappingURL=.*/g, '').trimEnd()}\n`;
  fs.writeFileSync(path.join(TO, file), text);
  return `| ${file} | ${name} | ${version} | ${license} | ${createHash('sha256').update(text).digest('hex')} |`;
});

const readme = path.join(TO, 'README');
const before = fs.readFileSync(readme, 'utf8');
fs.writeFileSync(
  readme,
  before.replace(/(\| --- .*\n)(\|.*\n?)*/, (_, line) => `${line}${rows.join('\n')}\n`),
);
console.log(rows.join('\n'));
