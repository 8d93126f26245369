import { Widget } from '@lumino/widgets';

import { button, element, words } from './dom';
import type { Environment, Tool } from './environmentform';
import { ask } from './server';
import { size } from './words';

type Listed = { environments: Environment[]; folder: string; tools: Tool[] };

/** What a person does with environments. */
export type EnvironmentActs = {
  make: (modules: string[]) => void;
  log: (environment: Environment) => void;
  remove: (environment: Environment) => void;
};

const STATES = { making: 'being made', ready: 'ready', failed: 'failed', broken: 'broken' };

/** One's own environments, each with where it lies, how big it is, and what is wrong with it. */
export class EnvironmentList extends Widget {
  tools: Tool[] = [{ name: 'venv', is_here: true }];
  private readonly _list = element('ul');
  private readonly _state = element('p');
  private _shown = '';

  constructor(private readonly _acts: EnvironmentActs) {
    super();
    this._state.setAttribute('role', 'status');
    const create = button('New environment…', '', () => this._acts.make([]));
    create.classList.replace('jp-mod-reject', 'jp-mod-accept');
    this.node.append(create, this._state, this._list);
  }

  /** Show what there is now; it is drawn where it is another than before, so that a button keeps the focus. */
  async look(): Promise<Environment[]> {
    try {
      const { environments, folder, tools } = await ask<Listed>('environments');
      this.tools = tools;
      const text = JSON.stringify(environments);
      if (text !== this._shown) {
        this._shown = text;
        this._list.replaceChildren(...environments.map(one => this._item(one)));
      }
      this._state.textContent = environments.length
        ? ''
        : `You have none yet. New ones lie in ${folder}, and each is a kernel in the launcher.`;
      return environments;
    } catch (error) {
      this._state.textContent = words(error);
      return [];
    }
  }

  private _item(one: Environment): HTMLLIElement {
    const item = element('li');
    item.dataset.environment = one.name;
    item.dataset.state = one.state;
    const head = element('p', 'dsportal-Environments-head');
    const isKernel = one.tool === 'modules';
    head.append(element('strong', '', one.title), element('span', 'dsportal-Environments-state', STATES[one.state]));
    item.append(head);
    if (one.state === 'failed' || one.state === 'broken') {
      item.append(element('p', 'dsportal-Environments-words', one.words));
    }
    const facts = [isKernel ? 'kernel' : one.tool, one.size_bytes ? size(one.size_bytes) : ''].filter(Boolean);
    const upon = one.modules.length ? ` ${isKernel ? 'of' : 'on'} ${one.modules.join(', ')}` : '';
    item.append(element('p', 'dsportal-Environments-facts', facts.join(', ') + upon));
    if (one.path) {
      item.append(element('p', 'dsportal-Environments-path', one.path));
    }
    const buttons = element('div', 'dsportal-Buttons');
    if (!isKernel) {
      buttons.append(button('Log', `of ${one.title}`, () => this._acts.log(one)));
    }
    const text = one.state === 'making' ? 'Stop…' : 'Remove…';
    buttons.append(button(text, one.title, () => this._acts.remove(one)));
    item.append(buttons);
    return item;
  }
}
