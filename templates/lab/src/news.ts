import { type JupyterFrontEnd, type JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { Token } from '@lumino/coreutils';
import { Poll } from '@lumino/polling';
import { Widget } from '@lumino/widgets';

import { ask } from './server';
import { share } from './words';

const ASK_MS = 120000;
const ASK_AFTER_FAILURES_MS = 600000;
const PUT_AWAY = 'dsportal-lab:announcement'; // the id of the one that this browser does not show again

/** How full one folder is, as the hub's own pages say it. */
export type Folder = {
  name: string;
  used_bytes: number | null;
  limit_bytes: number | null;
  is_nearly_full: boolean;
};

type Announcement = { id: string; text: string };
type Answer = { announcement: Announcement | null; folders: Folder[] };

/** What the hub has said last of the person's folders. */
export interface IFolders {
  readonly folders: Folder[];
}

export const IFolders = new Token<IFolders>('dsportal-lab:IFolders', 'How full the folders of the person are.');

/** The site's announcement, at the lower edge of the page until the person puts it away. */
class Banner extends Widget {
  private readonly _text = document.createElement('span');
  private _id = '';

  constructor() {
    super();
    this.id = 'dsportal-announcement';
    this.addClass('dsportal-Announcement');
    this._text.setAttribute('role', 'status');
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Put away';
    button.title = 'Do not show this announcement again';
    button.addEventListener('click', () => this._putAway());
    this.node.append(this._text, button);
    this.hide();
  }

  /** Show it, unless it was put away. */
  follow(announcement: Announcement | null): void {
    this._id = announcement?.id ?? '';
    this._text.textContent = announcement?.text ?? '';
    this.setHidden(announcement === null || window.localStorage.getItem(PUT_AWAY) === announcement.id);
  }

  private _putAway(): void {
    window.localStorage.setItem(PUT_AWAY, this._id);
    this.hide();
  }
}

/** Asks for both while the tab is seen, and warns once of each folder that is nearly full. */
class News implements IFolders {
  folders: Folder[] = [];
  private readonly _warned = new Set<string>();

  constructor(
    private readonly _banner: Banner,
    private readonly _isConnected: () => boolean
  ) {}

  /** Ask again and again, from now on. */
  follow(): void {
    new Poll({
      name: 'dsportal-lab:news',
      factory: () => this._ask(),
      frequency: { interval: ASK_MS, backoff: true, max: ASK_AFTER_FAILURES_MS },
      linger: 0,
      standby: 'when-hidden'
    });
  }

  private async _ask(): Promise<void> {
    if (this._isConnected()) {
      const answer = await ask<Answer>('news');
      this._banner.follow(answer.announcement);
      this.folders = answer.folders;
      answer.folders.forEach(folder => this._warn(folder));
    }
  }

  private _warn(folder: Folder): void {
    if (!folder.is_nearly_full) {
      this._warned.delete(folder.name);
    } else if (!this._warned.has(folder.name)) {
      this._warned.add(folder.name);
      const advice = 'What is written when it is full is lost: remove what you do not need.';
      Notification.warning(`Your folder "${folder.name}" is nearly full: ${wordsOf(folder)}. ${advice}`, {
        autoClose: false
      });
    }
  }
}

/** "45 of 100 GB". */
export function wordsOf(folder: Folder): string {
  return folder.used_bytes === null ? 'not known' : share(folder.used_bytes, folder.limit_bytes);
}

export const news: JupyterFrontEndPlugin<IFolders> = {
  id: 'dsportal-lab:news',
  description: "The site's announcement, and a warning of a folder that is nearly full.",
  autoStart: true,
  optional: [JupyterLab.IInfo], // Notebook 7 has none
  provides: IFolders,
  activate: (app: JupyterFrontEnd, info: JupyterLab.IInfo | null): IFolders => {
    const banner = new Banner();
    banner.toggleClass('dsportal-mod-lab', !PageConfig.getOption('notebookPage'));
    Widget.attach(banner, document.body); // the shells have no place for it that both pages share
    const found = new News(banner, () => info?.isConnected ?? true);
    void app.restored.then(() => found.follow()); // before that nothing shows a notification
    return found;
  }
};
