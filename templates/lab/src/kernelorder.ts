import type { KernelSpec } from '@jupyterlab/services';

type Specs = Record<string, KernelSpec.ISpecModel | undefined>;

/** A title without its version: of a module's versions one is the default, and the others name the kernel of it. */
function stemOf(title: string, isVersion: boolean): string {
  const plain = title.replace(/ \(default\)$/, '');
  return plain !== title || isVersion ? plain.replace(/ \S+$/, '') : plain;
}

function compare(one: string, other: string): number {
  return one.localeCompare(other, undefined, { numeric: true, sensitivity: 'base' });
}

/** The names of kernels by their titles; of one module's versions the default first, then the newest. */
export function kernelOrder(specs: Specs): string[] {
  const kernels = Object.entries(specs).map(([name, spec]) => {
    const title = spec?.display_name ?? name;
    const isVersion = Boolean((spec?.metadata?.dsportal as { table?: string } | undefined)?.table);
    return { name, title, stem: stemOf(title, isVersion), isLater: isVersion ? 1 : 0 };
  });
  kernels.sort(
    (one, other) =>
      compare(one.stem, other.stem) || one.isLater - other.isLater || compare(other.title, one.title)
  );
  return kernels.map(kernel => kernel.name);
}
