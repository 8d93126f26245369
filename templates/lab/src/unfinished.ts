import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { type Workspace, WorkspaceManager } from '@jupyterlab/services';

/** One for each page of this browser that has begun and is not all there yet; a lock of that name goes with the page. */
const BEGUN = 'dsportal-lab:begun:';
const QUIET_MS = 10_000; // what is open again is drawn after the layout is there
const LONGEST_MS = 60_000;
const TOLD =
  'JupyterLab stood still the last time before all of its last layout was open again: now it is open without it. ' +
  'Your files are as they were; open them one by one to find the one that takes so long.';

let isLeftOut: Promise<boolean> = Promise.resolve(false);
let ready = (): void => undefined;

/**
 * Leaves the saved layout out where the page before this one never got ready with it: a file that somebody else wrote
 * can keep a browser busy for minutes, and would each time that JupyterLab is opened.
 */
export function leaveOutUnfinished(): void {
  if (PageConfig.getOption('notebookPage') || navigator.locks === undefined) return;
  const own = BEGUN + crypto.getRandomValues(new Uint32Array(4)).join('-');
  isLeftOut = begin(own);
  const end = (): void => localStorage.removeItem(own);
  window.addEventListener('pagehide', end);
  void navigator.locks.request(own, () => new Promise<void>(resolve => (ready = resolve))).then(end);
  const { fetch } = WorkspaceManager.prototype;
  WorkspaceManager.prototype.fetch = async function (id: string): Promise<Workspace.IWorkspace> {
    return (await isLeftOut) ? { data: {}, metadata: { id } } : fetch.call(this, id);
  };
}

async function begin(own: string): Promise<boolean> {
  const before = Object.keys(localStorage).filter(key => key.startsWith(BEGUN));
  localStorage.setItem(own, String(Date.now()));
  const { held = [] } = await navigator.locks.query();
  const stuck = before.filter(
    key => !held.some(({ name }) => name === key) || Date.now() - Number(localStorage.getItem(key)) > LONGEST_MS
  );
  stuck.forEach(key => localStorage.removeItem(key));
  return stuck.length > 0;
}

export const unfinished: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:unfinished',
  description: 'Says when the saved layout was left out, as the page before this one never got ready with it.',
  autoStart: true,
  activate: ({ restored }: JupyterFrontEnd): void => {
    void restored.then(async () => {
      setTimeout(() => ready(), QUIET_MS);
      if (await isLeftOut) Notification.warning(TOLD, { autoClose: false });
    });
  }
};
