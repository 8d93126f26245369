// Before all other scripts: the token against forged requests travels in a header. JupyterHub's scripts write it into
// the address of each request, and addresses are kept in logs.
"use strict";

(() => {
  const NAME = "_xsrf";
  const HEADER = "X-XSRFToken";

  function apart(address) {
    const url = new URL(address, location.href);
    const token = url.origin === location.origin ? url.searchParams.get(NAME) : null;
    if (token === null) return { url: address, token };
    url.searchParams.delete(NAME);
    return { url: url.href, token };
  }

  const { fetch } = window;
  window.fetch = (request, options = {}) => {
    if (request instanceof Request) return fetch(request, options);
    const { url, token } = apart(request);
    if (token === null) return fetch(request, options);
    const headers = new Headers(options.headers);
    headers.set(HEADER, token);
    return fetch(url, { ...options, headers });
  };

  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    const { url, token } = apart(address);
    open.call(this, method, url, ...rest);
    if (token !== null) this.setRequestHeader(HEADER, token);
  };
})();
