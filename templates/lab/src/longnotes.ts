// JupyterLab (4.6) shows the first letters of a note only, here and in its list of notes: what to do stands at the end.
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';

const SHOWN_MAX = 140;
const LABEL = 'Read All';

/** Have each note that is longer than JupyterLab shows have a button for all of it. */
export function readLongNotes(): void {
  const { manager } = Notification;
  const notify = manager.notify.bind(manager);
  const update = manager.update.bind(manager);
  manager.notify = (message, type, options) =>
    notify(message, type, { ...options, actions: actionsOf(message, options.actions) });
  manager.update = args => {
    const before = manager.notifications.find(({ id }) => id === args.id);
    const { message = before?.message ?? '', actions = before?.options.actions } = args;
    return update({ ...args, actions: actionsOf(message, actions) });
  };
}

function actionsOf(message: string, actions: Notification.IAction[] = []): Notification.IAction[] {
  const own = actions.filter(({ label }) => label !== LABEL);
  const callback = (): void => void showAll(message);
  return message.length > SHOWN_MAX ? [...own, { label: LABEL, callback }] : own;
}

async function showAll(message: string): Promise<void> {
  await showDialog({ title: 'Note', body: message, buttons: [Dialog.okButton({ label: 'Close' })] });
}
