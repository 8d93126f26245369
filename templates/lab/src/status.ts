import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IStatusBar } from '@jupyterlab/statusbar';
import type { Widget } from '@lumino/widgets';

const TOP_RANK = 5000; // in Notebook 7: behind everything that its own pages have there

/** Puts a small item into the status bar, or where the page has none (Notebook 7) to the end of the top line. */
export function showStatus(
  app: JupyterFrontEnd,
  statusBar: IStatusBar | null,
  item: Widget,
  id: string,
  rank: number
): void {
  item.id = id.replace(':', '-');
  if (statusBar) {
    statusBar.registerStatusItem(id, { item, align: 'right', rank });
  } else {
    app.shell.add(item, 'top', { rank: TOP_RANK - rank });
  }
}
