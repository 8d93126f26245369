import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { Panel, Widget } from '@lumino/widgets';

import { element } from './dom';
import { askForEnvironment, askForKernel, type Environment } from './environmentform';
import { EnvironmentList } from './environmentlist';
import { showLog } from './followedlog';
import { environmentsIcon } from './icons';
import { ModuleBrowser } from './modulebrowser';
import { keepInNewMenu } from './newmenu';
import { ask, remove } from './server';
import { told } from './templates';

const NEW = 'dsportal:environment-new';
const SHOW = 'dsportal:environments';
const EVERY_MS = 1500; // while one is being made; the server looks at its disk alone

/** A panel on the left with two tabs: environments of one's own, and the modules of the cluster. */
class EnvironmentsPanel extends Panel {
  readonly list: EnvironmentList;
  private readonly _modules: ModuleBrowser;
  private readonly _tabs: [HTMLButtonElement, Widget][];
  private readonly _watched = new Set<string>();

  constructor(private readonly _app: JupyterFrontEnd) {
    super();
    this.id = 'dsportal-environments';
    this.title.icon = environmentsIcon;
    this.title.caption = 'Environments and Modules';
    this.addClass('dsportal-Panel');
    this.addClass('dsportal-Environments');
    this.list = new EnvironmentList({
      make: modules => void told(() => this.make(modules)),
      log: one => this._log(one),
      remove: one => void told(() => this._remove(one))
    });
    this._modules = new ModuleBrowser({
      kernel: modules => void told(() => this._makeKernel(modules)),
      environment: modules => void told(() => this.make(modules))
    });
    this._tabs = [
      [element('button', '', 'Environments'), this.list],
      [element('button', '', 'Modules'), this._modules]
    ];
    const head = new Widget();
    head.node.append(element('h2', '', 'Environments and Modules'), this._tabList());
    this.addWidget(head);
    this._tabs.forEach(([, widget]) => this.addWidget(widget));
    this._open(0);
  }

  protected override onAfterShow(): void {
    void this.look();
  }

  /** Look now, and follow what is being made, whether or not somebody sees this panel. */
  async look(): Promise<void> {
    for (const one of await this.list.look()) {
      if (one.state === 'making') {
        void this._watch(one.name);
      }
    }
  }

  /** Ask for a new environment, begin to make it, and show it. */
  async make(modules: string[]): Promise<void> {
    await this.list.look(); // for the tools that there are
    const made = await askForEnvironment(this.list.tools, modules);
    if (made) {
      this._app.shell.activateById(this.id);
      this._open(0);
      await this.look();
    }
  }

  private async _makeKernel(modules: string[]): Promise<void> {
    const made = await askForKernel(modules);
    if (made) {
      this._open(0);
      await this.look();
      await this._welcome(made);
    }
  }

  /** Follow one until its making is over, and say how it went. */
  private async _watch(name: string): Promise<void> {
    if (this._watched.has(name)) {
      return;
    }
    this._watched.add(name);
    try {
      let one: Environment;
      do {
        await new Promise(resolve => window.setTimeout(resolve, EVERY_MS));
        one = await ask<Environment>(`environments/${name}`);
      } while (one.state === 'making');
      await this._welcome(one);
    } catch {
      // it was removed meanwhile, or the session is not reached: the list says what there is
    } finally {
      this._watched.delete(name);
    }
    await this.list.look();
  }

  private async _welcome(one: Environment): Promise<void> {
    if (one.state === 'ready') {
      await this._app.serviceManager.kernelspecs.refreshSpecs();
      Notification.success(`${one.title} is ready: its kernel is in the launcher.`, { autoClose: 10000 });
    } else {
      Notification.error(`${one.title} is not made: ${one.words}`, {
        autoClose: false,
        actions: [{ label: 'Log', callback: () => this._log(one) }]
      });
    }
  }

  private _log(one: Environment): void {
    showLog(this._app, {
      address: `environments/${one.name}/log`,
      id: `environment-${one.name}`,
      title: `Log of ${one.title}`,
      icon: environmentsIcon,
      ended: 'Its making is over.'
    });
  }

  private async _remove(one: Environment): Promise<void> {
    const folder = one.path ? ` and its folder ${one.path}` : '';
    const answer = await showDialog({
      title: `Remove ${one.title}?`,
      body: `Its kernel${folder} will be gone. Notebooks that use it stay, and need another kernel.`,
      buttons: [Dialog.cancelButton({ label: 'Keep it' }), Dialog.warnButton({ label: 'Remove' })]
    });
    if (answer.button.accept) {
      await remove(`environments/${one.name}`);
      await this._app.serviceManager.kernelspecs.refreshSpecs();
      await this.look();
    }
  }

  private _tabList(): HTMLElement {
    const bar = element('div', 'dsportal-Tabs');
    bar.setAttribute('role', 'tablist');
    bar.setAttribute('aria-label', 'Environments and modules');
    this._tabs.forEach(([tab, widget], position) => {
      widget.id = `${this.id}-${position}`;
      tab.type = 'button';
      tab.id = `${widget.id}-tab`;
      tab.setAttribute('role', 'tab');
      tab.setAttribute('aria-controls', widget.id);
      widget.node.setAttribute('role', 'tabpanel');
      widget.node.setAttribute('aria-labelledby', tab.id);
      tab.addEventListener('click', () => this._open(position));
      tab.addEventListener('keydown', event => {
        if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
          this._open(1 - position);
          this._tabs[1 - position]?.[0].focus();
        }
      });
      bar.append(tab);
    });
    return bar;
  }

  private _open(position: number): void {
    this._tabs.forEach(([tab, widget], other) => {
      tab.setAttribute('aria-selected', String(other === position));
      tab.tabIndex = other === position ? 0 : -1;
      widget.setHidden(other !== position);
    });
    if (this._tabs[position]?.[1] === this._modules && !this._modules.hasClass('dsportal-mod-seen')) {
      this._modules.addClass('dsportal-mod-seen');
      void this._modules.look();
    }
  }
}

/** Environments of one's own, and the modules of the cluster. */
export const environments: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:environments',
  description: 'Makes environments and kernels of one’s own, and shows the modules of the cluster.',
  autoStart: true,
  optional: [ILauncher, IMainMenu, ICommandPalette, ILayoutRestorer, IDefaultFileBrowser],
  activate: (
    app: JupyterFrontEnd,
    launcher: ILauncher | null,
    menu: IMainMenu | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    browser: IDefaultFileBrowser | null
  ): void => {
    const panel = new EnvironmentsPanel(app);
    app.shell.add(panel, 'left', { rank: 310 });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(NEW, {
      label: 'New Environment…',
      caption: 'Make an environment of your own with packages, and a kernel for it',
      icon: environmentsIcon,
      execute: () => told(() => panel.make([]))
    });
    app.commands.addCommand(SHOW, {
      label: 'Environments and Modules',
      caption: 'Show your environments, and the modules of the cluster',
      icon: environmentsIcon,
      execute: () => app.shell.activateById(panel.id)
    });
    menu?.fileMenu.newMenu.addGroup([{ command: NEW }], 41);
    launcher?.add({ command: NEW, category: 'Other', rank: 0.35 });
    [NEW, SHOW].forEach(command => palette?.addItem({ command, category: 'Data Scientist Portal' }));
    if (browser && PageConfig.getOption('notebookPage') === 'tree') {
      keepInNewMenu(browser, NEW);
    }
  }
};
