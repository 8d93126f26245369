import { type JupyterFrontEnd, type JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Poll } from '@lumino/polling';
import { Widget } from '@lumino/widgets';

import { type Documents, IDocuments, wordsOf } from './documents';
import { extend } from './moretime';
import { ask } from './server';
import { showStatus } from './status';
import { clock, duration } from './words';

const MARKS_MIN = [30, 5]; // before the end: a warning, and everything is saved
const ASK_MS = 60000; // an administrator may have changed the end
const ASK_SOON_MS = 5000; // Slurm may not have said it yet when the page is opened; or a script runs before the end
const ASK_SOON_TIMES = 12;
const ASK_SOON_BEFORE_MIN = 6;
const ASK_AFTER_FAILURES_MS = 600000;
const LOOK_MS = 5000;
const MINUTE_MS = 60000;

/** What became of the person's own script, which runs before the end. */
type ScriptRun = { state: 'running' | 'done' | 'failed' | 'stopped' | 'refused'; words: string };

/** What the server answers: seconds since 1970, by its own clock. */
type Answer = { ends_at: number | null; now: number; before_end: ScriptRun | null; may_extend?: boolean };

/** Shows how long the session has left, and warns before its end; a press gives it more time, where the site does. */
class TimeLeft extends Widget {
  private _endMs: number | undefined; // by the clock of this browser
  private _unknown = 0; // answers without an end, one after the other
  private _told = ''; // of the script
  private _mayExtend = false;
  private readonly _words = document.createElement('span');
  private readonly _button = document.createElement('button');
  private readonly _warned = new Set<number>();
  private readonly _poll: Poll;

  constructor(
    private readonly _documents: Documents,
    private readonly _isConnected: () => boolean
  ) {
    super({ node: document.createElement('span') });
    this.addClass('dsportal-Status');
    this.addClass('dsportal-TimeLeft');
    this.hide();
    this._button.type = 'button';
    this._button.addEventListener('click', () => void this._extend());
    this.node.append(this._words, this._button);
    this._poll = new Poll({
      name: 'dsportal-lab:time',
      factory: () => this._ask(),
      frequency: { interval: ASK_MS, backoff: true, max: ASK_AFTER_FAILURES_MS },
      standby: 'never' // what is open in a hidden tab is to be saved, too
    });
    setInterval(() => this._look(), LOOK_MS);
  }

  private async _ask(): Promise<void> {
    if (this._isConnected()) {
      const answer = await ask<Answer>('time');
      this._endMs = answer.ends_at === null ? undefined : Date.now() + (answer.ends_at - answer.now) * 1000;
      this._unknown = this._endMs === undefined ? this._unknown + 1 : ASK_SOON_TIMES;
      const isSoon = this._unknown < ASK_SOON_TIMES || this._minutes() < ASK_SOON_BEFORE_MIN;
      this._mayExtend = answer.may_extend ?? false;
      const interval = isSoon ? ASK_SOON_MS : ASK_MS;
      this._poll.frequency = { ...this._poll.frequency, interval };
      this._look();
      this._tellRun(answer.before_end);
    }
  }

  private _minutes(): number {
    return this._endMs === undefined ? Infinity : (this._endMs - Date.now()) / MINUTE_MS;
  }

  /** Say once what became of the script; a page that is opened later says it, too. */
  private _tellRun(run: ScriptRun | null): void {
    if (run && run.words !== this._told) {
      this._told = run.words;
      const isGood = run.state === 'running' || run.state === 'done';
      Notification.emit(run.words, isGood ? 'info' : 'warning', { autoClose: false });
    }
  }

  private _look(): void {
    this.setHidden(this._endMs === undefined);
    if (this._endMs === undefined) {
      return;
    }
    const minutes = this._minutes();
    const words = minutes > 0 ? `${duration(minutes)} left` : 'Time is up';
    this._words.textContent = this._mayExtend ? '' : words;
    this._button.textContent = this._mayExtend ? words : '';
    this._button.hidden = !this._mayExtend;
    const end = `This session ends at ${clock(new Date(this._endMs))}.`;
    this.node.title = this._mayExtend ? `${end} Press to extend it.` : end;
    this.toggleClass('dsportal-mod-soon', minutes <= Math.max(...MARKS_MIN));
    if (this._isDue(minutes)) {
      void this._warn(this._endMs);
    }
  }

  /** Whether a mark was reached that was not warned of; a session that got more time is warned of again. */
  private _isDue(minutes: number): boolean {
    MARKS_MIN.filter(mark => minutes > mark).forEach(mark => this._warned.delete(mark));
    const due = MARKS_MIN.filter(mark => minutes <= mark && !this._warned.has(mark));
    due.forEach(mark => this._warned.add(mark));
    return due.length > 0 && minutes > 0;
  }

  /** Have the session last longer, and show its new end at once. */
  private async _extend(): Promise<void> {
    this._button.disabled = true;
    const isLonger = await extend();
    this._button.disabled = false;
    if (isLonger) {
      await this._poll.refresh();
    }
  }

  private async _warn(endMs: number): Promise<void> {
    const saving = await this._documents.save();
    const minutes = (endMs - Date.now()) / MINUTE_MS;
    const end = `This session ends at ${clock(new Date(endMs))}, in ${duration(Math.ceil(minutes))}.`;
    const words = wordsOf(saving) || 'Everything that is open here was saved before.';
    const actions = this._mayExtend ? [{ label: 'Extend', callback: () => void this._extend() }] : [];
    Notification.warning(`${end} ${words}`, { autoClose: false, actions });
  }
}

export const timeLeft: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:time-left',
  description: 'How long the session has left; warns before its end, and saves what is open.',
  autoStart: true,
  requires: [IDocuments],
  optional: [IStatusBar, JupyterLab.IInfo], // Notebook 7 has neither
  activate: (
    app: JupyterFrontEnd,
    opened: Documents,
    statusBar: IStatusBar | null,
    info: JupyterLab.IInfo | null
  ): void => {
    const item = new TimeLeft(opened, () => info?.isConnected ?? true);
    showStatus(app, statusBar, item, 'dsportal-lab:time-left', 1);
  }
};
