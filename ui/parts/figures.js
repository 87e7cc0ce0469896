// Rows of large numbers.
import { html } from '../lib.js';

/**
 * @param {{items: {label: string, value: any, unit?: string, dot?: string, href?: string, title?: string, warn?: boolean}[], label: string}} properties
 */
export const Figures = ({ items, label }) => html`<div class="figures" role="group" aria-label=${label}>${items.filter(Boolean).map(({ label: name, value, unit, dot, href, title, warn }) => {
  const inner = html`<span class=${'figure-label' + (dot ? ' dotted' : '')} style=${dot ? { '--dot': `var(${dot})` } : undefined}>${name}</span><span class=${'figure-value' + (warn ? ' warn' : '')}>${value}${unit && html`<span class="figure-unit">${unit}</span>`}</span>`;
  return href ? html`<a href=${href} title=${title} key=${name}>${inner}</a>` : html`<div title=${title} key=${name}>${inner}</div>`;
})}</div>`;
