import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ask } from './server';
import { clock, duration } from './words';

const STEPS_MIN = [30, 60, 120, 240, 480, 720, 1440];
const SHOWN_MS = 10000;

/** What the hub says of more time: `minutes` that may be given now, or `words` why none may. */
type Offer = { minutes: number; times_left: number; ends_at: number; words: string };

/** What a person chooses: how much more. */
class Choice extends Widget implements Dialog.IBodyWidget<number> {
  private readonly _select = document.createElement('select');

  constructor(offer: Offer) {
    super();
    this.addClass('dsportal-MoreTime');
    const label = document.createElement('label');
    label.textContent = 'How much longer? ';
    for (const minutes of [...STEPS_MIN.filter(step => step < offer.minutes), offer.minutes]) {
      const end = new Date((offer.ends_at + minutes * 60) * 1000);
      this._select.add(new Option(`${duration(minutes)} more, until ${clock(end)}`, String(minutes)));
    }
    label.append(this._select);
    const often = document.createElement('p');
    often.textContent =
      offer.times_left === 1 ? 'This is the last time for this session.' : `${offer.times_left} times are left, this one included.`;
    this.node.append(label, often);
  }

  getValue(): number {
    return Number(this._select.value);
  }
}

/** Asks how much longer the session is to last, and has it last so long; whether it does. */
export async function extend(): Promise<boolean> {
  try {
    const offer = await ask<Offer>('extend');
    if (offer.minutes === 0) {
      await showDialog({ title: 'No more time', body: offer.words, buttons: [Dialog.okButton({ label: 'Close' })] });
      return false;
    }
    const chosen = await showDialog<number>({
      title: `This session ends at ${clock(new Date(offer.ends_at * 1000))}`,
      body: new Choice(offer),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Extend' })]
    });
    if (!chosen.button.accept || !chosen.value) {
      return false;
    }
    const given = await ask<Offer>('extend', {}, { minutes: chosen.value });
    const end = clock(new Date(given.ends_at * 1000));
    Notification.success(`This session ends at ${end} now.`, { autoClose: SHOWN_MS });
    return true;
  } catch (error) {
    Notification.error((error as Error).message, { autoClose: false });
    return false;
  }
}
