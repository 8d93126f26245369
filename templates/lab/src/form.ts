import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element, words } from './dom';

/** What somebody filled in, by name; what is empty is left out. */
export type Filled = Record<string, string | number | string[]>;

/** One field; of a choice `options` are the values with their words. */
export type Field = {
  name: string;
  label: string;
  kind: 'text' | 'number' | 'lines' | 'choice';
  hint?: string;
  options?: [string, string][];
  isWide?: boolean;
};

type Input = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

/** The fields of a dialog, each with its label, and above them what was wrong the last time, and a note. */
export class Form extends Widget implements Dialog.IBodyWidget<Filled> {
  private readonly _inputs = new Map<Field, Input>();
  private readonly _given = new Map<Input, { shown: string; value: Filled[string] }>();

  constructor(fields: Field[], values: Filled = {}, fault = '', about = '') {
    super();
    this.addClass('dsportal-Form');
    if (fault) {
      const note = element('p', 'dsportal-Form-fault', fault);
      note.setAttribute('role', 'alert');
      this.node.append(note);
    }
    if (about) {
      this.node.append(element('p', 'dsportal-mod-wide', about));
    }
    for (const field of fields) {
      const input = inputOf(field);
      const value = values[field.name];
      if (value !== undefined) {
        input.value = Array.isArray(value) ? value.join('\n') : String(value);
        this._given.set(input, { shown: input.value, value });
      }
      const label = element('label', field.isWide ? 'dsportal-mod-wide' : '');
      label.append(field.label, input);
      this.node.append(label);
      this._inputs.set(field, input);
    }
  }

  /** What nobody has changed is as it was given: a field shows no line feed of a name, and not the blanks around it. */
  getValue(): Filled {
    const filled: Filled = {};
    this._inputs.forEach((input, field) => {
      const given = this._given.get(input);
      const text = input.value.trim();
      if (given?.shown && given.shown === input.value) {
        filled[field.name] = given.value;
      } else if (text) {
        filled[field.name] = valueOf(field, text);
      }
    });
    return filled;
  }
}

function inputOf(field: Field): Input {
  const input = element(field.kind === 'lines' ? 'textarea' : field.kind === 'choice' ? 'select' : 'input');
  input.className = 'jp-mod-styled';
  input.name = field.name;
  if (input instanceof HTMLSelectElement) {
    input.append(...(field.options ?? []).map(([value, text]) => new Option(text, value)));
    return input;
  }
  input.placeholder = field.hint ?? '';
  input.autocomplete = 'off';
  input.spellcheck = false;
  if (input instanceof HTMLInputElement) {
    input.inputMode = field.kind === 'number' ? 'decimal' : 'text';
  }
  return input;
}

/** What is no number goes to the server as it was typed, which says what is allowed. */
function valueOf(field: Field, text: string): string | number | string[] {
  if (field.kind === 'number') {
    return Number.isFinite(Number(text)) ? Number(text) : text;
  }
  return field.kind === 'lines' ? text.split('\n').filter(line => line.trim()) : text;
}

/**
 * Asks until what was filled in is accepted, or nothing is wanted: what the server refuses is said in the dialog, and
 * nothing has to be typed again. Answers what `send` has made of it. A note, asked for each time, stands above the fields.
 */
export async function askUntilAccepted<T>(
  title: string,
  accept: string,
  fields: Field[],
  values: Filled,
  send: (filled: Filled) => Promise<T>,
  about: () => string = () => ''
): Promise<T | undefined> {
  let filled = values;
  for (let fault = ''; ; ) {
    const answer = await showDialog({
      title,
      body: new Form(fields, filled, fault, about()),
      focusNodeSelector: 'input',
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: accept })]
    });
    if (!answer.button.accept) {
      return undefined;
    }
    filled = answer.value ?? {};
    try {
      return await send(filled);
    } catch (error) {
      fault = words(error);
    }
  }
}
