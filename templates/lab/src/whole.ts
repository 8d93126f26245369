import { Sanitizer } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';

/** As the session's server knows it (portal/forwarding/session_paths.py). */
const HEADER = 'X-Portal-Page';
const WHOLE = 'whole';
/** As portal/downloads/shown_files.py has it: what another window has read is not what this one shows. */
const NUMBER = 'X-Portal-Number';
const number = Array.from(crypto.getRandomValues(new Uint32Array(4)), part => part.toString(36)).join('-');
const OPEN = 'X-Portal-Open';
const FILES = 'api/contents/';
const ON_FILES = ['GET', 'PUT'];
let isOpen = (_path: string): boolean => false;

/** Have each save, and each reading, of a file that this page shows say so: the page may be older than the session. */
export function sayWhatIsOpen(ask: (path: string) => boolean): void {
  isOpen = ask;
}

/**
 * Says with each question that this part of the page is there; without that the session's server answers none for
 * files. A browser may have been kept from loading it, and what Jupyter draws then is not what the portal lets it draw.
 */
export function sayWhole(): void {
  const plain = window.fetch.bind(window);
  const session = PageConfig.getBaseUrl();
  window.fetch = (input, init) => {
    if (input instanceof Request && input.url.startsWith(session)) {
      input.headers.set(HEADER, WHOLE);
      input.headers.set(NUMBER, number);
      const asked = input.url.slice(session.length).replace(/\?.*/, ''); // JupyterLab puts the time behind it
      const file = asked.startsWith(FILES) && decodeURIComponent(asked.slice(FILES.length));
      if (file && ON_FILES.includes(input.method) && isOpen(file)) {
        input.headers.set(OPEN, 'yes');
      }
    }
    return plain(input, init);
  };
}

/** Texts have no links to commands until the settings have said so: those may not have been loaded either. */
export function linkNoCommands(): void {
  const { sanitize, setAllowCommandLinker } = Sanitizer.prototype;
  const told = new WeakSet<Sanitizer>();
  Sanitizer.prototype.setAllowCommandLinker = function (allow: boolean): void {
    told.add(this);
    setAllowCommandLinker.call(this, allow);
  };
  Sanitizer.prototype.sanitize = function (...given: Parameters<typeof sanitize>): string {
    if (!told.has(this)) {
      this.setAllowCommandLinker(false);
    }
    return sanitize.apply(this, given);
  };
}
