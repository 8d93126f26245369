import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Workspace } from '@jupyterlab/services';

/** What a browser reads as a way to another address; it drops line ends and tabs, and `\` is a `/` to it. */
const LEADS_ELSEWHERE = /[%\\\x00-\x1f]|(^|\/)\.\.?(\/|$)/;
/** What JupyterLab (4.6) opens a workspace's file with: it saves the layout by the name in the file, and goes there. */
const LOADER = 'Workspace loader';
const IMPORT = 'workspace-ui:import';
const NO_NAME = 'This workspace was not loaded: what its file gives as its name is an address.';
const LONGEST = 60;

type Workspaces = Workspace.IManager;
type Found = Workspace.IWorkspace;

/**
 * Keeps the names in a workspace's file names, whoever wrote it: of the workspace, and of its terminals. JupyterLab
 * (4.6) makes addresses of them. And opens no file before the person says so, nor saves it over another workspace.
 */
export const workspaceNames: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:workspace-names',
  description: 'Refuses workspaces, and terminals in them, whose name is an address; asks before a file is opened.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    const { terminals, workspaces } = app.serviceManager;
    const save = workspaces.save.bind(workspaces);
    workspaces.save = async (name, workspace) => {
      check(name, NO_NAME);
      await save(name, workspace);
    };
    const start = terminals.startNew.bind(terminals);
    terminals.startNew = async options => {
      check(options?.name ?? '', 'A terminal of this workspace was not opened: its name is an address.');
      return start(options);
    };
    guardLoader(app);
    guardImport(app);
  }
};

/** Has JupyterLab's own loader wait for an answer. It comes before this plugin or after it. */
function guardLoader({ docRegistry, serviceManager }: JupyterFrontEnd): void {
  const guard = (): boolean => {
    const loader = docRegistry.getWidgetFactory(LOADER);
    if (loader === undefined) return false;
    const create = loader.createNew.bind(loader);
    loader.createNew = (context, source) => {
      const widget = create(whenAsked(context, serviceManager.workspaces), source);
      void Promise.all([context.ready]).then(() => widget.dispose()); // as JupyterLab does, which shows nothing of it
      return widget;
    };
    return true;
  };
  if (guard()) return;
  const later = (): void => {
    if (guard()) docRegistry.changed.disconnect(later);
  };
  docRegistry.changed.connect(later);
}

/** The same document, which is ready when the person wants it, and never else; with a name that is free. */
function whenAsked(context: DocumentRegistry.Context, workspaces: Workspaces): DocumentRegistry.Context {
  let file: Found | null = null;
  const ready = context.ready.then(async () => {
    file = await told(ask(context, workspaces)).catch(() => null);
    if (file === null) await new Promise(() => undefined);
  });
  const model = Object.create(context.model, { toJSON: { value: () => file } });
  return Object.create(context, { ready: { value: ready }, model: { value: model }, contentsModel: { value: null } });
}

async function ask(context: DocumentRegistry.Context, workspaces: Workspaces): Promise<Found | null> {
  const { path } = context;
  const file = context.model.toJSON() as unknown as Found;
  const name = nameIn(file);
  const { ids } = await workspaces.list();
  const free = freeName(name, ids);
  const isSaved = ids.some(id => id.replace(/^\/+/, '') === name);
  const words = `The tabs, consoles and terminals of "${path}" open as the workspace "${free}".`;
  const { button } = await showDialog({
    title: 'Open this workspace?',
    body: isSaved ? `${words} There is one called "${name}": Replace puts this one in its place.` : words,
    buttons: [
      Dialog.cancelButton(),
      ...(isSaved ? [Dialog.warnButton({ label: 'Replace' })] : []),
      Dialog.okButton({ label: 'Open' })
    ],
    defaultButton: 0
  });
  if (!button.accept) return null;
  return called(file, button.displayType === 'warn' ? name : free);
}

/** Saves what is imported by a name that is free. The command alone asks for the manager when it needs it. */
function guardImport({ commands, serviceManager }: JupyterFrontEnd): void {
  const { workspaces } = serviceManager;
  commands.commandExecuted.connect((_, { id, result }) => {
    if (id !== IMPORT) return;
    const services = serviceManager as { workspaces: Workspaces };
    const take = async (file: Found): Promise<void> => {
      const name = freeName(nameIn(file), (await workspaces.list()).ids);
      await workspaces.save(name, called(file, name));
      Notification.info(`Imported as the workspace "${name}".`);
    };
    const save: Workspaces['save'] = (_name, file) => told(take(file));
    services.workspaces = Object.create(workspaces, { save: { value: save } });
    const done = (): void => {
      services.workspaces = workspaces;
    };
    void result.then(done, done);
  });
}

/** What a file calls its workspace, in the letters that JupyterLab itself takes for one. */
function nameIn(file: Found): string {
  const name = String(file.metadata.id);
  if (LEADS_ELSEWHERE.test(name)) throw new Error(NO_NAME);
  return name.replace(/^\/+/, '').replace(/[^\w-]+/g, '-').slice(0, LONGEST) || 'workspace';
}

function freeName(name: string, saved: string[]): string {
  const taken = new Set(saved.map(place));
  let free = name;
  for (let number = 2; taken.has(place(free)); number++) free = `${name}-${number}`;
  return free;
}

/** What is left of a name where jupyterlab_server (2.28) keeps a workspace; there some names share one file. */
function place(name: string): string {
  return name.normalize('NFKC').toLowerCase().replace(/[^a-z0-9_]+/g, '');
}

function called(file: Found, id: string): Found {
  return { ...file, metadata: { ...file.metadata, id } };
}

/** The same work; where it fails the page says why. */
async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (reason) {
    Notification.error((reason as Error).message, { autoClose: false });
    throw reason;
  }
}

function check(name: string, words: string): void {
  if (LEADS_ELSEWHERE.test(name)) {
    Notification.error(words, { autoClose: false });
    throw new Error(words);
  }
}
