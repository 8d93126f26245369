import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { shouldOverwrite } from '@jupyterlab/docmanager';
import type { FileBrowser, FileBrowserModel, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { element, words } from './dom';

const LARGE = 15 * 1024 * 1024; // bytes above which JupyterLab asks whether one really wants to
const PART_MIN = 128 * 1024;
const PART_FIRST = 8 * PART_MIN;
const PART_MAX = 32 * PART_FIRST;
const PART_MS = 1000; // so long shall a part take
const NAME_MAX = 48; // a notification shows 140 letters
const RATE_OVER = 0.3; // weight of the newest part in the rate
const RETRY_MAX_MS = 15000;
const AWAY = [423, 424, 502, 503, 504]; // another request, the proxy or the session: it goes on by itself
const TOO_LARGE = 413;
const TOGETHER_MS = 300; // a note that changes before it is drawn keeps its old words (JupyterLab 4.6)

class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly offset: number | null
  ) {
    super(message);
  }
}

interface IState {
  offset: number;
  exists: boolean;
}

const NOTHING: IState = { offset: 0, exists: false };

/**
 * One file on its way; what it says of a large one stands in a notification with its buttons.
 *
 * A small one is not told of while it goes well, and where it cannot be uploaded its error ends it.
 */
class Upload {
  constructor(
    private file: File,
    private path: string
  ) {
    this.name = short(file.name);
    this.isLarge = file.size > LARGE;
    this.isNew = !this.isLarge;
  }

  /** Sends it; false where the person does not want it any more. */
  async run(): Promise<boolean> {
    const warn = (event: BeforeUnloadEvent): void => event.preventDefault(); // of its own: others go on beside it
    addEventListener('beforeunload', warn);
    try {
      return await this.goOn();
    } finally {
      removeEventListener('beforeunload', warn);
    }
  }

  private async goOn(): Promise<boolean> {
    for (;;) {
      try {
        if (this.wanted !== 'cancel' && (await this.sent())) {
          if (this.isLarge) {
            this.show('success', `${this.name} is uploaded`);
          } else {
            Notification.dismiss(this.shown);
          }
          return true;
        }
      } catch (error) {
        if (!this.wanted && (await this.goesOn(error)) && !this.wanted) {
          continue;
        }
      }
      if (this.wanted === 'cancel') {
        await this.forget();
        return false;
      }
      if (this.fault && !this.isLarge) {
        await this.ask('DELETE').catch(() => undefined);
        Notification.dismiss(this.shown);
        throw new Error(/^.+?\.(?= [A-Z\d]|$)/.exec(this.fault)?.[0] ?? this.fault); // the rest is for who goes on
      }
      this.show(this.fault ? 'error' : 'default', `${this.name}: ${this.fault || 'paused'}`);
      await this.rest();
    }
  }

  /** Takes away what was sent, and tells where that is refused; what a silent session keeps, the next upload removes. */
  private async forget(): Promise<void> {
    const error: unknown = await this.ask('DELETE').then(
      () => null,
      why => why
    );
    const isKept = error instanceof Refusal && !AWAY.includes(error.status);
    const message = isKept ? `${this.name}: ${words(error)}` : '';
    if (!message) {
      Notification.dismiss(this.shown);
    } else if (!Notification.update({ id: this.shown, message, type: 'error', actions: [] })) {
      Notification.error(message, { autoClose: false });
    }
  }

  /** Waits where it goes on by itself after an error; false where the person has to do something. */
  private async goesOn(error: unknown): Promise<boolean> {
    const refusal = error instanceof Refusal ? error : null;
    if (!refusal && !(await this.file.slice(0, 1).arrayBuffer().catch(() => null))) {
      this.wanted = 'pause';
      this.fault = 'The file has changed on your disk, or is not there any more. Cancel, and choose it again.';
      return false;
    }
    if (refusal && (refusal.offset != null || refusal.status === 412)) {
      this.isThere = this.isNew = false;
      await this.rest(PART_MS / 2);
      return true;
    }
    if (refusal?.status === TOO_LARGE && this.part > PART_MIN) {
      this.partMax = Math.max(PART_MIN, this.part / 2); // a web server in front takes no more at a time
      this.part = this.partMax;
      return true;
    }
    if (refusal ? !AWAY.includes(refusal.status) : !(error instanceof ServerConnection.NetworkError)) {
      this.wanted = 'pause';
      this.fault = words(error);
      return false;
    }
    this.part = Math.min(this.part, PART_FIRST); // where a web server in front holds it, all of a part is lost
    const why = refusal?.status === 423 ? refusal.message : 'The session does not answer.';
    this.show('in-progress', `${this.name}: ${why} It goes on by itself.`);
    await this.rest((this.away = Math.min(2 * this.away, RETRY_MAX_MS)));
    return true;
  }

  /** Sends from where it was; false where the person wants something else. */
  private async sent(): Promise<boolean> {
    if (!this.isThere && !(await this.sentAll())) {
      return false;
    }
    this.isThere = true; // asked once more after a lost answer, the server says the same
    if (this.isLarge) {
      this.show('in-progress', `${this.name}: all is there, and is written to the disk`);
    }
    await this.ask('POST');
    return true;
  }

  private async sentAll(): Promise<boolean> {
    const { exists, ...found } = this.isNew ? NOTHING : ((await (await this.ask('GET')).json()) as IState);
    if (exists && !this.replace) {
      this.replace = await shouldOverwrite(this.file.name);
      if (!this.replace) {
        this.wanted = 'cancel';
      }
    } else if (found.offset < this.sentTo) {
      this.sentTo = 0;
      this.wanted = 'pause';
      this.fault = 'What was sent is gone. Look at that folder, then resume from the beginning, or cancel.';
      return false;
    }
    let offset = (this.sentTo = found.offset);
    while (offset < this.file.size && !this.wanted) {
      this.tell(offset);
      const began = performance.now();
      const body = this.file.slice(offset, offset + this.part);
      const next = ((await (await this.ask('PATCH', body, offset)).json()) as IState).offset;
      this.away = 500;
      const took = Math.max(performance.now() - began, 1);
      const rate = (1000 * (next - offset)) / took;
      this.rate = this.rate ? this.rate + RATE_OVER * (rate - this.rate) : rate;
      this.part = Math.round(Math.min(this.partMax, Math.max(PART_FIRST, (rate * PART_MS) / 1000)));
      offset = this.sentTo = next;
    }
    return !this.wanted;
  }

  private tell(offset: number): void {
    const { size } = this.file;
    if (!this.isLarge) {
      return;
    }
    const parts = [`${this.name}: ${inWords(offset)} of ${inWords(size)}`];
    if (this.rate) {
      parts.push(`${inWords(this.rate)}/s`, `${timeInWords((size - offset) / this.rate)} left`);
    }
    this.show('in-progress', parts.join(', '), offset / size);
  }

  private show(type: Notification.TypeOptions, message: string, progress?: number): void {
    const over = type === 'success';
    const act = (label: string, wanted: '' | 'pause' | 'cancel'): Notification.IAction => ({
      label,
      callback: event => {
        event.preventDefault(); // the notification stays
        this.wanted = wanted;
        this.fault = '';
        this.stop.abort();
        this.stop = new AbortController();
        this.wake();
      }
    });
    const actions = over ? [] : [this.wanted ? act('Resume', '') : act('Pause', 'pause'), act('Cancel', 'cancel')];
    const options = { autoClose: over ? 5000 : (false as const), actions, progress };
    if (!Notification.update({ id: this.shown, message, type, ...options })) {
      this.shown = Notification.emit(message, type, options);
    }
  }

  /** Waits until a button is pressed, or for some time. */
  private rest(ms?: number): Promise<void> {
    return new Promise(resolve => {
      this.wake = resolve;
      if (ms) {
        setTimeout(resolve, ms);
      }
    });
  }

  private async ask(method: string, body?: Blob, offset?: number): Promise<Response> {
    const settings = ServerConnection.makeSettings();
    const { name, size, lastModified } = this.file;
    const query = { path: PathExt.join(this.path, name), size, stamp: lastModified, replace: this.replace ? 1 : 0 };
    const init: RequestInit = { method, body };
    if (body) {
      init.signal = this.stop.signal;
      init.headers = { 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(offset) };
    }
    const address = URLExt.join(settings.baseUrl, 'dsportal/api/upload') + URLExt.objectToQueryString(query);
    const response = await ServerConnection.makeRequest(address, init, settings);
    if (!response.ok) {
      const said = (await response.json().catch(() => ({}))) as { message?: string; offset?: number };
      const message = said.message?.replace(`${name} `, 'it '); // its name stands before that
      throw new Refusal(response.status, message || response.statusText, said.offset ?? null);
    }
    return response;
  }

  private away = 500;
  private fault = '';
  private isLarge: boolean;
  private isNew: boolean; // as long as nobody has said otherwise
  private isThere = false;
  private name: string;
  private part = PART_FIRST;
  private partMax = PART_MAX;
  private rate = 0;
  private replace = false;
  private sentTo = 0; // a folder that was exchanged gets nothing by itself
  private shown = '';
  private stop = new AbortController();
  private wake: () => void = () => undefined;
  private wanted: '' | 'pause' | 'cancel' = '';
}

function inWords(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function timeInWords(seconds: number): string {
  return seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.ceil(seconds)} s`;
}

function short(name: string): string {
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 16)}…${name.slice(-15)}` : name;
}

/** What of the dropped files is not uploaded: one note, for as long as it stands there. */
class LeftOut {
  add(path: string, error: unknown): void {
    const why = /(^|\/)\./.test(path) ? 'What begins with a dot is hidden, and is not uploaded.' : words(error);
    if (!this._timer && !Notification.manager.has(this._shown)) {
      this._lines = [];
    }
    this._lines.push(`${path}: ${why}`);
    this._told = `${short(PathExt.basename(path))}: ${why}`;
    this._timer ||= window.setTimeout(() => this._tell(), TOGETHER_MS);
  }

  private _tell(): void {
    this._timer = 0;
    const count = this._lines.length;
    const message = count > 1 ? `${count} files are not uploaded.` : this._told;
    const actions = [{ label: 'Show', callback: (event: MouseEvent) => this._show(event) }];
    if (!Notification.update({ id: this._shown, message, actions })) {
      this._shown = Notification.error(message, { autoClose: false, actions });
    }
  }

  private _show(event: MouseEvent): void {
    event.preventDefault(); // the note stays
    const body = new Widget({ node: element('pre', 'dsportal-LeftOut', this._lines.join('\n')) });
    void showDialog({ title: 'Not uploaded', body, buttons: [Dialog.okButton()] });
  }

  private _lines: string[] = [];
  private _told = '';
  private _shown = '';
  private _timer = 0;
}

const leftOut = new LeftOut();
let last: Promise<unknown> = Promise.resolve();

/** One large file after the other: together none of them would be faster. */
function inTurn(upload: Upload): Promise<boolean> {
  const turn = last.then(() => upload.run());
  last = turn.catch(() => undefined);
  return turn;
}

/** Uploads it; false where the person does not want it any more. */
async function sent(model: FileBrowserModel, file: File, folder: string): Promise<boolean> {
  const upload = new Upload(file, model.manager.services.contents.localPath(folder));
  const isSent = await (file.size > LARGE ? inTurn(upload) : upload.run());
  if (isSent && folder === model.path) {
    await model.refresh().catch(() => undefined); // the list comes by itself, too
  }
  return isSent;
}

async function chosen(model: FileBrowserModel, file: File, folder: string): Promise<Contents.IModel> {
  const isSent = await sent(model, file, folder); // an error would show a dialog to who just cancelled it
  const path = isSent ? PathExt.join(folder, file.name) : folder;
  return model.manager.services.contents.get(path, { content: false });
}

/** Where one of the files that are dropped together is not uploaded, the others are. */
async function dropped(model: FileBrowserModel, file: File, folder: string): Promise<Contents.IModel> {
  const path = PathExt.join(folder, file.name);
  try {
    await sent(model, file, folder);
  } catch (error) {
    leftOut.add(path, error);
  }
  return { name: file.name, path, type: 'file' } as Contents.IModel; // nobody looks at it
}

/**
 * Files take their own way, by whichever button or gesture they come. Of those that are dropped JupyterLab would end
 * with the first one that is refused, say nothing, and look for files of the same name in another folder; and it would
 * save into whatever lies there when its question is answered.
 */
export function takeUploads(browsers: IFileBrowserFactory): void {
  const take = ({ model }: FileBrowser): void => {
    const upload = model.upload.bind(model);
    model.upload = (file, path) => {
      const folder = path ?? model.path;
      if (!model.allowFileUploads || model.manager.services.contents.driveName(folder)) {
        return upload(file, path);
      }
      if (path != null) {
        return dropped(model, file, folder);
      }
      return chosen(model, file, folder);
    };
  };
  browsers.tracker.forEach(take);
  browsers.tracker.widgetAdded.connect((_, browser) => take(browser));
}
