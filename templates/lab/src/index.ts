import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CommandToolbarButton, ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { type FileBrowser, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';

import './firstclick';

import { drawAhead } from './ahead';
import { addArchive } from './archive';
import { drawNoCharts, noChartTabs } from './charts';
import { keepOwnToken } from './cookies';
import { documents } from './documents';
import { keepToFiles } from './drive';
import { sessionEnd } from './ended';
import { environments } from './environments';
import { firstLauncher } from './firstlauncher';
import { currentFolder, likelyFolder, selectedFolder } from './folders';
import { tensorBoardIcon } from './icons';
import { jobs } from './jobs';
import { kernelTests } from './kernels';
import { ownLabels } from './labels';
import { launcherRow } from './launcherrow';
import { readLongNotes } from './longnotes';
import { keepInNewMenu } from './newmenu';
import { news } from './news';
import { plainPastes } from './pastes';
import { addTemplates, TemplateIDs } from './templates';
import { boardAddress, runningBoards, tensorBoards } from './tensorboards';
import { timeLeft } from './timeleft';
import { leaveOutUnfinished, unfinished } from './unfinished';
import { tellUnlisted } from './unlisted';
import { takeUploads } from './uploads';
import { jobUsage } from './usage';
import { webTools } from './webtools';
import { linkNoCommands, sayWhole } from './whole';
import { workspaceNames } from './workspaces';

namespace CommandIDs {
  export const tensorBoard = 'dsportal:tensorboard';
  export const tensorBoardHere = 'dsportal:tensorboard-here';
  export const tensorBoardSelected = 'dsportal:tensorboard-selected';
}

const PALETTE = 'Data Scientist Portal';

/** Gives the file browser that a person works with, if the page has one. */
type Browser = () => FileBrowser | null;

/** The folder that each command opens. */
const FOLDERS: Record<string, (browser: FileBrowser) => string | undefined> = {
  [CommandIDs.tensorBoard]: likelyFolder,
  [CommandIDs.tensorBoardHere]: here => selectedFolder(here) ?? currentFolder(here),
  [CommandIDs.tensorBoardSelected]: selectedFolder
};

const BOARDS = `[data-context^="tensorboards/"],[data-command^="${CommandIDs.tensorBoard}"],.jp-LauncherCard:has([data-icon="${tensorBoardIcon.name}"])`;

/** The address that a command opens. */
function addressOf(command: string, browser: FileBrowser | null): string {
  const folder = (browser && FOLDERS[command]?.(browser)) ?? 'logs';
  const address = URLExt.join(PageConfig.getBaseUrl(), 'tensorboard/open');
  return address + URLExt.objectToQueryString({ path: folder });
}

/**
 * What a click on an element opens: a row of what runs, a menu's entry, a button above the files, the launcher's tile.
 * While one runs, a pointer anywhere in the launcher may be on its way to that tile.
 */
function boardBehind(element: Element, browser: FileBrowser | null): string | undefined {
  const found = element.closest<HTMLElement>(runningBoards.running().length ? `${BOARDS},.jp-Launcher` : BOARDS);
  const { context, command = CommandIDs.tensorBoard } = found?.dataset ?? {};
  return found ? (context ? boardAddress(context) : addressOf(command, browser)) : undefined;
}

function addTensorBoardCommands(app: JupyterFrontEnd, browser: Browser): void {
  // In a new tab, which gets no handle on this page.
  const run = (command: string) => (): void => {
    window.open(addressOf(command, browser()), '_blank', 'noopener');
    runningBoards.opened();
  };
  app.commands.addCommand(CommandIDs.tensorBoard, {
    label: 'TensorBoard',
    caption: 'Open TensorBoard for the selected folder, or for "logs"',
    icon: tensorBoardIcon,
    execute: run(CommandIDs.tensorBoard)
  });
  app.commands.addCommand(CommandIDs.tensorBoardHere, {
    label: 'Open TensorBoard Here',
    icon: tensorBoardIcon,
    execute: run(CommandIDs.tensorBoardHere)
  });
  app.commands.addCommand(CommandIDs.tensorBoardSelected, {
    label: 'TensorBoard',
    caption: 'Open TensorBoard for the selected folder',
    icon: tensorBoardIcon,
    isVisible: () => {
      const current = browser();
      return current !== null && selectedFolder(current) !== undefined;
    },
    execute: run(CommandIDs.tensorBoardSelected)
  });
}

/** A button above the files: with its name in Notebook 7, where the other buttons have one, as an icon in JupyterLab. */
function addToolbarButton(app: JupyterFrontEnd, toolbars: IToolbarWidgetRegistry): void {
  const label = PageConfig.getOption('notebookPage') ? 'TensorBoard' : '';
  toolbars.addFactory('FileBrowser', 'tensorboard', () => {
    const button = new CommandToolbarButton({ commands: app.commands, id: CommandIDs.tensorBoardSelected, label });
    button.addClass('dsportal-TensorBoardButton');
    return button;
  });
}

/** In each file browser: the toolbar asks for a command's visibility with each selection, and failures are told. */
function followBrowsers(app: JupyterFrontEnd, browsers: IFileBrowserFactory): void {
  const follow = (browser: FileBrowser): void => {
    tellUnlisted(browser);
    browser.selectionChanged.connect(() => app.commands.notifyCommandChanged(CommandIDs.tensorBoardSelected));
  };
  browsers.tracker.forEach(follow);
  browsers.tracker.widgetAdded.connect((_, browser) => follow(browser));
}

keepOwnToken(); // before JupyterLab asks for anything
keepToFiles();
drawNoCharts(); // before it has a renderer
leaveOutUnfinished();
readLongNotes();
linkNoCommands();
sayWhole(); // all of that is there

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:plugin',
  description: 'TensorBoard for a folder, and the notebook templates.',
  autoStart: true,
  // JupyterLab and each page of Notebook 7 have different parts: nothing is required.
  optional: [
    IFileBrowserFactory,
    IDefaultFileBrowser,
    IToolbarWidgetRegistry,
    ILauncher,
    IMainMenu,
    ICommandPalette,
    ILayoutRestorer
  ],
  activate: (
    app: JupyterFrontEnd,
    browsers: IFileBrowserFactory | null,
    defaultBrowser: IDefaultFileBrowser | null,
    toolbars: IToolbarWidgetRegistry | null,
    launcher: ILauncher | null,
    menu: IMainMenu | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const browser: Browser = () => browsers?.tracker.currentWidget ?? defaultBrowser;
    addTensorBoardCommands(app, browser);
    drawAhead(element => boardBehind(element, browser()));
    addArchive(app, browser);
    addTemplates(app, browser, restorer);
    if (browsers) {
      followBrowsers(app, browsers);
      takeUploads(browsers);
    }
    if (toolbars) {
      addToolbarButton(app, toolbars);
    }
    menu?.fileMenu.newMenu.addGroup([{ command: CommandIDs.tensorBoard }], 40);
    [CommandIDs.tensorBoard, TemplateIDs.catalogue].forEach((command, position) => {
      launcher?.add({ command, category: 'Other', rank: 0.1 + 0.1 * position }); // right behind the terminal
      palette?.addItem({ command, category: PALETTE });
    });
    if (defaultBrowser && PageConfig.getOption('notebookPage') === 'tree') {
      keepInNewMenu(defaultBrowser, CommandIDs.tensorBoard);
    }
  }
};

export default [
  plugin,
  documents,
  environments,
  firstLauncher,
  jobs,
  kernelTests,
  launcherRow,
  news,
  noChartTabs,
  ownLabels,
  plainPastes,
  sessionEnd,
  tensorBoards,
  timeLeft,
  unfinished,
  jobUsage,
  webTools,
  workspaceNames
];
