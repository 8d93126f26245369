// The page of a session that stops looks again while somebody looks at it.
"use strict";

(() => {
  const lookAgainMs = 4000;

  function look() {
    if (document.visibilityState === "visible") window.location.reload();
  }

  window.setInterval(look, lookAgainMs);
})();
