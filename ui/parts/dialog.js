// Dialogs: the browser's own element, which keeps the focus and gives it back.
import { html, useEffect, useRef, useState } from '../lib.js';
import { Problem, useAction, visible } from './basics.js';

/** @param {{open: boolean, onClose: () => void, label: string, children?: any, class?: string}} properties */
export function Dialog({ open, onClose, label, children, class: kind = '' }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  const outside = (event) => {
    if (event.target === element.current) onClose();
  };
  return html`<dialog ref=${element} class=${kind} aria-label=${label} onClose=${onClose} onMouseDown=${outside}>${open && children}</dialog>`;
}

/**
 * A button for something that can't be taken back: it shows what is lost and asks for the name.
 * @param {{verb: string, kind: string, name: string, children?: any, work: () => Promise<any>, then?: () => void, options?: any, small?: boolean, disabled?: boolean}} properties
 */
export function Destroy({ verb, kind, name, children, work, then, options, small, disabled }) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState('');
  const action = useAction();
  const begin = () => {
    setTyped('');
    action.clear();
    setOpen(true);
  };
  // Hidden characters can't be typed: their spelled-out form will do.
  const matches = typed === name || typed === visible(name);
  const submit = async (event) => {
    event.preventDefault();
    if (!matches) return;
    if (await action.run(work)) {
      setOpen(false);
      then?.();
    }
  };
  const title = `${verb} ${kind}`;
  return html`<button type="button" class=${'danger' + (small ? ' small' : '')} disabled=${disabled} onClick=${begin}>${verb}…</button>
  <${Dialog} open=${open} onClose=${() => setOpen(false)} label=${title}>
    <form class="dialog-body" onSubmit=${submit}>
      <h2>${title}</h2>
      <div class="confirm-name">${visible(name)}</div>
      ${children}
      ${options}
      <label>Type the name to confirm
        <input type="text" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value)} autocomplete="off" spellcheck=${false} style=${{ width: '100%' }} autofocus />
      </label>
      <${Problem} of=${action.error} />
      <div class="dialog-end"><button type="button" onClick=${() => setOpen(false)}>Cancel</button>
        <button type="submit" class="danger" disabled=${!matches || action.busy}>${verb}</button></div>
    </form>
  <//>`;
}

/**
 * A button that asks once before it acts.
 * @param {{verb: string, title: string, children?: any, work: () => Promise<any>, then?: () => void, danger?: boolean, small?: boolean, disabled?: boolean}} properties
 */
export function Ask({ verb, title, children, work, then, danger, small, disabled }) {
  const [open, setOpen] = useState(false);
  const action = useAction();
  const submit = async (event) => {
    event.preventDefault();
    if (await action.run(work)) {
      setOpen(false);
      then?.();
    }
  };
  return html`<button type="button" class=${(danger ? 'danger' : '') + (small ? ' small' : '')} disabled=${disabled} onClick=${() => { action.clear(); setOpen(true); }}>${verb}…</button>
  <${Dialog} open=${open} onClose=${() => setOpen(false)} label=${title}>
    <form class="dialog-body" onSubmit=${submit}>
      <h2>${title}</h2>
      ${children}
      <${Problem} of=${action.error} />
      <div class="dialog-end"><button type="button" onClick=${() => setOpen(false)}>Cancel</button>
        <button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${action.busy}>${verb}</button></div>
    </form>
  <//>`;
}
