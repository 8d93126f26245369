import { askUntilAccepted, type Field } from './form';
import { ask } from './server';

/** An environment as `dsportal/api/environments` tells of it. */
export type Environment = {
  name: string;
  title: string;
  tool: string;
  modules: string[];
  packages: string[];
  path: string;
  state: 'making' | 'ready' | 'failed' | 'broken';
  words: string;
  size_bytes: number;
};

export type Tool = { name: string; is_here: boolean };

const NAME: Field = { name: 'name', label: 'Name', kind: 'text', hint: 'such as vision' };
const TITLE: Field = { name: 'title', label: 'Title in the launcher', kind: 'text', hint: 'like the name' };
const MODULES: Field = { name: 'modules', label: 'On top of modules, one on each line', kind: 'lines', hint: 'none' };
const PACKAGES: Field = {
  name: 'packages',
  label: 'Packages for pip, one on each line',
  kind: 'lines',
  hint: 'tqdm\ntorch==2.9.1'
};

/** Asks for a new environment, and begins to make it; undefined when none is wanted. */
export function askForEnvironment(tools: Tool[], modules: string[]): Promise<Environment | undefined> {
  const options = tools
    .filter(tool => tool.name !== 'modules')
    .map(({ name, is_here }): [string, string] => [name, is_here ? name : `${name} (where a module brings it)`]);
  const fields = [NAME, TITLE, MODULES, PACKAGES, { name: 'tool', label: 'Made by', kind: 'choice', options } as Field];
  return askUntilAccepted('New environment', 'Create', fields, { modules }, order => post(order));
}

/** Asks for the name of a kernel out of modules alone, and makes it; undefined when none is wanted. */
export function askForKernel(modules: string[]): Promise<Environment | undefined> {
  const fields = [NAME, TITLE, { ...MODULES, label: 'Modules, one on each line, loaded in this order', isWide: true }];
  return askUntilAccepted('New kernel out of modules', 'Create', fields, { modules }, order =>
    post({ ...order, tool: 'modules' })
  );
}

function post(order: object): Promise<Environment> {
  return ask<Environment>('environments', {}, order);
}
