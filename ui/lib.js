// The one module that names libraries: everything else imports from here. Their types are those of the packages.
import * as preact from './vendor/preact.js';
import * as hooks from './vendor/hooks.js';
import * as signals from './vendor/signals.js';
import htm from './vendor/htm.js';

const { Component: Base, h, render: draw } = /** @type {typeof import('preact')} */ (/** @type {unknown} */ (preact));

/** Templates. Interpolated values become text or properties, never markup. @type {(texts: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export const render = draw;
export const Component = Base;
export const { useEffect, useLayoutEffect, useMemo, useRef, useState } = /** @type {typeof import('preact/hooks')} */ (
  /** @type {unknown} */ (hooks)
);
export const { batch, computed, effect, signal } = /** @type {typeof import('@preact/signals')} */ (
  /** @type {unknown} */ (signals)
);
