import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISanitizer } from '@jupyterlab/apputils';

/** A label as JupyterLab's sanitizer writes it: in its attributes stand neither `>` nor `"` but where they end. */
const LABEL = /<label [^>]*>/g;
const NAMES = / for="[^"]*"/g;

/**
 * Keeps the labels of a file that somebody else wrote to themselves: JupyterLab (4.6) takes away the names of what
 * stands in it, so a label there names a control of JupyterLab's own, as a setting, and a click on its text is one on
 * that.
 */
export const ownLabels: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:own-labels',
  description: "Takes out of untrusted texts what has a click on them be one on a control of JupyterLab's.",
  autoStart: true,
  requires: [ISanitizer],
  activate: (_: JupyterFrontEnd, sanitizer: ISanitizer): void => {
    const sanitize = sanitizer.sanitize.bind(sanitizer);
    sanitizer.sanitize = (dirty, options) =>
      sanitize(dirty, options).replace(LABEL, label => label.replace(NAMES, ''));
  }
};
