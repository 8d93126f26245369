// A page of another host can leave cookies for one address of this page alone, so many that it is refused (431), while
// the page itself comes. The page that takes them away has to lie where they do: this goes there, and it leads back.
// It stands in the page: a file of its own could be refused by itself. JupyterLab's pages have it, too, and none of them
// goes on without a file of the portal's own part: it holds what keeps somebody's files from being more than shown.
"use strict";

(() => {
  const STATUS = 431;
  const BACK = "dsportal-back"; // as in too_big.html
  const AGAIN_MS = 60_000; // one that stays is not tried without an end
  const OWN_PART = "/lab/extensions/dsportal-lab/";
  const WITHOUT_END = [OWN_PART, "/lab/api/settings"]; // but these: without them a page shows what it should not
  // A page's questions bring more than a tab that goes to the same address, so that one more is refused: this is more.
  const MORE = 2000;

  let isLeaving = false; // more than one may be refused: to another place the page would not lead back from

  function takeThemAway(address) {
    const there = new URL(address, location.href);
    const tried = `dsportal-tried:${there.pathname}`;
    if (isLeaving || there.origin !== location.origin || there.pathname === location.pathname) return;
    const isSoon = Date.now() - Number(sessionStorage.getItem(tried)) < AGAIN_MS;
    if (isSoon && !WITHOUT_END.some((part) => there.pathname.includes(part))) return;
    sessionStorage.setItem(tried, Date.now());
    sessionStorage.setItem(BACK, location.href);
    isLeaving = true;
    location.assign(withMore(there));
  }

  function withMore(address) {
    const there = new URL(address);
    there.searchParams.set("dsportal-more", "x".repeat(MORE));
    return there.href;
  }

  addEventListener(
    "error",
    ({ target }) => {
      const address = target?.localName === "script" ? target.src : target?.localName === "link" ? target.href : "";
      if (!address.startsWith(`${location.origin}/`)) return;
      if (address.includes(OWN_PART)) takeThemAway(address); // where the session's server says else what to do
      else fetch(withMore(address), { method: "HEAD", cache: "no-store" }).catch(() => undefined); // looked at below
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
