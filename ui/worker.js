// The SharedWorker that holds the event stream of all tabs.
import { Hub } from './core/hub.js';

/** A tab that closed without a word is forgotten after this time. Browsers throttle timers of hidden tabs to one a minute. */
const FORGET_MS = 150_000;

/** @type {Map<string, Hub>} */
const hubs = new Map();
const scope = /** @type {any} */ (self);

scope.onconnect = (/** @type {MessageEvent} */ event) => {
  const port = event.ports[0];
  /** @type {Hub | null} */
  let hub = null;
  let heard = Date.now();
  const tab = {
    wants: new Set(),
    update: (update) => port.postMessage({ update }),
    state: (state) => port.postMessage({ state }),
  };
  const bye = () => {
    clearInterval(timer);
    hub?.drop(tab);
  };
  const timer = setInterval(() => {
    if (Date.now() - heard > FORGET_MS) bye();
  }, FORGET_MS / 3);
  port.onmessage = ({ data }) => {
    heard = Date.now();
    if (data.base) {
      hub = hubs.get(data.base) ?? new Hub(data.base);
      hubs.set(data.base, hub);
      hub.add(tab);
    }
    if (data.wants) {
      if (hub && !hub.tabs.has(tab)) hub.add(tab);
      hub?.want(tab, data.wants);
    }
    if (data.again) hub?.settle();
    if (data.bye) bye();
  };
};
