import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

/** How a terminal sends what is pasted to a program that asked to be told where it begins and ends. */
const PASTED = /^(\x1b\[200~)([^]*)(\x1b\[201~)$/;
/** What is no text: all that steers a terminal or its program, but tabs and line ends. */
const STEERS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

/**
 * Leaves of what is pasted into a terminal its text: a page says itself what is copied from it, and xterm (5.5) would
 * let it end the paste and type on, with the Enter key.
 */
export const plainPastes: JupyterFrontEndPlugin<void> = {
  id: 'dsportal-lab:plain-pastes',
  description: 'Takes what steers a terminal out of what is pasted into one.',
  autoStart: true,
  activate: (app: JupyterFrontEnd): void => {
    const { terminals } = app.serviceManager;
    const connect = terminals.connectTo.bind(terminals);
    terminals.connectTo = options => {
      const connection = connect(options);
      const send = connection.send.bind(connection);
      connection.send = message => send({ ...message, content: message.content?.map(plain) });
      return connection;
    };
  }
};

function plain<T>(sent: T): T | string {
  const [, begin, text, end] = (typeof sent === 'string' && PASTED.exec(sent)) || [];
  return text === undefined ? sent : `${begin}${text.replace(STEERS, '')}${end}`;
}
