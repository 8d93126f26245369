import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { IRunningSessions } from '@jupyterlab/running';
import type { LabIcon } from '@jupyterlab/ui-components';
import { type ISignal, Signal } from '@lumino/signaling';

import { remove } from './server';
import { told } from './templates';
import { clock } from './words';

/** One that runs: where it is stopped below `dsportal/api`, and what opens it below the session's own address. */
export type Runs = { stop: string; path: string; icon: LabIcon; label: string; full: string; since: number };

const STARTS_WITHIN_MS = 3000; // one that was just opened is there by then

/** What the session runs beside kernels and terminals, in the panel of what runs: each with since when, and stop. */
export class RunningOnes implements IRunningSessions.IManager {
  readonly shutdownLabel: string;
  readonly shutdownAllLabel = 'Stop All';
  private readonly _changed = new Signal<this, void>(this);
  private _ones: Runs[] = [];

  constructor(
    readonly name: string,
    one: string,
    readonly shutdownAllConfirmationText: string,
    private readonly _asked: () => Promise<Runs[]>
  ) {
    this.shutdownLabel = `Stop ${one}`;
  }

  get runningChanged(): ISignal<this, void> {
    return this._changed;
  }

  running(): IRunningSessions.IRunningItem[] {
    return this._ones.map(one => {
      const since = clock(new Date(one.since * 1000));
      return {
        icon: () => one.icon,
        label: () => one.label,
        labelTitle: () => `${one.full}: it runs since ${since}. Open it`,
        detail: () => since,
        className: 'dsportal-RunningOne',
        context: one.stop,
        open: () => void window.open(URLExt.join(PageConfig.getBaseUrl(), one.path), '_blank', 'noopener'),
        shutdown: () => void this._stop([one])
      };
    });
  }

  shutdownAll(): void {
    void this._stop(this._ones);
  }

  refreshRunning(): void {
    void this._look().catch(() => undefined); // a server that does not answer is told of elsewhere
  }

  /** One is opened: it is there in a moment. */
  opened(): void {
    window.setTimeout(() => this.refreshRunning(), STARTS_WITHIN_MS);
  }

  private async _stop(ones: Runs[]): Promise<void> {
    await told(async () => {
      await Promise.all(ones.map(one => remove(one.stop)));
    });
    this.refreshRunning();
  }

  private async _look(): Promise<void> {
    const ones = await this._asked();
    if (ones.map(keyOf).join() !== this._ones.map(keyOf).join()) {
      this._ones = ones;
      this._changed.emit();
    }
  }
}

function keyOf(one: Runs): string {
  return `${one.stop} ${one.since}`;
}
