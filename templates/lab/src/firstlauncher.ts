import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';

/** Whether the page was opened for nothing else: no file, and no workspace by its name. */
function opensNothing(): boolean {
  const lab = URLExt.parse(URLExt.join(PageConfig.getBaseUrl(), 'lab'));
  return window.location.pathname === lab.pathname;
}

/**
 * The launcher of an empty Lab as soon as the layout is there. JupyterLab itself first saves the workspace, which takes
 * a second, and then lists the folder; the launcher follows the folder, whenever that one comes.
 */
export const firstLauncher: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:first-launcher',
  description: 'The launcher of an empty JupyterLab.',
  autoStart: true,
  optional: [ILabShell],
  activate: (app: JupyterFrontEnd, shell: ILabShell | null): void => {
    if (!shell || !opensNothing()) {
      return;
    }
    void app.restored.then(() => {
      if (shell.isEmpty('main')) {
        void app.commands.execute('launcher:create');
      }
    });
  }
};
