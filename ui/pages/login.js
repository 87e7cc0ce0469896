// The form that stands before everything else.
import { html, useState } from '../lib.js';
import { login, ended } from '../core/session.js';
import { Problem, useAction } from '../parts/basics.js';
import { Mark } from '../parts/shell.js';

export function Login() {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const action = useAction();
  const submit = (event) => {
    event.preventDefault();
    action.run(() => login(name, password));
  };
  const refused = action.error?.status === 401;
  return html`<main class="login"><form onSubmit=${submit}>
    <h1 class="brand"><${Mark} />Leveret</h1>
    ${ended.value && !action.error && html`<p class="muted" role="status">Your session ended. Sign in to go on where you were.</p>`}
    <label>User<input type="text" name="username" value=${name} onInput=${(event) => setName(event.currentTarget.value)} autocomplete="username" autocapitalize="none" spellcheck=${false} required autofocus /></label>
    <label>Password<input type="password" name="password" value=${password} onInput=${(event) => setPassword(event.currentTarget.value)} autocomplete="current-password" /></label>
    <${Problem} of=${action.error} what=${refused ? 'Not signed in' : undefined} />
    ${refused && html`<p class="muted">The name or the password is wrong, or the user has no tag that lets it use this page (management, policymaker, monitoring, administrator). <b>guest</b> may sign in from the node's own machine only.</p>`}
    <button type="submit" class="primary" disabled=${action.busy}>Sign in</button>
  </form></main>`;
}
