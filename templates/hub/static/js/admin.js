// The administration page of JupyterHub: why the hub refused something, and the way into a session.
"use strict";

(() => {
  const page = document.getElementById("dsp-admin");
  const words = document.getElementById("dsp-admin-words");
  const ask = window.fetch.bind(window);

  function tell(text) {
    words.textContent = text;
    const again = text.match(/\/\S*\/again$/);
    if (again) {
      const link = document.createElement("a");
      link.href = `${again[0]}?next=${encodeURIComponent(window.location.pathname)}`;
      link.textContent = gettext("Type it now");
      words.append(" ", link);
    }
    words.hidden = false;
    words.scrollIntoView({ block: "nearest" });
  }

  window.fetch = async (...request) => {
    const answer = await ask(...request);
    if (answer.status === 403) {
      const said = await answer.clone().json().catch(() => ({}));
      tell(said.message || gettext("The hub refused this."));
    }
    return answer;
  };

  // JupyterHub's button (6.1) that unfolds a person shows an arrow, and has no name.
  function nameArrows() {
    const arrows = "button[data-testid$='-collapse-button']:not([aria-label])";
    for (const arrow of page.querySelectorAll(arrows)) {
      arrow.setAttribute("aria-label", gettext("More of {name}", { name: arrow.dataset.testid.replace(/-collapse-button$/, "") }));
    }
  }

  new MutationObserver(nameArrows).observe(page, { childList: true, subtree: true });
  nameArrows();

  // JupyterHub's own "Access Server" leads into the session; here the way is through the page that asks for the reason.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const isAccess = link && link.textContent.trim() === "Access Server";
    const found = isAccess && new URL(link.href).pathname.match(/\/user\/([^/]+)\/(?:([a-z0-9-]+)\/)?/);
    if (found && page.dataset.enterUrl && found[1] !== encodeURIComponent(window.jhdata.user)) {
      event.preventDefault();
      window.location.assign(page.dataset.enterUrl + found[1] + (found[2] ? `/${found[2]}` : ""));
    }
  }, true);
})();
