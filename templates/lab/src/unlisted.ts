// JupyterLab (4.6) tells why a folder is not listed only where it is not there; else a double click does nothing.
import { Notification } from '@jupyterlab/apputils';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { ServerConnection } from '@jupyterlab/services';

const SHOWN_MS = 15000;

/** Says why a folder is not listed, in the server's words: once, however often the list of files asks again. */
export function tellUnlisted(browser: FileBrowser): void {
  let told = '';
  browser.model.connectionFailure.connect((_, error) => {
    const status = error instanceof ServerConnection.ResponseError ? error.response.status : 0;
    if ([400, 403, 413].includes(status) && error.message !== told) {
      told = error.message;
      Notification.error(told, { autoClose: SHOWN_MS });
    }
  });
  browser.model.refreshed.connect(() => (told = ''));
}
