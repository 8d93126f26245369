import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CommandToolbarButton, ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { type FileBrowser, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';

import { addArchive } from './archive';
import { documents } from './documents';
import { sessionEnd } from './ended';
import { environments } from './environments';
import { firstLauncher } from './firstlauncher';
import { currentFolder, likelyFolder, selectedFolder } from './folders';
import { tensorBoardIcon } from './icons';
import { jobs } from './jobs';
import { kernelTests } from './kernels';
import { keepInNewMenu } from './newmenu';
import { news } from './news';
import { addTemplates, TemplateIDs } from './templates';
import { runningBoards, tensorBoards } from './tensorboards';
import { timeLeft } from './timeleft';
import { takeUploads } from './uploads';
import { jobUsage } from './usage';
import { webTools } from './webtools';

namespace CommandIDs {
  export const tensorBoard = 'dsportal:tensorboard';
  export const tensorBoardHere = 'dsportal:tensorboard-here';
  export const tensorBoardSelected = 'dsportal:tensorboard-selected';
}

const PALETTE = 'Data Scientist Portal';

/** Gives the file browser that a person works with, if the page has one. */
type Browser = () => FileBrowser | null;

/** Opens TensorBoard for a folder in a new tab, which gets no handle on this page. */
function openTensorBoard(folder: string): void {
  const address = URLExt.join(PageConfig.getBaseUrl(), 'tensorboard/open');
  window.open(address + URLExt.objectToQueryString({ path: folder }), '_blank', 'noopener');
  runningBoards.opened();
}

function addTensorBoardCommands(app: JupyterFrontEnd, browser: Browser): void {
  const run = (folderOf: (browser: FileBrowser) => string | undefined) => (): void => {
    const current = browser();
    openTensorBoard((current && folderOf(current)) ?? 'logs');
  };
  app.commands.addCommand(CommandIDs.tensorBoard, {
    label: 'TensorBoard',
    caption: 'Open TensorBoard for the selected folder, or for "logs"',
    icon: tensorBoardIcon,
    execute: run(likelyFolder)
  });
  app.commands.addCommand(CommandIDs.tensorBoardHere, {
    label: 'Open TensorBoard Here',
    icon: tensorBoardIcon,
    execute: run(here => selectedFolder(here) ?? currentFolder(here))
  });
  app.commands.addCommand(CommandIDs.tensorBoardSelected, {
    label: 'TensorBoard',
    caption: 'Open TensorBoard for the selected folder',
    icon: tensorBoardIcon,
    isVisible: () => {
      const current = browser();
      return current !== null && selectedFolder(current) !== undefined;
    },
    execute: run(selectedFolder)
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

/** The toolbar asks for a command's visibility when it changes: with each selection, in each file browser. */
function followSelection(app: JupyterFrontEnd, browsers: IFileBrowserFactory): void {
  const follow = (browser: FileBrowser): void => {
    browser.selectionChanged.connect(() => app.commands.notifyCommandChanged(CommandIDs.tensorBoardSelected));
  };
  browsers.tracker.forEach(follow);
  browsers.tracker.widgetAdded.connect((_, browser) => follow(browser));
}

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
    addArchive(app, browser);
    addTemplates(app, browser, restorer);
    if (browsers) {
      followSelection(app, browsers);
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
  news,
  sessionEnd,
  tensorBoards,
  timeLeft,
  jobUsage,
  webTools
];
