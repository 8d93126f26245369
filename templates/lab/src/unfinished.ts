import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { type Workspace, WorkspaceManager } from '@jupyterlab/services';

/** Before what is of a page that has begun and is not all there yet; a lock of that name goes with the page. */
const BEGUN = 'dsportal-lab:begun:';
const QUIET_MS = 10_000; // what is open again is drawn after the layout is there
const LONGEST_MS = 60_000;
const TOLD =
  'JupyterLab stood still the last time before all of its last layout was open again: now it is open without it. ' +
  'Your files are as they were; open them one by one to find the one that takes so long.';

let isLeftOut: Promise<boolean> = Promise.resolve(false);
let isThere = false; // later a workspace is loaded to be renamed or copied
let ready = (): void => undefined;

/**
 * Leaves the saved layout out where the page before this one never got ready with it: a file that somebody else wrote
 * can keep a browser busy for minutes, and would each time that JupyterLab is opened.
 */
export function leaveOutUnfinished(): void {
  if (PageConfig.getOption('notebookPage') || navigator.locks === undefined) return;
  const place = `${BEGUN}${PageConfig.getBaseUrl()} ${PageConfig.getOption('workspace')} `; // one may have two sessions
  const own = place + crypto.getRandomValues(new Uint32Array(4)).join('-');
  isLeftOut = begin(place, own).catch(() => false); // this browser keeps nothing for pages, or no more
  const end = (): void => localStorage.removeItem(own);
  window.addEventListener('pagehide', end);
  const isReady = new Promise<void>(resolve => {
    ready = () => resolve(end()); // before the lock goes
  });
  void navigator.locks.request(own, () => isReady);
  const { fetch } = WorkspaceManager.prototype;
  WorkspaceManager.prototype.fetch = async function (id: string): Promise<Workspace.IWorkspace> {
    const isLast = !isThere && id === PageConfig.getOption('workspace');
    return isLast && (await isLeftOut) ? { data: {}, metadata: { id } } : fetch.call(this, id);
  };
}

async function begin(place: string, own: string): Promise<boolean> {
  const before = Object.keys(localStorage).filter(key => key.startsWith(place));
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
      isThere = true;
      setTimeout(() => ready(), QUIET_MS);
      if (await isLeftOut) Notification.warning(TOLD, { autoClose: false });
    });
  }
};
