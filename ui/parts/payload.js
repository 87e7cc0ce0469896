// Bodies of messages as people read them.

/** A JSON text with line breaks. The text itself isn't parsed: large numbers keep every digit. @param {string} text */
export function indented(text) {
  let [out, depth, inString] = ['', 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (inString) {
      out += character;
      if (character === '\\') out += text[(at += 1)] ?? '';
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
      out += character;
    } else if (character === '{' || character === '[') {
      const rest = /^\s*[}\]]/.exec(text.slice(at + 1, at + 40));
      if (rest) {
        out += character + rest[0].trim();
        at += rest[0].length;
      } else {
        depth += 1;
        out += `${character}\n${'  '.repeat(depth)}`;
      }
    } else if (character === '}' || character === ']') {
      depth = Math.max(0, depth - 1);
      out += `\n${'  '.repeat(depth)}${character}`;
    } else if (character === ',') out += `,\n${'  '.repeat(depth)}`;
    else if (character === ':') out += ': ';
    else if (!/\s/.test(character)) out += character;
  }
  return out;
}

/** Bytes in rows of sixteen, with their characters. @param {Uint8Array} bytes @param {number} [most] */
export function hexDump(bytes, most = 4096) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, most));
    const hex = [...row].map((byte) => byte.toString(16).padStart(2, '0'));
    const text = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('');
    rows.push(`${at.toString(16).padStart(6, '0')}  ${hex.slice(0, 8).join(' ').padEnd(23)}  ${hex.slice(8).join(' ').padEnd(23)}  ${text}`);
  }
  if (bytes.length > most) rows.push(`… ${bytes.length - most} further bytes`);
  return rows.join('\n');
}

/** @param {string} hex */
export const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
/** @param {string} text */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** The body of a message, as bytes. @param {any} message */
export const bytesOf = (message) => (message.payload_encoding === 'base64' ? fromBase64(message.payload) : new TextEncoder().encode(message.payload));

/**
 * What is shown of a body, and what it is.
 * @param {any} message
 * @returns {{as: string, through: string[], text: string, truncated: boolean, error?: string}}
 */
export function shownBody(message) {
  const decoded = message.decoded;
  if (decoded) {
    const text = decoded.as === 'hex' ? hexDump(fromHex(decoded.text)) : ['json', 'msgpack', 'cbor'].includes(decoded.as) ? indented(decoded.text) : decoded.text;
    return { as: decoded.as, through: decoded.through ?? [], text, truncated: decoded.truncated, error: decoded.error };
  }
  if (message.payload_encoding === 'base64') return { as: 'hex', through: [], text: hexDump(fromBase64(message.payload)), truncated: false };
  const trimmed = message.payload.trim();
  if (/^[[{]/.test(trimmed)) {
    try {
      JSON.parse(trimmed);
      return { as: 'json', through: [], text: indented(trimmed), truncated: false };
    } catch {
      // Text that only begins like JSON.
    }
  }
  return { as: 'text', through: [], text: message.payload, truncated: false };
}
