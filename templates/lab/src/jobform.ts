import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

/** What `POST dsportal/api/jobs` takes; what is empty is Slurm's default, or the script's. */
export type Order = Record<string, string | number | string[]>;

type Field = { name: string; label: string; kind: 'text' | 'number' | 'lines'; hint?: string };

const FIELDS: Field[] = [
  { name: 'file', label: 'File (.ipynb, .py, .sh or .job)', kind: 'text' },
  { name: 'hours', label: 'Hours', kind: 'number', hint: 'usual' },
  { name: 'partition', label: 'Partition', kind: 'text', hint: 'usual' },
  { name: 'gpus', label: 'GPUs on each node', kind: 'number', hint: 'none' },
  { name: 'nodes', label: 'Nodes', kind: 'number', hint: 'usual' },
  { name: 'tasks', label: 'Tasks in all', kind: 'number', hint: 'usual' },
  { name: 'cores', label: 'Cores for each task', kind: 'number', hint: 'usual' },
  { name: 'memory_gb', label: 'GB on each node', kind: 'number', hint: 'usual' },
  { name: 'array', label: 'Array', kind: 'text', hint: 'such as 0-9' },
  { name: 'modules', label: 'Modules, one on each line', kind: 'lines' },
  { name: 'arguments', label: 'Arguments, one on each line; of a notebook NAME=VALUE', kind: 'lines' }
];

class JobForm extends Widget implements Dialog.IBodyWidget<Order> {
  private readonly _inputs = new Map<Field, HTMLInputElement | HTMLTextAreaElement>();

  constructor(file: string) {
    super();
    this.addClass('dsportal-JobForm');
    for (const field of FIELDS) {
      const input = document.createElement(field.kind === 'lines' ? 'textarea' : 'input');
      input.className = 'jp-mod-styled';
      input.name = field.name;
      input.placeholder = field.hint ?? '';
      if (input instanceof HTMLInputElement) {
        input.inputMode = field.kind === 'number' ? 'decimal' : 'text';
      }
      if (field.name === 'file') {
        input.value = file;
      }
      const label = document.createElement('label');
      label.append(field.label, input);
      this.node.append(label);
      this._inputs.set(field, input);
    }
  }

  getValue(): Order {
    const order: Order = {};
    this._inputs.forEach((input, field) => {
      const text = input.value.trim();
      if (text) {
        order[field.name] = value(field, text);
      }
    });
    return order;
  }
}

/** What is no number goes to the server as it was typed, which says what is allowed. */
function value(field: Field, text: string): string | number | string[] {
  if (field.kind === 'number') {
    return Number.isFinite(Number(text)) ? Number(text) : text;
  }
  return field.kind === 'lines' ? text.split('\n').filter(line => line.trim()) : text;
}

/** What somebody wants to be run; undefined when nothing is. */
export async function askForOrder(file: string): Promise<Order | undefined> {
  const answer = await showDialog({
    title: 'Run as a Slurm job',
    body: new JobForm(file),
    focusNodeSelector: 'input',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Submit' })]
  });
  return answer.button.accept ? (answer.value ?? undefined) : undefined;
}
