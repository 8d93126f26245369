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
let openAs = (_path: string): string[] => [];

/** Have each save of a file that this page shows say as what: the page may be older than the session. */
export function sayWhatIsOpen(ask: (path: string) => string[]): void {
  openAs = ask;
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
      const file = input.url.slice(session.length).replace(/\?.*/, ''); // JupyterLab puts the time behind it
      if (input.method === 'PUT' && file.startsWith(FILES)) {
        input.headers.set(OPEN, openAs(decodeURIComponent(file.slice(FILES.length))).join());
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
