// A page of another host can leave cookies for one address of this page alone, so many that it is refused (431), while
// the page itself comes. The page that takes them away has to lie where they do: this goes there, and it leads back.
// It stands in the page: a file of its own could be refused by itself. JupyterLab's pages have it, too.
"use strict";

(() => {
  const STATUS = 431;
  const BACK = "dsportal-back"; // as in too_big.html
  const AGAIN_MS = 60_000; // one that stays is not tried without an end

  function takeThemAway(address) {
    const { origin, pathname, href } = new URL(address, location.href);
    const tried = `dsportal-tried:${pathname}`;
    if (origin !== location.origin || pathname === location.pathname) return;
    if (Date.now() - Number(sessionStorage.getItem(tried)) < AGAIN_MS) return;
    sessionStorage.setItem(tried, Date.now());
    sessionStorage.setItem(BACK, location.href);
    location.assign(href);
  }

  addEventListener(
    "error",
    ({ target }) => {
      const address = target?.localName === "script" ? target.src : target?.localName === "link" ? target.href : "";
      if (!address.startsWith(`${location.origin}/`)) return;
      fetch(address, { method: "HEAD", cache: "no-store" }).catch(() => undefined); // looked at below
    },
    true
  );

  const plain = window.fetch.bind(window);
  window.fetch = async (...asked) => {
    const answer = await plain(...asked);
    if (answer.status === STATUS) takeThemAway(answer.url);
    return answer;
  };

  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (...body) {
    this.addEventListener("load", () => this.status === STATUS && takeThemAway(this.responseURL));
    return send.apply(this, body);
  };
})();
