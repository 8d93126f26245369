import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

/** What a browser reads as a way to another address; it drops line ends and tabs, and `\` is a `/` to it. */
const LEADS_ELSEWHERE = /[%\\\x00-\x1f]|(^|\/)\.\.?(\/|$)/;

/**
 * Keeps the names in a workspace's file names, whoever wrote it: of the workspace, and of its terminals. JupyterLab
 * (4.6) makes addresses of them.
 */
export const workspaceNames: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:workspace-names',
  description: 'Refuses workspaces, and terminals in them, whose name is an address.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    const { terminals, workspaces } = app.serviceManager;
    const save = workspaces.save.bind(workspaces);
    workspaces.save = async (name, workspace) => {
      check(name, 'This workspace was not loaded: what its file gives as its name is an address.');
      await save(name, workspace);
    };
    const start = terminals.startNew.bind(terminals);
    terminals.startNew = async options => {
      check(options?.name ?? '', 'A terminal of this workspace was not opened: its name is an address.');
      return start(options);
    };
  }
};

function check(name: string, words: string): void {
  if (LEADS_ELSEWHERE.test(name)) {
    Notification.error(words, { autoClose: false });
    throw new Error(words);
  }
}
