// The page of a hub that restarts: ask for the same address again, whole as it is, and send no form a second time.
// Of an address such as http://PORTAL//HOST/ the path alone would lead to another host.
"use strict";

(() => {
  const afterMs = 2000;

  setTimeout(() => window.location.replace(window.location.href.split("#")[0]), afterMs);
})();
