import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { Contents } from '@jupyterlab/services';

/** The folder where the notebook templates write their TensorBoard summaries. */
const LOGS = 'logs';

/** The one selected folder of a file browser, without the name of a drive; undefined when it is not just one folder. */
export function selectedFolder(browser: FileBrowser): string | undefined {
  const items = Array.from(browser.selectedItems());
  const [first] = items;
  return items.length === 1 && first?.type === 'directory' ? localPath(browser, first.path) : undefined;
}

/** The folder that a file browser shows. */
export function currentFolder(browser: FileBrowser): string {
  return localPath(browser, browser.model.path);
}

/**
 * The folder that TensorBoard is most likely wanted for: the selected one, or `logs` in the current one, or the
 * current one. The home folder as a whole is never meant: there it is `logs`, and the server says so if it is missing.
 */
export function likelyFolder(browser: FileBrowser): string {
  const here = currentFolder(browser);
  const hasLogs = Array.from(browser.model.items()).some(isLogs);
  return selectedFolder(browser) ?? (hasLogs || !here ? joined(here, LOGS) : here);
}

function isLogs(item: Contents.IModel): boolean {
  return item.name === LOGS && item.type === 'directory';
}

function joined(folder: string, name: string): string {
  return folder ? `${folder}/${name}` : name;
}

function localPath(browser: FileBrowser, path: string): string {
  return browser.model.manager.services.contents.localPath(path);
}
