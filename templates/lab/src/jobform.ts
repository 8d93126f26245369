import { Dialog, showDialog } from '@jupyterlab/apputils';

import { element } from './dom';
import { type Field, type Filled, Form } from './form';

/** What `POST dsportal/api/jobs` takes; what is empty is Slurm's default, or the script's. */
export type Order = Filled;

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

/** What somebody wants to be run; undefined when nothing is. A note stands above the fields. */
export async function askForOrder(file: string, note: string): Promise<Order | undefined> {
  const body = new Form(FIELDS, { file });
  if (note) {
    body.node.prepend(element('p', 'dsportal-mod-wide', note));
  }
  const answer = await showDialog({
    title: 'Run as a Slurm job',
    body,
    focusNodeSelector: 'input',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Submit' })]
  });
  return answer.button.accept ? (answer.value ?? undefined) : undefined;
}
