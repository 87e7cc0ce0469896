// The one module that names vendored files: everything else imports from here.
import { h, render } from './vendor/preact.js';
import htm from './vendor/htm.js';

/** Templates. Interpolated values become text or properties, never markup. */
export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/hooks.js';
export { batch, computed, effect, signal } from './vendor/signals.js';
