import { IConnectionLost, type JupyterFrontEnd, type JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import { Dialog, Notification } from '@jupyterlab/apputils';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { type Documents, IDocuments, wordsOf } from './documents';
import { clock } from './words';

const SOON_MS = 1000; // between two looks while it is not known what has happened
const LATER_MS = 10000; // and when the person knows
const ANSWER_MS = 4000;
const GONE_TWICE = 2; // a proxy that changes its routes may once say no
const SILENT_TIMES = 4;

type Found = 'there' | 'gone' | 'silent';

function pause(milliseconds: number): Promise<void> {
  return new Promise(done => setTimeout(done, milliseconds));
}

/** Whether the session's server answers, something else answers in its place, or nothing does. */
async function found(): Promise<Found> {
  const { baseUrl } = ServerConnection.makeSettings();
  try {
    const response = await fetch(URLExt.join(baseUrl, 'api'), {
      cache: 'no-store',
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS)
    });
    return response.ok && 'version' in (await response.json()) ? 'there' : 'gone';
  } catch (error) {
    return error instanceof SyntaxError ? 'gone' : 'silent'; // an answer without JSON, or none
  }
}

/** An address of the hub; '' where none started this session. */
function hubAddress(...parts: string[]): string {
  const prefix = PageConfig.getOption('hubPrefix');
  return prefix && PageConfig.getOption('hubHost') + URLExt.join(prefix, ...parts);
}

/** The form of a new session, which leads back to what this page shows. */
function startAddress(): string {
  const next = URLExt.objectToQueryString({ next: window.location.pathname });
  return hubAddress('spawn', PageConfig.getOption('hubUser')) + next;
}

/** What is safe after the end, and what is not. */
function safety(documents: Documents): string {
  const { last } = documents;
  const changed = documents.changed();
  const sentences = ['What was saved is safe: it is in your files.'];
  if (last && wordsOf(last)) {
    sentences.push(`At ${clock(last.at)}, before the end, this page saved what was open. ${wordsOf(last)}`);
  }
  sentences.push(
    changed.length
      ? `Changes that are not saved are still in this page: stay here to copy them (${changed.join(', ')}).`
      : 'Nothing that is open in this page has changes that are not saved.'
  );
  return sentences.join(' ');
}

/**
 * Follows whether the session is there, and says over the page when it has ended.
 *
 * A web socket that is open tells the end of the server at once; a server that goes on is asked nothing.
 */
class SessionEnd {
  private _isLooking = false;
  private _dialog: Dialog<unknown> | undefined;
  private _isTold = false; // that the session has ended
  private _silence = ''; // the notification that nothing answers

  constructor(
    private readonly _info: JupyterLab.IInfo | null,
    private readonly _documents: Documents
  ) {}

  /** Open the socket; when it is closed, look why. */
  watch(): void {
    const settings = ServerConnection.makeSettings();
    const token = settings.appendToken && settings.token ? URLExt.objectToQueryString({ token: settings.token }) : '';
    const socket = new settings.WebSocket(URLExt.join(settings.wsUrl, 'api/events/subscribe') + token);
    socket.onclose = () => void this.look();
  }

  /** Look until the session is there, and tell what is found. */
  async look(): Promise<void> {
    if (this._isLooking) {
      return;
    }
    this._isLooking = true;
    let gone = 0;
    let silent = 0;
    for (let now = await found(); now !== 'there'; now = await found()) {
      gone = now === 'gone' ? gone + 1 : 0;
      silent = now === 'silent' ? silent + 1 : 0;
      if (gone === GONE_TWICE) {
        this._tellEnd();
      } else if (silent === SILENT_TIMES) {
        this._tellSilence();
      }
      await pause(this._isTold || this._silence ? LATER_MS : SOON_MS);
    }
    this._tellReturn();
    this._isLooking = false;
    await pause(SOON_MS);
    this.watch();
  }

  private _tellEnd(): void {
    if (this._isTold) {
      return;
    }
    this._isTold = true;
    this._endSilence();
    this._setConnected(false);
    const start = Dialog.okButton({ label: 'Start Again', actions: ['start'] });
    const why = Dialog.cancelButton({ label: 'See Why', actions: ['why'] });
    const stay = Dialog.cancelButton({ label: 'Stay Here' });
    this._dialog = new Dialog({
      title: 'This session has ended',
      body: `${safety(this._documents)} Kernels and terminals have ended with the session.`,
      buttons: hubAddress() ? [stay, why, start] : [stay]
    });
    void this._dialog.launch().then(answer => {
      this._dialog = undefined;
      const [action] = answer.button.actions;
      if (action) {
        window.location.assign(action === 'start' ? startAddress() : hubAddress('home'));
      }
    });
  }

  private _tellSilence(): void {
    if (!this._isTold && !this._silence) {
      this._setConnected(false);
      this._silence = Notification.warning('No connection to your session. It is tried again and again.', {
        autoClose: false
      });
    }
  }

  private _tellReturn(): void {
    this._endSilence();
    if (this._isTold) {
      this._isTold = false;
      this._dialog?.dispose();
      Notification.success('The session is there again. Kernels that were lost begin anew.', { autoClose: 10000 });
    }
    this._setConnected(true);
  }

  private _endSilence(): void {
    if (this._silence) {
      Notification.dismiss(this._silence);
      this._silence = '';
    }
  }

  /** While it is not connected, JupyterLab asks the server for nothing. */
  private _setConnected(isConnected: boolean): void {
    if (this._info) {
      (this._info as { isConnected: boolean }).isConnected = isConnected;
    }
  }
}

/** In place of JupyterHub's own dialog, which comes late or not at all. */
export const sessionEnd: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'dsportal-lab:session-end',
  description: 'Says when the session has ended.',
  autoStart: true,
  requires: [IDocuments],
  optional: [JupyterLab.IInfo],
  provides: IConnectionLost,
  activate: (_: JupyterFrontEnd, documents: Documents, info: JupyterLab.IInfo | null): IConnectionLost => {
    const end = new SessionEnd(info, documents);
    end.watch();
    return () => end.look();
  }
};
