import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

/** What a browser reads as a way to another address; it drops line ends and tabs, and `\` is a `/` to it. */
const LEADS_ELSEWHERE = /[%\\\x00-\x1f]|(^|\/)\.\.?(\/|$)/;

/**
 * Keeps the name that stands in a workspace's file a name. JupyterLab (4.6) makes an address of it as it is written, and
 * a file that somebody else wrote would have the page send what it holds to any other address of the session.
 */
export const workspaceNames: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:workspace-names',
  description: 'Refuses workspaces whose name is an address.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    const { workspaces } = app.serviceManager;
    const save = workspaces.save.bind(workspaces);
    workspaces.save = async (name, workspace) => {
      if (LEADS_ELSEWHERE.test(name)) {
        const words = 'This workspace was not loaded: what its file gives as its name is an address.';
        Notification.error(words, { autoClose: false });
        throw new Error(words);
      }
      await save(name, workspace);
    };
  }
};
