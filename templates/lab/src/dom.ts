import { ServerConnection } from '@jupyterlab/services';

/** A new element with a class and a text. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  text = ''
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className) {
    made.className = className;
  }
  made.textContent = text;
  return made;
}

/** A button; `about` is what it is for, where several have the same text. */
export function button(text: string, about: string, act: () => void): HTMLButtonElement {
  const made = element('button', 'jp-mod-styled jp-mod-reject', text);
  made.type = 'button';
  if (about) {
    made.setAttribute('aria-label', `${text} ${about}`);
  }
  made.addEventListener('click', act);
  return made;
}

/** What is to say of an error. */
export function words(error: unknown): string {
  if (error instanceof ServerConnection.NetworkError) {
    return 'No connection to your session.'; // each browser has words of its own for that
  }
  return error instanceof Error ? error.message : String(error);
}
