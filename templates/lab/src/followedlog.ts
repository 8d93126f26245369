import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, MainAreaWidget, showDialog } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { words } from './dom';
import { ask } from './server';

type Part = { text: string; next: number; is_over: boolean; path: string };

const EVERY_MS = 2000;
const SELDOM_MS = 8000; // while nothing is written

/** A log: its address below `dsportal/api`, its title and the icon of its tab, and what its end means. */
export type Log = { address: string; id: string; title: string; icon: LabIcon; ended: string };

/** What a job, or the making of an environment, has written; goes on until that has ended, or the tab is closed. */
class FollowedLog extends Widget {
  private readonly _text = document.createElement('pre');
  private readonly _state = document.createElement('p');
  private _next = 0;
  private _timer = 0;
  private _wait = EVERY_MS;

  constructor(private readonly _log: Log) {
    super();
    this.addClass('dsportal-Log');
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
      const part = await ask<Part>(this._log.address, { from: String(this._next) });
      this._show(part);
      return part.is_over;
    } catch (error) {
      this._state.textContent = words(error);
      return false;
    }
  }

  private _show(part: Part): void {
    const isAtEnd = this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < 40;
    this._text.append(part.text);
    this._next = part.next;
    this._state.textContent = part.is_over ? `${this._log.ended} All of it: ${part.path}` : `It goes on: ${part.path}`;
    if (isAtEnd) {
      this.node.scrollTop = this.node.scrollHeight;
    }
  }
}

/** A log as a dialog: the pages of Notebook 7 have one tab, which is taken. */
async function logDialog(log: Log): Promise<void> {
  const body = new FollowedLog(log);
  void body.follow();
  await showDialog({ title: log.title, body, buttons: [Dialog.okButton({ label: 'Close' })] });
}

/** A log as a tab of the main area. */
function logTab(log: Log): MainAreaWidget {
  const content = new FollowedLog(log);
  const tab = new MainAreaWidget({ content });
  tab.id = `dsportal-log-${log.id}`;
  tab.title.label = log.title;
  tab.title.icon = log.icon;
  tab.title.closable = true;
  tab.toolbar.hide();
  void content.follow();
  return tab;
}

/** Shows a log where the page has a place for it. */
export function showLog(app: JupyterFrontEnd, log: Log): void {
  if (PageConfig.getOption('notebookPage')) {
    void logDialog(log);
    return;
  }
  const tab = logTab(log);
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
}
