import { type JupyterFrontEnd, type JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Poll } from '@lumino/polling';
import { Widget } from '@lumino/widgets';

import { IFolders } from './news';
import { ask } from './server';
import { showStatus } from './status';
import { type IconOf, type Kernel, nameOf, type Usage, UsagePanel } from './usagepanel';
import { share, size } from './words';

const ASK_MS = 10000;
const ASK_AFTER_FAILURES_MS = 300000;
const WARN_ABOVE = 0.9; // of the memory
const CALM_BELOW = 0.8; // before it is warned of once more

/** Shows the memory of the session's job; a click shows all that it uses. */
class JobUsage extends Widget {
  private _usage: Usage | undefined;
  private _panel: UsagePanel | undefined; // while it is open
  private _isWarned = false;
  private readonly _button = document.createElement('button');

  constructor(
    private readonly _folders: IFolders,
    private readonly _isConnected: () => boolean,
    private readonly _icons: IconOf
  ) {
    super();
    this.addClass('dsportal-Status');
    this.addClass('dsportal-Usage');
    this.hide();
    this._button.type = 'button';
    this._button.title = 'Memory of this session; press for cores, GPUs, disk and kernels';
    this._button.addEventListener('click', () => void this._open());
    this.node.append(this._button);
    new Poll({
      name: 'dsportal-lab:usage',
      factory: () => this._ask(),
      frequency: { interval: ASK_MS, backoff: true, max: ASK_AFTER_FAILURES_MS },
      linger: 0,
      standby: 'when-hidden'
    });
  }

  private async _ask(): Promise<void> {
    if (this._isConnected()) {
      this._show(await ask<Usage>('usage'));
    }
  }

  private _show(usage: Usage): void {
    const { used_bytes: used, limit_bytes: limit } = usage.memory;
    this._usage = usage;
    this.show();
    this._button.textContent = share(used, limit);
    this._panel?.follow(usage, this._folders.folders);
    const isHigh = limit !== null && used > WARN_ABOVE * limit;
    this.toggleClass('dsportal-mod-soon', isHigh);
    if (isHigh && !this._isWarned) {
      this._isWarned = true;
      this._warn(usage);
    } else if (limit === null || used < CALM_BELOW * limit) {
      this._isWarned = false;
    }
  }

  private _warn(usage: Usage): void {
    const { used_bytes: used, limit_bytes: limit } = usage.memory;
    const [most] = [...usage.kernels].sort((one, other) => other.memory_bytes - one.memory_bytes);
    Notification.warning(
      `This session uses ${share(used, limit)} of memory. Above that, kernels are killed. ${advice(most)}`,
      { autoClose: false, actions: [{ label: 'Show', callback: () => void this._open() }] }
    );
  }

  private async _open(): Promise<void> {
    if (!this._usage || this._panel) {
      return;
    }
    const body = new UsagePanel(this._usage, this._folders.folders, this._icons);
    this._panel = body;
    await showDialog({ title: 'What this session uses', body, buttons: [Dialog.okButton({ label: 'Close' })] });
    this._panel = undefined;
  }
}

function advice(kernel: Kernel | undefined): string {
  return kernel
    ? `${nameOf(kernel)} has most, ${size(kernel.memory_bytes)}: save your work, and restart its kernel.`
    : 'Save your work, and end what you do not need.';
}

export const jobUsage: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:usage',
  description: 'What the session uses of its memory, cores, GPUs and disk.',
  autoStart: true,
  requires: [IFolders],
  optional: [IStatusBar, JupyterLab.IInfo], // Notebook 7 has neither
  activate: (
    app: JupyterFrontEnd,
    folders: IFolders,
    statusBar: IStatusBar | null,
    info: JupyterLab.IInfo | null
  ): void => {
    const iconOf = (kernel: string): string => {
      const resources = app.serviceManager.kernelspecs.specs?.kernelspecs[kernel]?.resources ?? {};
      return resources['logo-svg'] ?? resources['logo-64x64'] ?? '';
    };
    const item = new JobUsage(folders, () => info?.isConnected ?? true, iconOf);
    showStatus(app, statusBar, item, 'dsportal-lab:usage', 2);
  }
};
