import type { FileBrowser } from '@jupyterlab/filebrowser';
import { type Menu, MenuBar } from '@lumino/widgets';

/**
 * Changes the "New" menu above the files of Notebook 7 just before it opens, by mouse or by key: only then is its
 * content settled, for Notebook fills it anew when the list of kernels changes. Notebook 7.6 offers no other way in: the
 * menu is only reachable as the menu bar in the toolbar of the file browser.
 */
export function beforeNewMenu(browser: FileBrowser, change: (menu: Menu) => void): void {
  const act = (): void => {
    const menu = newMenu(browser);
    if (menu) {
      change(menu);
    }
  };
  browser.toolbar.node.addEventListener('pointerdown', act, true);
  browser.toolbar.node.addEventListener('keydown', act, true);
}

/** Adds a command to that menu. */
export function keepInNewMenu(browser: FileBrowser, command: string): void {
  beforeNewMenu(browser, menu => {
    if (!menu.items.some(item => item.command === command)) {
      menu.addItem({ command });
      keepOnScreen(menu);
    }
  });
}

/** Notebook opens this menu at its button even where the name of a kernel is too long to fit there. */
function keepOnScreen(menu: Menu): void {
  menu.open = (x, y, options) => Object.getPrototypeOf(menu).open.call(menu, x, y, { ...options, forceX: false });
}

function newMenu(browser: FileBrowser): Menu | undefined {
  const bars = Array.from(browser.toolbar.children()).filter(widget => widget instanceof MenuBar);
  return bars[0]?.menus[0];
}
