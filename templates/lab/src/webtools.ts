import { type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { button, element, words } from './dom';
import { showLog } from './followedlog';
import { toolsIcon } from './icons';
import { keepInNewMenu } from './newmenu';
import { RunningOnes, type Runs } from './running';
import { ask, remove } from './server';
import { told } from './templates';

type Tool = {
  name: string;
  title: string;
  state: 'stopped' | 'starting' | 'ready' | 'failed';
  why: string;
  started_at: number | null;
  icon: string;
};

const SHOW = 'dsportal:tools';
const EVERY_MS = 3000; // the server looks at its own processes alone
const SAID = { stopped: 'not running', starting: 'starting …', ready: 'running', failed: 'does not run' };

function commandOf(tool: Tool): string {
  return `dsportal:tool-${tool.name}`;
}

function pathOf(tool: Tool): string {
  return `tools/${tool.name}/dsportal-open`;
}

function iconOf(tool: Tool): LabIcon {
  return new LabIcon({ name: commandOf(tool), svgstr: tool.icon });
}

/** Starts a tool in a new tab, which gets no handle on this page. */
function open(tool: Tool): void {
  window.open(URLExt.join(PageConfig.getBaseUrl(), pathOf(tool)), '_blank', 'noopener');
  runningTools.opened();
}

/** The web tools that run, beside kernels and terminals: Notebook 7 has no panel for all of them. */
const runningTools = new RunningOnes(
  'Web Tools',
  'Web Tool',
  'Stop all web tools? What is not saved in them is lost.',
  async (): Promise<Runs[]> => {
    const { tools } = await ask<{ tools: Tool[] }>('tools');
    return tools
      .filter(tool => tool.started_at !== null)
      .map(tool => ({
        stop: `tools/${tool.name}`,
        path: pathOf(tool),
        icon: iconOf(tool),
        label: tool.title,
        full: tool.title,
        since: tool.started_at ?? 0
      }));
  }
);

/** The web tools of this session, with what each does; asks only while somebody sees it. */
class ToolsPanel extends Widget {
  private readonly _list = element('ul');
  private readonly _state = element('p');
  private _timer = 0;
  private _shown = '';

  constructor(private readonly _app: JupyterFrontEnd) {
    super();
    this.id = 'dsportal-tools';
    this.title.icon = toolsIcon;
    this.title.caption = 'Web Tools';
    this.addClass('dsportal-Panel');
    this.addClass('dsportal-Tools');
    this._state.setAttribute('role', 'status');
    this.node.append(element('h2', '', 'Web Tools'), this._state, this._list);
    document.addEventListener('visibilitychange', () => void this.look());
  }

  protected override onAfterShow(): void {
    void this.look();
  }

  protected override onBeforeHide(): void {
    window.clearTimeout(this._timer);
  }

  /** Ask now, and then again. */
  async look(): Promise<void> {
    window.clearTimeout(this._timer);
    if (document.hidden || !this.isVisible) {
      return;
    }
    try {
      const { tools } = await ask<{ tools: Tool[] }>('tools');
      const text = JSON.stringify(tools);
      if (text !== this._shown) {
        this._shown = text;
        this._list.replaceChildren(...tools.map(tool => this._item(tool)));
      }
      this._state.textContent = '';
    } catch (error) {
      this._state.textContent = words(error);
    }
    this._timer = window.setTimeout(() => void this.look(), EVERY_MS);
  }

  private _item(tool: Tool): HTMLLIElement {
    const item = element('li');
    item.dataset.tool = tool.name;
    item.dataset.state = tool.state;
    const buttons = element('div');
    buttons.append(button('Open', tool.title, () => open(tool)));
    if (tool.state !== 'stopped') {
      buttons.append(button('Log', `of ${tool.title}`, () => this._log(tool)));
    }
    if (tool.state === 'starting' || tool.state === 'ready') {
      buttons.append(button('Stop…', tool.title, () => void told(() => this._stop(tool))));
    }
    const said = tool.state === 'failed' ? `${SAID.failed}: ${tool.why}` : SAID[tool.state];
    item.append(element('strong', '', tool.title), element('p', '', said), buttons);
    return item;
  }

  private _log(tool: Tool): void {
    showLog(this._app, {
      address: `tools/${tool.name}/log`,
      id: `tool-${tool.name}`,
      title: `Log of ${tool.title}`,
      icon: iconOf(tool),
      ended: 'It does not run any more.'
    });
  }

  private async _stop(tool: Tool): Promise<void> {
    const answer = await showDialog({
      title: `Stop ${tool.title}?`,
      body: 'What is not saved in it is lost.',
      buttons: [Dialog.cancelButton({ label: 'Let it run' }), Dialog.warnButton({ label: 'Stop' })]
    });
    if (answer.button.accept) {
      await remove(`tools/${tool.name}`);
      runningTools.refreshRunning();
      await this.look();
    }
  }
}

/** A tile for each tool, and the panel. */
function show(app: JupyterFrontEnd, tools: Tool[], launcher: ILauncher | null, palette: ICommandPalette | null): void {
  const panel = new ToolsPanel(app);
  app.shell.add(panel, 'left', { rank: 320 });
  app.commands.addCommand(SHOW, {
    label: 'Web Tools',
    caption: 'Show the web tools of this session, their logs and what stops them',
    icon: toolsIcon,
    execute: () => app.shell.activateById(panel.id)
  });
  palette?.addItem({ command: SHOW, category: 'Data Scientist Portal' });
  tools.forEach((tool, position) => {
    const command = commandOf(tool);
    app.commands.addCommand(command, {
      label: tool.title,
      caption: `Open ${tool.title} in a tab of its own`,
      icon: iconOf(tool),
      execute: () => open(tool)
    });
    launcher?.add({ command, category: 'Other', rank: 0.4 + position / 1000 });
    palette?.addItem({ command, category: 'Data Scientist Portal' });
  });
}

/** The site's web tools, where this person has any. */
export const webTools: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:web-tools',
  description: 'Starts the web tools of the site, shows their logs, and stops them.',
  autoStart: true,
  optional: [ILauncher, ICommandPalette, IDefaultFileBrowser, IRunningSessionManagers],
  activate: (
    app: JupyterFrontEnd,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null,
    managers: IRunningSessionManagers | null
  ): void => {
    // Nothing waits for the answer: a page starts as fast as without tools.
    void told(async () => {
      const { tools } = await ask<{ tools: Tool[] }>('tools');
      if (tools.length) {
        show(app, tools, launcher, palette);
        managers?.add(runningTools);
        runningTools.refreshRunning();
        window.addEventListener('focus', () => runningTools.refreshRunning()); // back from the tab of a tool
      }
      if (browser && PageConfig.getOption('notebookPage') === 'tree') {
        tools.forEach(tool => keepInNewMenu(browser, commandOf(tool)));
      }
    });
  }
};
