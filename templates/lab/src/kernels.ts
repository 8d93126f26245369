import type { ILabShell, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import type { Menu } from '@lumino/widgets';

import { element } from './dom';
import { kernelOrder } from './kernelorder';
import { beforeNewMenu } from './newmenu';
import { ask } from './server';

/** What the last `portal kernels test` of a kernel found. */
export type Tested = { at: number; summary: string; lines: string[]; is_fault: boolean };

/** By the kernel's name; empty where the site keeps no tests. */
let asked: Promise<Record<string, Tested>> | undefined;

/** The tests of the site's kernels; asked for once in a page. */
export function testedKernels(): Promise<Record<string, Tested>> {
  asked ??= ask<{ kernels: Record<string, Tested> }>('kernels').then(
    answer => answer.kernels,
    () => ({})
  );
  return asked;
}

/** The name of the kernel that a tile of the launcher starts, by the address of its icon. */
function kernelOf(tile: Element): string {
  const icon = tile.querySelector<HTMLImageElement>('img.jp-Launcher-kernelIcon');
  const name = /\/kernelspecs\/([^/]+)\//.exec(icon?.src ?? '')?.[1];
  return name ? decodeURIComponent(name) : '';
}

/** Mark what starts a kernel, or take the mark away; answers the sentences. */
function show(node: HTMLElement, label: string, found: Tested | undefined): string {
  if (!found) {
    delete node.dataset.dsportalTest;
    return '';
  }
  node.dataset.dsportalTest = found.is_fault ? 'fault' : 'good';
  return [label, found.summary, ...(found.is_fault ? found.lines : [])].join('\n');
}

/** Let a label wrap behind its slashes, where Chromium does not. */
function wrapAtSlashes(label: Element | null): void {
  const parts = label?.textContent?.match(/[^/]+\/?|\//g) ?? [];
  if (label && parts.length > 1 && !label.querySelector('wbr')) {
    label.replaceChildren(...parts.flatMap((part, position) => (position ? [element('wbr'), part] : [part])));
  }
}

/** Mark the tiles of tested kernels: a tick or "!" in the corner, and the sentences while the pointer rests there. */
function mark(launcher: Element, kernels: Record<string, Tested>): void {
  for (const tile of launcher.querySelectorAll<HTMLElement>('.jp-LauncherCard')) {
    wrapAtSlashes(tile.querySelector('.jp-LauncherCard-label p'));
    const found = kernels[kernelOf(tile)];
    if (!found) {
      continue;
    }
    const title = show(tile, tile.querySelector('.jp-LauncherCard-label p')?.textContent ?? '', found);
    tile.title = title;
    tile.querySelector<HTMLElement>('.jp-LauncherCard-label')?.setAttribute('title', title);
  }
}

/** Marks each launcher, and again whenever JupyterLab has drawn it anew. */
function follow(shell: ILabShell, kernels: Record<string, Tested>): void {
  const followed = new WeakSet<Element>();
  const look = (): void => {
    for (const widget of shell.widgets('main')) {
      const { node } = widget;
      if (widget.id.startsWith('launcher') && !followed.has(node)) {
        followed.add(node);
        mark(node, kernels);
        new MutationObserver(() => mark(node, kernels)).observe(node, { childList: true, subtree: true });
      }
    }
  };
  shell.layoutModified.connect(look);
  look();
}

/** The kernel that an entry of Notebook 7's "New" menu starts; '' for another entry. */
function kernelIn(item: Menu.IItem | undefined): string {
  return item?.command === 'notebook:create-new' ? String(item.args.kernelName ?? '') : '';
}

/** The kernels of that menu by their titles; Notebook has them in the order of their names. */
function order(menu: Menu, names: string[]): void {
  const there = menu.items.filter(kernelIn);
  const wanted = [...there].sort((one, other) => names.indexOf(kernelIn(one)) - names.indexOf(kernelIn(other)));
  if (wanted.some((item, position) => item !== there[position])) {
    there.forEach(item => menu.removeItem(item));
    wanted.forEach(({ command, args }, position) => menu.insertItem(position, { command, args }));
  }
}

/** Mark the entries of that menu, and again when they are drawn: Lumino leaves alone what it has not set itself. */
function followMenu(menu: Menu, kernels: Record<string, Tested>): void {
  const look = (): void =>
    Array.from(menu.contentNode.children).forEach((child, position) => {
      const node = child as HTMLElement;
      const item = menu.items[position];
      node.title = show(node, item?.label ?? '', kernels[kernelIn(item)]);
    });
  new MutationObserver(look).observe(menu.contentNode, { characterData: true, childList: true, subtree: true });
  look();
}

/** Shows what was found of each kernel in the launcher, and in Notebook 7 in the "New" menu. */
export const kernelTests: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:kernels',
  description: 'Shows what the last test of each kernel found.',
  autoStart: true,
  optional: [IDefaultFileBrowser],
  activate: (app: JupyterFrontEnd, browser: IDefaultFileBrowser | null): void => {
    void app.restored.then(async () => {
      const kernels = await testedKernels();
      if ('layoutModified' in app.shell) {
        follow(app.shell as ILabShell, kernels);
      }
      if (browser && PageConfig.getOption('notebookPage') === 'tree') {
        const followed = new WeakSet<Menu>();
        beforeNewMenu(browser, menu => {
          order(menu, kernelOrder(app.serviceManager.kernelspecs.specs?.kernelspecs ?? {}));
          if (!followed.has(menu)) {
            followed.add(menu);
            followMenu(menu, kernels);
          }
        });
      }
    });
  }
};
