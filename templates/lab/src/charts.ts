import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { type IRenderMime, RenderMimeRegistry } from '@jupyterlab/rendermime';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

/** Charts whose words, by what Vega makes of them, run scripts: in untrusted notebooks, too. */
const CHART = /^application\/vnd\.vega/;
const WIDGET = /^vega/i;

/**
 * Leaves Vega's renderer out. JupyterLab does so by the list of what is disabled, which Notebook 7.6 asks for plug-ins
 * alone; so this comes before any of its renderers is added.
 */
export function drawNoCharts(): void {
  const add = RenderMimeRegistry.prototype.addFactory;
  RenderMimeRegistry.prototype.addFactory = function (factory: IRenderMime.IRendererFactory, rank?: number): void {
    if (!factory.mimeTypes.some(type => CHART.test(type))) {
      add.call(this, factory, rank);
    }
  };
}

/** Nor has a file of such a chart a tab that draws it. It needs nothing, and so is there before those are added. */
export const noChartTabs: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:no-charts',
  description: 'Draws no charts that run scripts (Vega).',
  autoStart: true,
  activate: ({ docRegistry }: JupyterFrontEnd): void => {
    const add = docRegistry.addWidgetFactory.bind(docRegistry);
    docRegistry.addWidgetFactory = (factory): IDisposable =>
      WIDGET.test(factory.name) ? new DisposableDelegate(() => undefined) : add(factory);
  }
};
