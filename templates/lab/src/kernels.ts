import type { ILabShell, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { element } from './dom';
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
    const words = [tile.querySelector('.jp-LauncherCard-label p')?.textContent ?? '', found.summary];
    const title = [...words, ...(found.is_fault ? found.lines : [])].join('\n');
    tile.dataset.dsportalTest = found.is_fault ? 'fault' : 'good';
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

/** Shows in the launcher what was found of each kernel; Notebook 7 has none. */
export const kernelTests: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:kernels',
  description: 'Shows what the last test of each kernel found.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    void app.restored.then(async () => {
      const kernels = await testedKernels();
      if ('layoutModified' in app.shell) {
        follow(app.shell as ILabShell, kernels);
      }
    });
  }
};
