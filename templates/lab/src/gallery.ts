import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { element, words } from './dom';
import { templatesIcon } from './icons';
import { ask } from './server';

/** One template as `dsportal/api/templates` tells of it; without a path it cannot be used here. */
export type Card = {
  name: string;
  title: string;
  summary: string;
  framework: string;
  dataset: string;
  needs: string;
  fits: boolean;
  gpus: number;
  mark: string;
  level: number;
  level_title: string;
  path: string;
};

/** What a person does with a template. */
export type Acts = { open: (card: Card) => void; copy: (card: Card) => void };

/** The templates as cards, in the order in which one learns, with a search. */
class Gallery extends Widget {
  private _cards: Card[] = [];
  private readonly _words = element('input', 'jp-mod-styled');
  private readonly _framework = element('select', 'jp-mod-styled');
  private readonly _status = element('p', 'dsportal-Gallery-status');
  private readonly _found = element('div');

  constructor(private readonly _acts: Acts) {
    super();
    this.addClass('dsportal-Gallery');
    this._words.type = 'search';
    this._words.placeholder = 'Search, for example ResNet50';
    this._words.setAttribute('aria-label', 'Words');
    this._framework.setAttribute('aria-label', 'Framework');
    this._status.setAttribute('role', 'status');
    const search = element('div', 'dsportal-Gallery-search');
    search.setAttribute('role', 'search');
    search.append(this._words, this._framework);
    this.node.append(
      element('h1', '', 'Templates'),
      element('p', '', 'Notebooks to learn from and to begin with. A copy is yours; the template itself is not saved.'),
      search,
      this._status,
      this._found
    );
    this._words.addEventListener('input', () => this._show());
    this._framework.addEventListener('change', () => this._show());
  }

  /** Show what the server has now. */
  async load(): Promise<void> {
    this._status.textContent = 'Looking for templates…';
    try {
      this._cards = (await ask<{ templates: Card[] }>('templates')).templates;
    } catch (error) {
      this._status.textContent = words(error);
      return;
    }
    const frameworks = Array.from(new Set(this._usable().map(card => card.framework))).sort();
    const chosen = this._framework.value;
    this._framework.replaceChildren(...['', ...frameworks].map(name => new Option(name || 'All frameworks', name)));
    this._framework.value = frameworks.includes(chosen) ? chosen : '';
    this._show();
  }

  private _usable(): Card[] {
    return this._cards.filter(card => card.path);
  }

  private _matching(): Card[] {
    const words = this._words.value.toLowerCase().split(/\s+/);
    return this._usable().filter(card => {
      const text = `${card.name} ${card.title} ${card.summary} ${card.framework} ${card.dataset}`.toLowerCase();
      const framework = this._framework.value;
      return (!framework || card.framework === framework) && words.every(word => text.includes(word));
    });
  }

  private _show(): void {
    const found = this._matching();
    const usable = this._usable().length;
    const hidden = this._cards.filter(card => !card.path);
    const needed = Array.from(new Set(hidden.flatMap(card => card.framework.split(', ')))).sort();
    const count = `${found.length === usable ? '' : `${found.length} of `}${usable} template${usable === 1 ? '' : 's'}`;
    const others = hidden.length
      ? ` ${hidden.length} more: their kernels (${needed.join(', ')}) are not offered here; your administrator can add them.`
      : '';
    this._status.textContent = `${count}.${others}`;
    const levels = new Map(found.sort((a, b) => a.level - b.level).map(card => [card.level, card.level_title]));
    this._found.replaceChildren(
      ...Array.from(levels).flatMap(([level, title]) => {
        const list = element('ul', 'dsportal-Gallery-cards');
        list.append(...found.filter(card => card.level === level).map(card => this._card(card)));
        return [element('h2', '', title), list];
      })
    );
  }

  private _card(card: Card): HTMLLIElement {
    const item = element('li', 'dsportal-Gallery-card');
    item.dataset.template = card.name;
    const mark = element('span', 'dsportal-Gallery-mark', card.mark);
    mark.setAttribute('aria-hidden', 'true');
    const titles = element('div');
    titles.append(element('p', 'dsportal-Gallery-framework', card.framework), element('h3', '', card.title));
    const head = element('div', 'dsportal-Gallery-head');
    head.append(mark, titles);
    const facts = element('dl');
    for (const [name, text] of [
      ['Needs', card.needs],
      ['Data', card.dataset]
    ] as const) {
      const fact = element('div');
      fact.append(element('dt', '', name), element('dd', '', text));
      facts.append(fact);
    }
    const gpus = card.gpus === 1 ? '1 GPU' : `${card.gpus} GPUs`;
    const fit = card.fits ? 'Fits this session' : `Made for ${gpus}; runs here with what there is`;
    const buttons = element('div', 'dsportal-Gallery-buttons');
    buttons.append(
      this._button('New Copy…', card, true, () => this._acts.copy(card)),
      this._button('Open', card, false, () => this._acts.open(card))
    );
    const fits = element('p', card.fits ? 'dsportal-Gallery-fits' : 'dsportal-Gallery-fit', fit);
    item.append(head, element('p', 'dsportal-Gallery-summary', card.summary), facts, fits, buttons);
    return item;
  }

  private _button(text: string, card: Card, isFirst: boolean, act: () => void): HTMLButtonElement {
    const button = element('button', `jp-mod-styled ${isFirst ? 'jp-mod-accept' : 'jp-mod-reject'}`, text);
    button.setAttribute('aria-label', `${text} ${card.title}, ${card.framework}`);
    button.addEventListener('click', act);
    return button;
  }
}

/** The gallery as a tab of the main area. */
export function galleryTab(acts: Acts): MainAreaWidget {
  const content = new Gallery(acts);
  const tab = new MainAreaWidget({ content });
  tab.id = 'dsportal-gallery';
  tab.title.label = 'Templates';
  tab.title.icon = templatesIcon;
  tab.title.closable = true;
  tab.toolbar.hide();
  void content.load();
  return tab;
}
