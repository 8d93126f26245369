// JupyterLab (4.6) shows the first letters of a note only, here and in its list of notes: what to do stands at the end.
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';

const SHOWN_MAX = 140;
const LABEL = 'Read All';

/** Gives a note a button that shows all of it, where it is too long to be shown. */
function completed({ id, message, options }: Notification.INotification): void {
  const actions = options.actions ?? [];
  if (message.length > SHOWN_MAX && !actions.some(({ label }) => label === LABEL)) {
    Notification.update({ id, actions: [...actions, { label: LABEL, callback: () => void showAll(id, message) }] });
  }
}

/** What a note says by now; as it was where it is gone. */
async function showAll(id: string, before: string): Promise<void> {
  const now = Notification.manager.notifications.find(one => one.id === id);
  const body = now?.message ?? before;
  await showDialog({ title: 'Note', body, buttons: [Dialog.okButton({ label: 'Close' })] });
}

/** Notes that are longer than JupyterLab shows. */
export const longNotes: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:long-notes',
  description: 'A note that is longer than JupyterLab shows has a button for all of it.',
  autoStart: true,
  activate: (): void => {
    Notification.manager.notifications.forEach(completed);
    Notification.manager.changed.connect((_, { type, notification }) => {
      if (type !== 'removed') {
        queueMicrotask(() => completed(notification)); // JupyterLab is told of it first
      }
    });
  }
};
