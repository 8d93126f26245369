import { Widget } from '@lumino/widgets';

import { button, element, words } from './dom';
import { ask } from './server';

type Listed = { name: string; is_default: boolean; summary: string };
type Found = { modules: Listed[]; total: number };
type Shown = {
  name: string;
  file: string;
  summary: string[];
  sets: string[];
  conflicts: string[];
  needs: string[];
  help: string;
  before: string[];
};

/** What is made of the modules that somebody has chosen. */
export type ModuleActs = { kernel: (modules: string[]) => void; environment: (modules: string[]) => void };

const TYPED_MS = 250;

/** The cluster's modules: a search, what each does, and those that are chosen for a kernel or an environment. */
export class ModuleBrowser extends Widget {
  private readonly _search = element('input', 'jp-mod-styled');
  private readonly _chosen: string[] = [];
  private readonly _choice = element('div', 'dsportal-Modules-choice');
  private readonly _state = element('p', 'dsportal-Modules-state');
  private readonly _list = element('ul');
  private readonly _items = new Map<string, HTMLLIElement>(); // what somebody has opened stays open
  private _typed = 0;
  private _asked = 0;

  constructor(private readonly _acts: ModuleActs) {
    super();
    this.addClass('dsportal-Modules');
    this._search.type = 'search';
    this._search.placeholder = 'Search, for example tensorflow';
    this._search.setAttribute('aria-label', 'Search modules');
    this._search.addEventListener('input', () => {
      window.clearTimeout(this._typed);
      this._typed = window.setTimeout(() => void this.look(), TYPED_MS);
    });
    this._state.setAttribute('role', 'status');
    this._drawChoice();
    this.node.append(this._choice, this._search, this._state, this._list);
  }

  /** Show what the words find; an answer that comes after a later one is dropped. */
  async look(): Promise<void> {
    const number = ++this._asked;
    try {
      const found = await ask<Found>('modules', { words: this._search.value });
      if (number === this._asked) {
        this._list.replaceChildren(...found.modules.map(module => this._item(module)));
        this._state.textContent = count(found);
      }
    } catch (error) {
      this._list.replaceChildren();
      this._state.textContent = words(error);
    }
  }

  private _item(module: Listed): HTMLLIElement {
    const known = this._items.get(module.name);
    if (known) {
      return known;
    }
    const item = element('li');
    this._items.set(module.name, item);
    item.dataset.module = module.name;
    const details = element('details');
    const title = element('summary', '', module.name);
    if (module.is_default) {
      title.append(' ', element('span', 'dsportal-Modules-mark', 'default'));
    }
    const facts = element('div', 'dsportal-Modules-facts');
    details.append(title, facts);
    details.addEventListener('toggle', () => {
      if (details.open && !facts.hasChildNodes()) {
        void this._show(module, facts);
      }
    });
    item.append(details);
    if (module.summary) {
      title.append(element('span', 'dsportal-Modules-summary', module.summary));
    }
    return item;
  }

  private async _show(module: Listed, facts: HTMLElement): Promise<void> {
    facts.textContent = 'Looking…';
    try {
      const shown = await ask<Shown>('modules/show', { name: module.name });
      facts.replaceChildren(
        button('Choose', module.name, () => this._choose([...shown.before, module.name])),
        list(shown, module.summary)
      );
    } catch (error) {
      facts.textContent = words(error);
    }
  }

  private _choose(names: string[]): void {
    this._chosen.push(...names.filter(name => !this._chosen.includes(name)));
    this._drawChoice();
  }

  private _drawChoice(): void {
    this._choice.hidden = this._chosen.length === 0;
    const chosen = element('ol');
    chosen.setAttribute('aria-label', 'Chosen modules');
    chosen.append(
      ...this._chosen.map((name, position) => {
        const item = element('li', '', name);
        const drop = button('×', `take ${name} out`, () => {
          this._chosen.splice(position, 1);
          this._drawChoice();
        });
        drop.setAttribute('aria-label', `Take ${name} out`);
        item.append(drop);
        return item;
      })
    );
    const make = element('div', 'dsportal-Buttons');
    make.append(
      button('Make a kernel…', '', () => this._acts.kernel([...this._chosen])),
      button('New environment…', 'on these modules', () => this._acts.environment([...this._chosen]))
    );
    this._choice.replaceChildren(chosen, make);
  }
}

function count(found: Found): string {
  if (!found.total) {
    return 'No module has these words.';
  }
  const shown = found.modules.length;
  const all = `${found.total} module${found.total === 1 ? '' : 's'}`;
  return shown === found.total ? `${all}.` : `The first ${shown} of ${all}: more words find fewer.`;
}

/** What a module does, as a list of facts; what is `known` of it already is left out. */
function list(shown: Shown, known: string): HTMLElement {
  const facts = element('dl');
  const rows: [string, string[]][] = [
    ['Is', shown.summary.filter(text => text !== known)],
    ['After', shown.before],
    ['Needs', shown.needs],
    ['Excludes', shown.conflicts],
    ['Sets', shown.sets],
    ['Help', shown.help ? [shown.help] : []],
    ['File', [shown.file]]
  ];
  for (const [name, texts] of rows.filter(([, texts]) => texts.some(Boolean))) {
    facts.append(element('dt', '', name), ...texts.map(text => element('dd', '', text)));
  }
  return facts;
}
