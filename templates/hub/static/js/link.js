// The page with a link: a button that copies it. Without this script the link can be marked and copied.
"use strict";

(() => {
  const link = document.getElementById("link");
  const button = document.getElementById("copy-link");
  const status = document.getElementById("link-status");
  if (!link) return;
  link.addEventListener("focus", () => link.select());
  if (!navigator.clipboard) return; // pages without HTTPS have none
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(link.value);
      status.textContent = gettext("Copied.");
    } catch {
      link.focus();
      status.textContent = gettext("The browser did not let it be copied; it is marked, copy it yourself.");
    }
  });
})();
