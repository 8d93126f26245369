import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, type MainAreaWidget, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { copyIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { words } from './dom';
import { galleryTab } from './gallery';
import { templatesIcon } from './icons';
import { ask } from './server';

export namespace TemplateIDs {
  export const catalogue = 'dsportal:templates';
  export const make = 'dsportal:template-new';
  export const compare = 'dsportal:template-compare';
  export const update = 'dsportal:template-update';
  export const reset = 'dsportal:template-reset';
}

/** Gives the file browser that a person works with, if the page has one. */
type Browser = () => FileBrowser | null;

type Session = { templates: string };
type Copy = { template: string; state: 'same' | 'yours' | 'newer' | 'both'; words: string; differences: string };
type Done = { words: string; path: string };

/** Does something and shows an error as the server says it. */
export async function told(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    // Without a time it would only be in the list of notifications, where nobody looks.
    Notification.error(words(error), { autoClose: 15000 });
  }
}

/** The folder of the catalogue, as the server names it; asked once. */
let folder: Promise<string> | undefined;

function catalogue(): Promise<string> {
  folder ??= ask<Session>('session').then(session => session.templates);
  folder.catch(() => (folder = undefined));
  return folder;
}

/** The name of the template in a file of the catalogue, `<framework>/<lesson>`; undefined for any other file. */
function templateOf(path: string, catalogueFolder: string): string | undefined {
  const parts = path.split('/');
  return parts.length === 3 && parts[0] === catalogueFolder && PathExt.extname(path) === '.ipynb'
    ? `${parts[1]}/${PathExt.basename(path, '.ipynb')}`
    : undefined;
}

/** Commands on templates and their copies, and the offer of a copy to who opens a template. */
class Templates {
  private _folder = 'templates';
  private _offered = new Set<string>();
  private _gallery: MainAreaWidget | undefined;
  private readonly _tracker = new WidgetTracker<MainAreaWidget>({ namespace: 'dsportal-gallery' });

  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _browser: Browser,
    restorer: ILayoutRestorer | null
  ) {
    void catalogue().then(
      found => (this._folder = found),
      () => undefined
    );
    this._addCommands();
    _app.shell.currentChanged?.connect((_, change) => this._offer(change.newValue));
    void restorer?.restore(this._tracker, { command: TemplateIDs.catalogue, name: () => 'gallery' });
  }

  private _addCommands(): void {
    const { commands } = this._app;
    commands.addCommand(TemplateIDs.catalogue, {
      label: 'Notebook Templates',
      caption: 'Show the notebooks that come with the portal and with this cluster',
      icon: templatesIcon,
      isEnabled: () => this._browser() !== null,
      execute: () => told(() => this._show())
    });
    commands.addCommand(TemplateIDs.make, {
      label: 'New from Template…',
      caption: 'Copy this template, with all that belongs to it, into a folder of yours',
      icon: copyIcon,
      isVisible: () => this._template() !== undefined,
      execute: () => told(() => this._make(this._template()))
    });
    const onCopies: [string, string, (path: string) => Promise<void>][] = [
      [TemplateIDs.compare, 'Compare with Template', path => this._compare(path)],
      [TemplateIDs.update, 'Update from Template', path => this._act(path, 'update')],
      [TemplateIDs.reset, 'Reset to Template…', path => this._reset(path)]
    ];
    for (const [id, label, act] of onCopies) {
      commands.addCommand(id, {
        label,
        isVisible: () => this._copy() !== undefined,
        execute: () => told(async () => act(this._copy() ?? ''))
      });
    }
  }

  /** The one path that is selected in the file browser, without the name of a drive. */
  private _selected(): string | undefined {
    const browser = this._browser();
    const items = browser ? Array.from(browser.selectedItems()) : [];
    const [first] = items;
    return browser && first && items.length === 1
      ? browser.model.manager.services.contents.localPath(first.path)
      : undefined;
  }

  private _template(): string | undefined {
    return templateOf(this._selected() ?? '', this._folder);
  }

  /** What may be a copy, or in one: whatever is not in the catalogue. The server knows whether it is. */
  private _copy(): string | undefined {
    const path = this._selected();
    return path?.split('/')[0] === this._folder ? undefined : path;
  }

  /** The gallery; the files of Notebook 7 have no place for it, and show the folder. */
  private async _show(): Promise<void> {
    const browser = this._browser();
    if (PageConfig.getOption('notebookPage')) {
      this._folder = await catalogue();
      await browser?.model.cd(`/${this._folder}`);
      return;
    }
    if (!this._gallery || this._gallery.isDisposed) {
      this._gallery = galleryTab({
        open: card => void told(() => this._open(card.path)),
        copy: card => void told(() => this._make(card.name))
      });
      await this._tracker.add(this._gallery);
    }
    if (!this._gallery.isAttached) {
      this._app.shell.add(this._gallery, 'main');
    }
    this._app.shell.activateById(this._gallery.id);
  }

  private async _open(path: string): Promise<void> {
    await this._app.commands.execute('filebrowser:open-path', { path });
  }

  /** Who opens a template is offered a copy, once: what is done in the catalogue is not saved. */
  private _offer(widget: Widget | null | undefined): void {
    const context = (widget as { context?: { path?: string } } | null | undefined)?.context;
    const name = templateOf(context?.path ?? '', this._folder);
    if (!name || this._offered.has(name)) {
      return;
    }
    this._offered.add(name);
    Notification.info(`${name} is a template: you can run it here, but it is not saved.`, {
      autoClose: 20000,
      actions: [{ label: 'New from Template', callback: () => void told(() => this._make(name)) }]
    });
  }

  private async _make(template: string | undefined): Promise<void> {
    if (!template) {
      return;
    }
    const given = await askForFolder(template, this._projects());
    if (given !== undefined) {
      const made = await ask<{ path: string }>('templates', {}, { template, folder: given });
      await this._open(made.path);
    }
  }

  /** The folder that is shown, or the first one where that is the catalogue's. */
  private _projects(): string {
    const browser = this._browser();
    const here = browser ? browser.model.manager.services.contents.localPath(browser.model.path) : '';
    return here.split('/')[0] === this._folder ? '' : here;
  }

  private async _compare(path: string): Promise<void> {
    const copy = await ask<Copy>('copy', { path });
    const body = new Widget();
    body.addClass('dsportal-Differences');
    const summary = document.createElement('p');
    summary.textContent = copy.words;
    const text = document.createElement('pre');
    text.tabIndex = 0; // so that it scrolls by keys
    text.textContent = copy.differences || 'The sources are the same.';
    body.node.append(summary, text);
    await showDialog({ title: `Compare with ${copy.template}`, body, buttons: [Dialog.okButton({ label: 'Close' })] });
  }

  private async _act(path: string, action: 'update' | 'reset'): Promise<void> {
    const done = await ask<Done>('copy', {}, { path, action });
    Notification.success(done.words, { autoClose: 10000 });
    await this._browser()?.model.refresh();
  }

  private async _reset(path: string): Promise<void> {
    const copy = await ask<Copy>('copy', { path });
    const answer = await showDialog({
      title: `Reset to ${copy.template}?`,
      body: 'It becomes as the template is now. What you changed, and the outputs of a run, are kept beside it.',
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Reset' })]
    });
    if (answer.button.accept) {
      await this._act(path, 'reset');
    }
  }
}

/** Adds the commands, and the offer. */
export function addTemplates(app: JupyterFrontEnd, browser: Browser, restorer: ILayoutRestorer | null): void {
  new Templates(app, browser, restorer);
}

/** The folder that a person wants a copy in; undefined when there is to be none. */
async function askForFolder(template: string, proposed: string): Promise<string | undefined> {
  const body = new FolderInput(proposed);
  const answer = await showDialog({
    title: `New from ${template}`,
    body,
    focusNodeSelector: 'input',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Create' })]
  });
  return answer.button.accept ? (answer.value ?? undefined) : undefined;
}

class FolderInput extends Widget implements Dialog.IBodyWidget<string> {
  private readonly _input = document.createElement('input');
  private readonly _shown: string;

  constructor(private readonly _proposed: string) {
    super();
    this.addClass('dsportal-FolderInput');
    const label = document.createElement('label');
    label.textContent = 'In which folder of yours? (empty: your home)';
    this._input.className = 'jp-mod-styled';
    this._input.value = _proposed;
    this._shown = this._input.value; // which has no line feed that the folder's name may have
    label.append(this._input);
    const hint = document.createElement('p');
    hint.textContent = 'The copy, with all that belongs to it, gets a folder of its own there.';
    this.node.append(label, hint);
  }

  getValue(): string {
    return this._input.value === this._shown ? this._proposed : this._input.value.trim();
  }
}
