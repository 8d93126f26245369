import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  IToolbarWidgetRegistry,
  Notification,
  showDialog,
  ToolbarButton
} from '@jupyterlab/apputils';
import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import { type FileBrowser, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { listIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { type Documents, IDocuments, isSame, wordsOf } from './documents';
import { button, words } from './dom';
import { showLog } from './followedlog';
import { jobIcon } from './icons';
import { askForOrder, type Order } from './jobform';
import { keepInNewMenu } from './newmenu';
import { ask, remove } from './server';
import { told } from './templates';

type Job = {
  id: string;
  name: string;
  phase: 'waiting' | 'running' | 'ended' | 'unknown';
  words: string;
  starts_at: string | null;
  output_path: string;
};

type Acts = { log: (job: Job) => void; open: (job: Job) => void; cancel: (job: Job) => void; submit: () => void };

const SUBMIT = 'dsportal:job-submit';
const SHOW = 'dsportal:jobs';
const EVERY_MS = 15_000; // each look is a squeue of this person's
const SELDOM_MS = 60_000; // while nothing changes
const RUNNABLE = ['.ipynb', '.py', '.sh', '.job']; // what `portal job submit` takes
const ONE_JOB = /^\d+(_\d+)?$/; // what waits of an array is shown as one line, 12_[3-9]

/** My jobs; asks only while somebody sees it. */
class JobsPanel extends Widget {
  private readonly _list = document.createElement('ul');
  private readonly _state = document.createElement('p');
  private _timer = 0;
  private _shown = '';
  private _wait = EVERY_MS;

  constructor(private readonly _acts: Acts) {
    super();
    this.id = 'dsportal-jobs';
    this.title.icon = listIcon;
    this.title.caption = 'Jobs';
    this.addClass('dsportal-Panel');
    this.addClass('dsportal-Jobs');
    const title = document.createElement('h2');
    title.textContent = 'Jobs';
    this._state.setAttribute('role', 'status');
    this.node.append(title, button('Run a file as a job…', '', () => this._acts.submit()), this._state, this._list);
    document.addEventListener('visibilitychange', () => this.isVisible && !document.hidden && void this._lookAnew());
  }

  protected override onAfterShow(): void {
    void this._lookAnew();
  }

  protected override onBeforeHide(): void {
    window.clearTimeout(this._timer);
  }

  /** Ask for the jobs now, and then again: the less often, the longer they are the same. */
  async look(): Promise<void> {
    const before = this._shown;
    await this._ask();
    this._wait = this._shown === before ? Math.min(2 * this._wait, SELDOM_MS) : EVERY_MS;
    window.clearTimeout(this._timer);
    if (this.isVisible) {
      this._timer = window.setTimeout(() => void this.look(), this._wait);
    }
  }

  /** Somebody looks again: what is the same is no reason to wait longer. */
  private async _lookAnew(): Promise<void> {
    this._wait = EVERY_MS / 2;
    await this.look();
  }

  /** Draw the jobs where they are others than before: a button that has the focus keeps it. */
  private async _ask(): Promise<void> {
    if (document.hidden || !this.isVisible) {
      return;
    }
    try {
      const { jobs } = await ask<{ jobs: Job[] }>('jobs');
      const text = JSON.stringify(jobs);
      if (text !== this._shown) {
        this._shown = text;
        this._list.replaceChildren(...jobs.map(job => this._item(job)));
      }
      this._state.textContent = jobs.length ? '' : 'You have no jobs.';
    } catch (error) {
      this._state.textContent = words(error);
    }
  }

  private _item(job: Job): HTMLLIElement {
    const item = document.createElement('li');
    item.dataset.job = job.id;
    item.dataset.phase = job.phase;
    const name = document.createElement('strong');
    name.textContent = `${job.name} (${job.id})`;
    const said = document.createElement('p');
    said.textContent = job.words + expected(job);
    const buttons = document.createElement('div');
    const about = `of job ${job.id}, ${job.name}`;
    if (ONE_JOB.test(job.id)) {
      buttons.append(button('Log', about, () => this._acts.log(job)));
    }
    if (job.output_path) {
      buttons.append(button('Output', about, () => this._acts.open(job)));
    }
    if (job.phase !== 'ended') {
      buttons.append(button('Cancel…', about, () => this._acts.cancel(job)));
    }
    item.append(name, said, buttons);
    return item;
  }
}

function expected(job: Job): string {
  return job.phase === 'waiting' && job.starts_at
    ? `; Slurm expects it to start at ${new Date(job.starts_at).toLocaleString()}`
    : '';
}

/** The one file that is selected, without the name of a drive. */
function selectedFile(browser: FileBrowser | null): string {
  const [first] = browser ? Array.from(browser.selectedItems()) : [];
  return browser && first && first.type !== 'directory'
    ? browser.model.manager.services.contents.localPath(first.path)
    : '';
}

/** The document that the person looks at, where it is one that a job can run. */
function openFile(documents: Documents): string {
  const path = documents.current();
  return RUNNABLE.includes(PathExt.extname(path)) ? path : '';
}

/** Asks for the job of a file and submits it; undefined when there is to be none. */
async function submit(file: string, documents: Documents): Promise<string | undefined> {
  const note = (): string => {
    const isChanged = documents.changed().some(path => isSame(path, file));
    return isChanged ? `${file} has changes: it is saved before the job is submitted.` : '';
  };
  return askForOrder(file, note, order => send(order, documents));
}

/** Submits a job, with its file saved first. Asked about that, a person may load what somebody else has saved. */
async function send(order: Order, documents: Documents): Promise<string> {
  const file = String(order.file);
  const before = JSON.stringify(documents.shown(file));
  const saving = await documents.saveOnly(path => isSame(path, file));
  if (saving.failed.length) {
    throw new Error(`No job is submitted. ${wordsOf(saving)}`);
  }
  const shown = documents.shown(file);
  if (JSON.stringify(shown) !== before) {
    throw new Error(`No job is submitted: ${file} shows something else now. Look at it first, then submit it again.`);
  }
  // A session that is older than this page knows no such word.
  const made = await ask<{ id: string }>('jobs', {}, shown.length ? { ...order, shown } : order);
  return `Job ${made.id} is submitted. ${wordsOf(saving)}`;
}

/** What the buttons of the panel do. */
function actsOf(app: JupyterFrontEnd, look: () => Promise<void>): Acts {
  const cancel = async (job: Job): Promise<void> => {
    const id = ONE_JOB.test(job.id) ? job.id : job.id.split('_')[0];
    const answer = await showDialog({
      title: `Cancel job ${id}?`,
      body: `${job.name} ${job.words}.`,
      buttons: [Dialog.cancelButton({ label: 'Keep it' }), Dialog.warnButton({ label: 'Cancel the job' })]
    });
    if (answer.button.accept) {
      await remove(`jobs/${id}`);
      await look();
    }
  };
  return {
    log: ({ id }) =>
      showLog(app, {
        address: `jobs/${id}/log`,
        id: `job-${id}`,
        title: `Log of job ${id}`,
        icon: listIcon,
        ended: 'The job has ended.'
      }),
    open: job => void told(() => app.commands.execute('filebrowser:open-path', { path: job.output_path })),
    cancel: job => void told(() => cancel(job)),
    submit: () => void app.commands.execute(SUBMIT)
  };
}

/** Jobs of one's own: the panel, and the command that runs a file. */
export const jobs: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:jobs',
  description: 'Runs a notebook or a script as a Slurm job, and shows the jobs of who works here.',
  autoStart: true,
  requires: [IDocuments],
  optional: [
    IFileBrowserFactory,
    IDefaultFileBrowser,
    ILauncher,
    ICommandPalette,
    ILayoutRestorer,
    IToolbarWidgetRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    documents: Documents,
    browsers: IFileBrowserFactory | null,
    defaultBrowser: IDefaultFileBrowser | null,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    toolbars: IToolbarWidgetRegistry | null
  ): void => {
    const run = (file: string): Promise<void> =>
      told(async () => {
        const said = await submit(file, documents);
        if (said) {
          Notification.success(said, { autoClose: 10000 });
          app.shell.activateById(panel.id);
          await panel.look();
        }
      });
    const panel: JobsPanel = new JobsPanel(actsOf(app, () => panel.look()));
    app.shell.add(panel, 'left', { rank: 300 });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(SHOW, {
      label: 'Jobs',
      caption: 'Show your Slurm jobs',
      icon: listIcon,
      execute: () => app.shell.activateById(panel.id)
    });
    app.commands.addCommand(SUBMIT, {
      label: 'Run as a Slurm Job…',
      caption: 'Run a notebook or a script as a Slurm job, which goes on without this session',
      icon: jobIcon,
      // In a menu of the files it is about these; the palette is about what the person looks at.
      execute: args => {
        const files = [openFile(documents), selectedFile(browsers?.tracker.currentWidget ?? defaultBrowser)];
        return run((args.open ? files : files.reverse()).find(Boolean) ?? '');
      }
    });
    toolbars?.addFactory('Notebook', 'dsportal-job', (notebook: { context: { path: string } } & Widget) => {
      const onClick = (): void => void run(notebook.context.path);
      return new ToolbarButton({ icon: jobIcon, tooltip: 'Run as a Slurm job', onClick });
    });
    launcher?.add({ command: SUBMIT, category: 'Other', rank: 0.3 });
    [SUBMIT, SHOW].forEach(command =>
      palette?.addItem({ command, category: 'Data Scientist Portal', args: { open: true } })
    );
    if (defaultBrowser && PageConfig.getOption('notebookPage') === 'tree') {
      keepInNewMenu(defaultBrowser, SUBMIT);
    }
  }
};
