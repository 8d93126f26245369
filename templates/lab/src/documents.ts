import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token } from '@lumino/coreutils';

import { sayWhatIsOpen } from './whole';

const ANSWER_MS = 10000; // one that asks something first, as after a change on the disk, may take for ever

/** What a document of the page is kept by; of JupyterLab's DocumentRegistry.Context that which is needed here. */
type Context = {
  path: string;
  contentsModel: { path: string; writable?: boolean } | null;
  model: { dirty: boolean; cells?: unknown; toString(): string; toJSON(): unknown };
  isDisposed: boolean;
  save(): Promise<void>;
};

/** What of a notebook makes what runs. */
type Notebook = {
  metadata: { kernelspec?: unknown; language_info?: unknown };
  cells: { cell_type: string; source: string; metadata: { tags?: unknown } }[];
};

/** What became of the documents of this page when they were saved. */
export type Saving = { at: Date; saved: string[]; failed: { path: string; why: string }[] };

/** The documents that are open in this page. */
export class Documents {
  /** What the last saving came to; undefined when there was none. */
  last: Saving | undefined;

  private readonly _contexts = new Set<Context>();

  constructor(private readonly _app: JupyterFrontEnd) {
    const { docRegistry } = _app;
    for (const factory of docRegistry.widgetFactories()) {
      this._follow(factory.name);
    }
    docRegistry.changed.connect((_, { type, change, name }) => {
      if (type === 'widgetFactory' && change === 'added' && name) {
        this._follow(name);
      }
    });
  }

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
   * Whether a file is open in this page, which has read it, or reads it twice: not what it is saved as from now on.
   * However its path is written: a link may lead to one with a slash more.
   */
  isOpen(path: string): boolean {
    const here = this._all().filter(context => isSame(context.path, path));
    return here.length > 1 || here.some(context => isSame(context.contentsModel?.path, path));
  }

  /** What the documents of a file show: of each its text, or of a notebook what runs. */
  shown(path: string): unknown[] {
    const here = this._all().filter(context => context.contentsModel && isSame(context.path, path));
    return here.map(({ model }) => (model.cells ? whatRuns(model.toJSON() as Notebook) : model.toString()));
  }

  private _changed(): Context[] {
    return this._all().filter(context => context.model?.dirty);
  }

  /** One may be in a sidebar, too; and a file may be a notebook and a text at once. */
  private _all(): Context[] {
    const gone = Array.from(this._contexts).filter(context => context.isDisposed);
    gone.forEach(context => this._contexts.delete(context));
    return Array.from(this._contexts).filter(context => context.path);
  }

  private _follow(factory: string): void {
    this._app.docRegistry.addWidgetExtension(factory, {
      createNew: (_, context) => void this._contexts.add(context)
    });
  }
}

function whatRuns({ metadata: { kernelspec, language_info }, cells }: Notebook): Notebook {
  return {
    metadata: { kernelspec, language_info },
    cells: cells.map(({ cell_type, source, metadata: { tags } }) => ({ cell_type, source, metadata: { tags } }))
  };
}

/** Whether two paths are those of one file, as the session's server reads them. */
export function isSame(one: string | undefined, other: string): boolean {
  const parts = (path: string): string => path.split('/').filter(part => part && part !== '.').join('/');
  return one !== undefined && parts(one) === parts(other);
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
    sayWhatIsOpen(path => made.isOpen(path));
    return made;
  }
};
