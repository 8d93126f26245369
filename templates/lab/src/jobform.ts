import { askUntilAccepted, type Field, type Filled } from './form';

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

/** Asks what is to be run until it is submitted, or not wanted: what `send` answers, or undefined. */
export async function askForOrder<T>(
  file: string,
  note: () => string,
  send: (order: Order) => Promise<T>
): Promise<T | undefined> {
  return askUntilAccepted('Run as a Slurm job', 'Submit', FIELDS, { file }, send, note);
}
