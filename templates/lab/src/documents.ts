import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token } from '@lumino/coreutils';

import { sayWhatIsOpen } from './whole';

const ANSWER_MS = 10000; // one that asks something first, as after a change on the disk, may take for ever

/** What a document of the page is kept by; of JupyterLab's DocumentRegistry.Context that which is needed here. */
type Context = {
  path: string;
  contentsModel: { path: string; type: string; writable?: boolean } | null;
  model: { dirty: boolean };
  save(): Promise<void>;
};

/** What became of the documents of this page when they were saved. */
export type Saving = { at: Date; saved: string[]; failed: { path: string; why: string }[] };

/** The documents that are open in this page. */
export class Documents {
  /** What the last saving came to; undefined when there was none. */
  last: Saving | undefined;

  constructor(private readonly _app: JupyterFrontEnd) {}

  /** The paths of those with changes that are not in their file. */
  changed(): string[] {
    return this._changed().map(context => context.path);
  }

  /** Save all that is changed, and keep what that came to. */
  async save(): Promise<Saving> {
    this.last = await this.saveOnly(() => true);
    return this.last;
  }

  /** Save what is changed and wanted; what needs an answer of the person first is not waited for. */
  async saveOnly(isWanted: (path: string) => boolean): Promise<Saving> {
    const saving: Saving = { at: new Date(), saved: [], failed: [] };
    const wanted = this._changed().filter(context => isWanted(context.path));
    await Promise.all(
      wanted.map(async context => {
        try {
          await saved(context);
          saving.saved.push(context.path);
        } catch (error) {
          saving.failed.push({ path: context.path, why: error instanceof Error ? error.message : String(error) });
        }
      })
    );
    return saving;
  }

  /** The path of the document that the person looks at; '' where it is none. */
  current(): string {
    return (this._app.shell.currentWidget as { context?: Context } | null)?.context?.path ?? '';
  }

  /**
   * As which of Jupyter's types a file is open in this page, which has read it: a notebook may be open as a text, too.
   * Not what it is saved as from now on.
   */
  openAs(path: string): string[] {
    const shown = this._all().map(context => (context.path === path ? context.contentsModel : null));
    return shown.filter(model => model?.path === path).map(model => model!.type);
  }

  private _changed(): Context[] {
    return this._all().filter(context => context.model?.dirty);
  }

  private _all(): Context[] {
    const widgets = Array.from(this._app.shell.widgets('main')) as { context?: Context }[];
    const contexts = new Set(widgets.map(widget => widget.context)); // one document may have several views
    return Array.from(contexts).filter(context => context?.path) as Context[];
  }
}

async function saved(context: Context): Promise<void> {
  if (context.contentsModel?.writable === false) {
    throw new Error('it may only be read here; save it under another name');
  }
  const late = new Promise<never>((_, fail) => {
    setTimeout(() => fail(new Error('it was not done within 10 s; see whether it asks something')), ANSWER_MS);
  });
  await Promise.race([context.save(), late]);
}

/** What a saving came to, in sentences; '' where there was nothing to do. */
export function wordsOf(saving: Saving): string {
  const sentences: string[] = [];
  if (saving.saved.length) {
    sentences.push(`Saved: ${saving.saved.join(', ')}.`);
  }
  if (saving.failed.length) {
    sentences.push(`Not saved: ${saving.failed.map(one => `${one.path} (${one.why})`).join(', ')}.`);
  }
  return sentences.join(' ');
}

export const IDocuments = new Token<Documents>('dsportal-lab:IDocuments', 'The documents that are open in the page.');

/** One for all parts of the extension: what was saved before the end is told after it. */
export const documents: JupyterFrontEndPlugin<Documents> = {
  id: 'dsportal-lab:documents',
  description: 'Saves the documents of the page, and knows what was saved.',
  autoStart: true,
  provides: IDocuments,
  activate: (app: JupyterFrontEnd): Documents => {
    const made = new Documents(app);
    sayWhatIsOpen(path => made.openAs(path));
    return made;
  }
};
