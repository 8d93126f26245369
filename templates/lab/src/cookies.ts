const TOKEN = '_xsrf';
const LIKE_IT = /\b_xsrf=/; // what JupyterLab and its file browser may take for it: they trim, and look inside
const NUMBER = 'jupyterhub-session-id';
const LOOK_MS = 2000;

/**
 * Takes away what pages of other hosts have left for all of the domain in the place of two cookies. JupyterLab sends
 * the first `_xsrf` as the session's own: with another one the session would refuse whatever the person does, also to
 * save. The session's own is for this host alone, and no script sees the hub's number of the browser's session, so both
 * stay: a number that is seen here is somebody else's, also where it lay here before this page.
 */
export function keepOwnToken(): void {
  const look = (): void => {
    const found = document.cookie.split('; ');
    const names = found.map(nameOf);
    if (names.filter(name => name === TOKEN).length > 1) {
      takeAway(TOKEN);
    }
    found.filter(cookie => LIKE_IT.test(cookie) && nameOf(cookie) !== TOKEN).forEach(cookie => takeAway(nameOf(cookie)));
    if (names.includes(NUMBER)) {
      takeAway(NUMBER);
    }
  };
  look();
  window.setInterval(look, LOOK_MS); // the address, and with it what is sent, changes with what is open
  window.addEventListener('focus', look);
}

function nameOf(cookie: string): string {
  return cookie.split('=', 1).join();
}

/** A cookie is known by its name, domain, path and, for some, by what it is a part of. */
function takeAway(name: string): void {
  const labels = location.hostname.split('.');
  const domains = labels.map((_, start) => labels.slice(start).join('.'));
  const folders = location.pathname.split('/').map((_, end, all) => all.slice(0, end + 1).join('/'));
  const paths = new Set(folders.flatMap(folder => [folder, `${folder}/`]));
  for (const domain of domains) {
    for (const path of paths) {
      for (const kind of ['', '; secure; partitioned']) {
        document.cookie = `${name}=gone; max-age=0; domain=${domain}; path=${path || '/'}${kind}`;
      }
    }
  }
}
