import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import type { FileBrowser } from '@jupyterlab/filebrowser';

import { selectedFolder } from './folders';
import { ask } from './server';

export const ARCHIVE = 'dsportal:archive';

/** Has the browser download a folder as one file; says why where it cannot be. */
async function download(folder: string): Promise<void> {
  try {
    const { name } = await ask<{ name: string }>('archive', { path: folder, look: '1' });
    const link = document.createElement('a');
    const address = URLExt.join(PageConfig.getBaseUrl(), 'dsportal/api/archive');
    link.href = address + URLExt.objectToQueryString({ path: folder });
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
  } catch (error) {
    Notification.error((error as Error).message, { autoClose: false });
  }
}

/** The entry of a folder's menu. */
export function addArchive(app: JupyterFrontEnd, browser: () => FileBrowser | null): void {
  const folder = (): string | undefined => {
    const current = browser();
    return current ? selectedFolder(current) : undefined;
  };
  app.commands.addCommand(ARCHIVE, {
    label: 'Download as an Archive',
    caption: 'Download the folder as one file (.tar.gz)',
    isVisible: () => folder() !== undefined,
    execute: () => {
      const chosen = folder();
      return chosen === undefined ? undefined : download(chosen);
    }
  });
}
