import { PathExt } from '@jupyterlab/coreutils';
import { Widget } from '@lumino/widgets';

import { type Folder, wordsOf } from './news';
import { type Tested, testedKernels } from './kernels';
import { gigabytes, share, size } from './words';

export type Kernel = { id: string; name: string; path: string; memory_bytes: number; cores_busy: number | null };

type Gpu = {
  uuid: string;
  name: string;
  busy_percent: number | null;
  memory_used_bytes: number | null;
  memory_bytes: number | null;
  error: string;
};

/** What the server answers; null is what is not known. */
export type Usage = {
  source: string;
  memory: { used_bytes: number; limit_bytes: number | null };
  cpu: { cores_busy: number | null; cores: number | null };
  gpus: Gpu[];
  why_no_gpus: string;
  disk: { size_bytes: number; used_bytes: number; free_bytes: number } | null;
  kernels: Kernel[];
};

/** The address of a kernel's icon, with its badge as on the launcher's tile; '' where it has none. */
export type IconOf = (kernel: string) => string;

/** What a person calls a kernel: its notebook. */
export function nameOf(kernel: Kernel): string {
  return kernel.path ? PathExt.basename(kernel.path) : kernel.name;
}

/** Everything that the session uses, as a list; it follows while it is open. */
export class UsagePanel extends Widget {
  private _tested: Record<string, Tested> = {};
  private _usage: Usage;
  private _folders: Folder[];

  constructor(
    usage: Usage,
    folders: Folder[],
    private readonly _icons: IconOf
  ) {
    super();
    this.addClass('dsportal-UsagePanel');
    this._usage = usage;
    this._folders = folders;
    this.follow(usage, folders);
    void testedKernels().then(tested => {
      this._tested = tested;
      this.follow(this._usage, this._folders);
    });
  }

  /** Show another look. */
  follow(usage: Usage, folders: Folder[]): void {
    this._usage = usage;
    this._folders = folders;
    this.node.replaceChildren(list(usage, folders), kernels(usage.kernels, this._tested, this._icons), note(usage));
  }
}

function list(usage: Usage, folders: Folder[]): HTMLElement {
  const { memory, cpu, disk } = usage;
  const rows = document.createElement('dl');
  row(rows, 'Memory', share(memory.used_bytes, memory.limit_bytes), memory.used_bytes, memory.limit_bytes);
  row(rows, 'Cores', busyCores(cpu.cores_busy, cpu.cores), cpu.cores_busy, cpu.cores);
  usage.gpus.forEach(gpu => row(rows, 'GPU', ofGpu(gpu), gpu.busy_percent, 100));
  if (usage.why_no_gpus) {
    row(rows, 'GPU', usage.why_no_gpus);
  }
  if (disk) {
    const words = `${gigabytes(disk.free_bytes)} of ${gigabytes(disk.size_bytes)} GB are free where your home is`;
    row(rows, 'Disk', words, disk.used_bytes, disk.size_bytes);
  }
  for (const folder of folders) {
    const full = folder.is_nearly_full ? ': nearly full' : '';
    row(rows, `Your ${folder.name}`, wordsOf(folder) + full, folder.used_bytes, folder.limit_bytes);
  }
  return rows;
}

/** A name, words, and how much of the whole it is where that is known. */
function row(rows: HTMLElement, name: string, words: string, used: number | null = null, all: number | null = null): void {
  const term = document.createElement('dt');
  term.textContent = name;
  const description = document.createElement('dd');
  description.textContent = words;
  if (used !== null && all) {
    const meter = document.createElement('meter');
    meter.max = all;
    meter.high = 0.9 * all; // from there on it is drawn as a warning
    meter.optimum = 0;
    meter.value = used;
    meter.setAttribute('aria-label', `${name}: ${words}`);
    description.append(meter);
  }
  rows.append(term, description);
}

function busyCores(busy: number | null, cores: number | null): string {
  const words = busy === null ? 'counted at the next look' : `${busy.toFixed(1)} busy`;
  return cores === null ? words : `${cores}, ${words}`;
}

function ofGpu(gpu: Gpu): string {
  const busy = gpu.busy_percent === null ? '' : `${gpu.busy_percent} % busy`;
  const memory =
    gpu.memory_used_bytes === null ? '' : `${share(gpu.memory_used_bytes, gpu.memory_bytes)} of its memory`;
  return [gpu.name, busy, memory, gpu.error, gpu.uuid].filter(Boolean).join(', ');
}

function kernels(found: Kernel[], tested: Record<string, Tested>, iconOf: IconOf): HTMLElement {
  const table = document.createElement('table');
  const head = table.createTHead().insertRow();
  for (const title of ['Kernel of', 'Memory', 'Cores']) {
    const cell = document.createElement('th');
    cell.scope = 'col';
    cell.textContent = title;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const kernel of [...found].sort((one, other) => other.memory_bytes - one.memory_bytes)) {
    const cells = body.insertRow();
    cells.title = kernel.path || kernel.name;
    for (const words of [
      nameOf(kernel),
      size(kernel.memory_bytes),
      kernel.cores_busy === null ? '' : kernel.cores_busy.toFixed(1)
    ]) {
      cells.insertCell().textContent = words;
    }
    const icon = iconOf(kernel.name);
    if (icon) {
      const image = document.createElement('img');
      image.src = icon;
      image.alt = ''; // its name stands beside it
      cells.cells[0]?.prepend(image);
    }
    const test = tested[kernel.name];
    if (test) {
      const words = document.createElement('small');
      words.textContent = `${kernel.name}: ${test.summary}`;
      cells.cells[0]?.append(words);
    }
  }
  table.hidden = found.length === 0;
  return table;
}

function note(usage: Usage): HTMLElement {
  const words = document.createElement('p');
  words.textContent =
    usage.source === 'processes'
      ? 'There is no cgroup of the job here: it is the sum over its processes, and what they share counts for each.'
      : 'Memory is that of the whole job, without the pages of files that can be dropped at once.';
  return words;
}
