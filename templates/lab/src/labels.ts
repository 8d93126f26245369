import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISanitizer } from '@jupyterlab/apputils';

/** A tag as JupyterLab's sanitizer writes it: in its attributes stand neither `>` nor `"` but where they end. */
const TAG = /<\w+ [^>]*>/g;
const ATTRIBUTE = / ([\w-]+)(?:="[^"]*")?/g;
const FORM = /<\/?form\b[^>]*>/g;

/** What has a text act on something else than itself, or lets a click on it through to what is below. */
const DROPPED = new Set(['for', 'form', 'inert']);

/**
 * Keeps the texts of a file that somebody else wrote to themselves: JupyterLab (4.6) takes away the names of what
 * stands in them, so a label there names a control of JupyterLab's own, as a setting, and a click on its text is one on
 * that. A form there would lead the window away. That they are drawn over nothing else is said in `style/index.css`.
 */
export const ownLabels: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:own-labels',
  description: "Takes out of untrusted texts what has a click on them be one on a control of JupyterLab's.",
  autoStart: true,
  requires: [ISanitizer],
  activate: (_: JupyterFrontEnd, sanitizer: ISanitizer): void => {
    const sanitize = sanitizer.sanitize.bind(sanitizer);
    sanitizer.sanitize = (dirty, options) =>
      sanitize(dirty, options)
        .replace(FORM, '')
        .replace(TAG, tag => tag.replace(ATTRIBUTE, (whole, name: string) => (DROPPED.has(name) ? '' : whole)));
  }
};
