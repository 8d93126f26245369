// At the hub's address no service worker has anything to do. One may be left there by a session's page, from before each
// person had an address of their own, or from a portal that let sessions have one: it would answer for that session still.
// It stands in the page: a file of its own could be refused by itself.
"use strict";

(() => {
  const { base } = document.currentScript.dataset; // other things may be at the same host, with workers of their own
  const isOurs = ({ scope }) => new URL(scope).pathname.startsWith(base);
  navigator.serviceWorker?.getRegistrations().then(
    (found) => found.filter(isOurs).forEach((one) => one.unregister()),
    () => {}, // a browser that keeps none
  );
})();
