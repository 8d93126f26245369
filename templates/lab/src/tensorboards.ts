import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig, PathExt, URLExt } from '@jupyterlab/coreutils';
import { IRunningSessionManagers } from '@jupyterlab/running';

import { tensorBoardIcon } from './icons';
import { RunningOnes, type Runs } from './running';
import { ask } from './server';

type Board = { id: string; folder: string; since: number; path: string };

/** The name of a folder before the way to it: the panel is narrow, and cuts off the end. */
function shownAs(folder: string): string {
  const way = PathExt.dirname(folder);
  return PathExt.basename(folder) + (way && way !== '/' ? ` · ${way}` : '');
}

async function boards(): Promise<Runs[]> {
  const { tensorboards } = await ask<{ tensorboards: Board[] }>('tensorboards');
  return tensorboards.map(({ id, folder, since, path }) => ({
    stop: `tensorboards/${id}`,
    path,
    icon: tensorBoardIcon,
    label: shownAs(folder),
    full: folder,
    since
  }));
}

/** What a row of the panel opens, by the place where its board is stopped. */
export function boardAddress(stop: string): string {
  return URLExt.join(PageConfig.getBaseUrl(), stop.replace('tensorboards', 'tensorboard'), '/');
}

/** The TensorBoards of the session, beside its kernels and terminals. */
export const runningBoards = new RunningOnes(
  'TensorBoards',
  'TensorBoard',
  'Stop all TensorBoards? What they show stays in its folders.',
  boards
);

/** Lists the session's TensorBoards in the panel of what runs, in JupyterLab and in Notebook 7. */
export const tensorBoards: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:tensorboards',
  description: 'Lists and stops the TensorBoards of the session.',
  autoStart: true,
  optional: [IRunningSessionManagers],
  activate: (app: JupyterFrontEnd, managers: IRunningSessionManagers | null): void => {
    if (!managers) {
      return;
    }
    managers.add(runningBoards);
    void app.restored.then(() => runningBoards.refreshRunning());
    window.addEventListener('focus', () => runningBoards.refreshRunning()); // back from the tab of a board
  }
};
