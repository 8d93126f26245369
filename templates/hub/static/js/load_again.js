// The page of a hub that restarts: ask for the same address again, and send no form a second time.
"use strict";

(() => {
  const afterMs = 2000;

  setTimeout(() => window.location.replace(window.location.pathname + window.location.search), afterMs);
})();
