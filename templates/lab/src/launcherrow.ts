import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILauncher, type LauncherModel } from '@jupyterlab/launcher';

import { kernelOrder } from './kernelorder';

const CONSOLE = 'console:create';

/**
 * One row of kernels in the launcher, in order. JupyterLab repeats all of them for consoles: here one tile asks for the
 * kernel. It knows no other way to leave tiles out, so the launcher's list is read through this.
 */
export const launcherRow: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:launcher-row',
  description: 'One row of kernels in the launcher, by their titles.',
  autoStart: true,
  optional: [ILauncher],
  activate: (app: JupyterFrontEnd, launcher: ILauncher | null): void => {
    const model = launcher as LauncherModel | null;
    if (!model?.items) {
      return;
    }
    const all = model.items.bind(model);
    model.items = () => {
      const order = kernelOrder(app.serviceManager.kernelspecs.specs?.kernelspecs ?? {});
      const shown = Array.from(all()).filter(item => item.command !== CONSOLE || !item.args?.kernelPreference);
      for (const item of shown) {
        const position = order.indexOf(String(item.args?.kernelName));
        item.rank = position < 0 ? item.rank : position;
      }
      return shown[Symbol.iterator]();
    };
    model.add({ command: CONSOLE, category: 'Other', rank: 0.05 });
  }
};
