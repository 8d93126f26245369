import { Dialog, MainAreaWidget, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ask } from './server';

type Part = { text: string; next: number; is_over: boolean; path: string };

const EVERY_MS = 2000;
const SELDOM_MS = 8000; // while nothing is written

/** What a job has written; goes on until the job has ended, or the tab is closed. */
class JobLog extends Widget {
  private readonly _text = document.createElement('pre');
  private readonly _state = document.createElement('p');
  private _next = 0;
  private _timer = 0;
  private _wait = EVERY_MS;

  constructor(private readonly _id: string) {
    super();
    this.addClass('dsportal-JobLog');
    this._text.tabIndex = 0; // so that it scrolls by keys
    this._state.setAttribute('role', 'status');
    this._state.textContent = 'Nothing is written yet.';
    this.node.append(this._text, this._state);
  }

  /** Read on, now and again and again; a hidden page waits. */
  async follow(): Promise<void> {
    const before = this._next;
    const isOver = !document.hidden && (await this._more());
    this._wait = this._next === before ? Math.min(2 * this._wait, SELDOM_MS) : EVERY_MS;
    if (!this.isDisposed && !isOver) {
      this._timer = window.setTimeout(() => void this.follow(), this._wait);
    }
  }

  override dispose(): void {
    window.clearTimeout(this._timer);
    super.dispose();
  }

  /** Whether the end is reached. */
  private async _more(): Promise<boolean> {
    try {
      const part = await ask<Part>(`jobs/${this._id}/log`, { from: String(this._next) });
      this._show(part);
      return part.is_over;
    } catch (error) {
      this._state.textContent = error instanceof Error ? error.message : String(error);
      return false;
    }
  }

  private _show(part: Part): void {
    const isAtEnd = this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < 40;
    this._text.append(part.text);
    this._next = part.next;
    this._state.textContent = part.is_over ? `The job has ended. All of it: ${part.path}` : `It goes on: ${part.path}`;
    if (isAtEnd) {
      this.node.scrollTop = this.node.scrollHeight;
    }
  }
}

/** The log of a job as a dialog: the pages of Notebook 7 have one tab, which is taken. */
export async function logDialog(id: string): Promise<void> {
  const body = new JobLog(id);
  void body.follow();
  await showDialog({ title: `Log of job ${id}`, body, buttons: [Dialog.okButton({ label: 'Close' })] });
}

/** The log of a job as a tab of the main area. */
export function logTab(id: string): MainAreaWidget {
  const content = new JobLog(id);
  const tab = new MainAreaWidget({ content });
  tab.id = `dsportal-job-log-${id}`;
  tab.title.label = `Log of job ${id}`;
  tab.title.closable = true;
  tab.toolbar.hide();
  void content.follow();
  return tab;
}
