import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig, PathExt, URLExt } from '@jupyterlab/coreutils';
import { IRunningSessionManagers, type IRunningSessions } from '@jupyterlab/running';
import { type ISignal, Signal } from '@lumino/signaling';

import { tensorBoardIcon } from './icons';
import { ask, remove } from './server';
import { told } from './templates';
import { clock } from './words';

type Board = { id: string; folder: string; since: number; path: string };

const STARTS_WITHIN_MS = 3000; // one that was just opened is there by then

/** The name of a folder before the way to it: the panel is narrow, and cuts off the end. */
function shownAs(folder: string): string {
  const way = PathExt.dirname(folder);
  return PathExt.basename(folder) + (way && way !== '/' ? ` · ${way}` : '');
}

function since(board: Board): string {
  return clock(new Date(board.since * 1000));
}

/** The TensorBoards of the session, beside its kernels and terminals: each with its folder, since when, and stop. */
export class RunningBoards implements IRunningSessions.IManager {
  readonly name = 'TensorBoards';
  readonly shutdownLabel = 'Stop TensorBoard';
  readonly shutdownAllLabel = 'Stop All';
  readonly shutdownAllConfirmationText = 'Stop all TensorBoards? What they show stays in its folders.';
  private readonly _changed = new Signal<this, void>(this);
  private _boards: Board[] = [];

  get runningChanged(): ISignal<this, void> {
    return this._changed;
  }

  running(): IRunningSessions.IRunningItem[] {
    return this._boards.map(board => ({
      icon: () => tensorBoardIcon,
      label: () => shownAs(board.folder),
      labelTitle: () => `${board.folder}: it runs since ${since(board)}. Open it`,
      detail: () => since(board),
      className: 'dsportal-RunningBoard',
      context: board.id,
      open: () => void window.open(URLExt.join(PageConfig.getBaseUrl(), board.path), '_blank', 'noopener'),
      shutdown: () => void this._stop([board])
    }));
  }

  shutdownAll(): void {
    void this._stop(this._boards);
  }

  refreshRunning(): void {
    void this._look().catch(() => undefined); // a server that does not answer is told of elsewhere
  }

  /** One is opened: it is there in a moment. */
  opened(): void {
    window.setTimeout(() => this.refreshRunning(), STARTS_WITHIN_MS);
  }

  private async _stop(boards: Board[]): Promise<void> {
    await told(async () => {
      await Promise.all(boards.map(board => remove(`tensorboards/${board.id}`)));
    });
    this.refreshRunning();
  }

  private async _look(): Promise<void> {
    const { tensorboards } = await ask<{ tensorboards: Board[] }>('tensorboards');
    if (JSON.stringify(tensorboards) !== JSON.stringify(this._boards)) {
      this._boards = tensorboards;
      this._changed.emit();
    }
  }
}

export const runningBoards = new RunningBoards();

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
