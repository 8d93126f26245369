import { Notification } from '@jupyterlab/apputils';
import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { shouldOverwrite } from '@jupyterlab/docmanager';
import type { FileBrowser, FileBrowserModel, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { type Contents, ServerConnection } from '@jupyterlab/services';

import { words } from './dom';

const LARGE = 15 * 1024 * 1024; // bytes above which JupyterLab asks whether one really wants to
const PART_FIRST = 1024 * 1024;
const PART_MAX = 32 * PART_FIRST;
const PART_MS = 1000; // so long shall a part take
const NAME_MAX = 48; // a notification shows 140 letters
const RATE_OVER = 0.3; // weight of the newest part in the rate
const RETRY_MAX_MS = 15000;
const AWAY = [423, 424, 502, 503, 504]; // another request, the proxy or the session: it goes on by itself

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

/** One large file on its way; what it says stands in a notification with its buttons. */
class LargeUpload {
  constructor(
    private file: File,
    private path: string
  ) {
    const { name } = file;
    this.name = name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 16)}…${name.slice(-15)}` : name;
  }

  /** Sends it; false where the person does not want it any more. */
  async run(): Promise<boolean> {
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
        if (await this.sent()) {
          this.show('success', `${this.name} is uploaded`);
          return true;
        }
      } catch (error) {
        if (!this.wanted && (await this.goesOn(error)) && !this.wanted) {
          continue;
        }
      }
      if (this.wanted === 'cancel') {
        await this.ask('DELETE').catch(() => undefined);
        Notification.dismiss(this.shown);
        return false;
      }
      this.show(this.fault ? 'error' : 'default', `${this.name}: ${this.fault || 'paused'}`);
      await this.rest();
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
      this.isThere = false;
      await this.rest(PART_MS / 2);
      return true;
    }
    if (refusal ? !AWAY.includes(refusal.status) : !(error instanceof ServerConnection.NetworkError)) {
      this.wanted = 'pause';
      this.fault = words(error);
      return false;
    }
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
    this.show('in-progress', `${this.name}: all is there, and is written to the disk`);
    await this.ask('POST');
    return true;
  }

  private async sentAll(): Promise<boolean> {
    const { exists, ...found } = (await (await this.ask('GET')).json()) as IState;
    if (exists && !this.replace) {
      this.replace = await shouldOverwrite(this.file.name);
      if (!this.replace) {
        this.wanted = 'cancel';
      }
    }
    let offset = found.offset;
    while (offset < this.file.size && !this.wanted) {
      this.tell(offset);
      const began = performance.now();
      const body = this.file.slice(offset, offset + this.part);
      const next = ((await (await this.ask('PATCH', body, offset)).json()) as IState).offset;
      this.away = 500;
      const took = Math.max(performance.now() - began, 1);
      const rate = (1000 * (next - offset)) / took;
      this.rate = this.rate ? this.rate + RATE_OVER * (rate - this.rate) : rate;
      this.part = Math.round(Math.min(PART_MAX, Math.max(PART_FIRST, (rate * PART_MS) / 1000)));
      offset = next;
    }
    return !this.wanted;
  }

  private tell(offset: number): void {
    const { size } = this.file;
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
      throw new Refusal(response.status, said.message || response.statusText, said.offset ?? null);
    }
    return response;
  }

  private away = 500;
  private fault = '';
  private isThere = false;
  private name: string;
  private part = PART_FIRST;
  private rate = 0;
  private replace = false;
  private shown = '';
  private stop = new AbortController();
  private wake: () => void = () => undefined;
  private wanted: '' | 'pause' | 'cancel' = '';
}

function warn(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

function inWords(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function timeInWords(seconds: number): string {
  return seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.ceil(seconds)} s`;
}

let last: Promise<unknown> = Promise.resolve();

/** One large file after the other: together none of them would be faster. */
async function large(model: FileBrowserModel, file: File, path: string): Promise<Contents.IModel> {
  const { contents } = model.manager.services;
  const turn = last.then(() => new LargeUpload(file, contents.localPath(path)).run());
  last = turn.catch(() => undefined);
  if (!(await turn)) {
    return contents.get(path, { content: false }); // an error would show a dialog to who just cancelled it
  }
  await model.refresh();
  return contents.get(PathExt.join(path, file.name), { content: false });
}

/** Large files take their own way, by whichever button or gesture they come. */
export function takeLargeUploads(browsers: IFileBrowserFactory): void {
  const take = ({ model }: FileBrowser): void => {
    const upload = model.upload.bind(model);
    model.upload = (file, path) => {
      const folder = path ?? model.path;
      const isOurs = file.size > LARGE && !model.manager.services.contents.driveName(folder);
      return isOurs ? large(model, file, folder) : upload(file, path);
    };
  };
  browsers.tracker.forEach(take);
  browsers.tracker.widgetAdded.connect((_, browser) => take(browser));
}
