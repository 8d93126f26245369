// The page of a starting session tells its end beside the page too: title and icon of the tab, and, asked for by its
// button, a notification of the browser.
"use strict";

window.dspTell = (() => {
  const page = document.getElementById("pending");
  const button = document.getElementById("tell-me");
  const status = document.getElementById("tell-status");
  const kept = "dsportal-tell"; // over a reload of this tab
  const canTell = "Notification" in window && window.isSecureContext && Notification.permission !== "denied";

  function press(isPressed) {
    button.setAttribute("aria-pressed", String(isPressed));
    if (isPressed) sessionStorage.setItem(kept, "1");
    else sessionStorage.removeItem(kept);
  }

  const isPressed = () => button.getAttribute("aria-pressed") === "true";

  async function toggle() {
    if (isPressed()) {
      press(false);
      status.textContent = gettext("You will not be told.");
      return;
    }
    if ((await Notification.requestPermission()) !== "granted") {
      status.textContent = gettext(
        "The browser does not let this page tell you. The title and the icon of this tab change in any case.",
      );
      button.hidden = Notification.permission === "denied";
      return;
    }
    press(true);
    status.textContent = gettext("You will be told, as long as this page stays open in some tab.");
  }

  function notify(title, body) {
    if (!isPressed() || Notification.permission !== "granted") return;
    try {
      const told = new Notification(title, { body, icon: page.dataset.readyIcon, tag: "dsportal-session" });
      told.addEventListener("click", () => window.focus());
    } catch {
      // Chrome on Android takes notifications from service workers alone: the title of the tab has changed.
    }
    press(false);
  }

  button.hidden = !canTell;
  if (canTell) {
    press(Boolean(sessionStorage.getItem(kept)) && Notification.permission === "granted");
    button.addEventListener("click", () => toggle().catch(() => {}));
  }

  function withdraw() {
    button.hidden = true;
    status.textContent = "";
  }

  return {
    ready(title) {
      document.title = title;
      document.querySelector("link[rel=icon]").href = page.dataset.readyIcon;
      notify(title, gettext("JupyterLab opens when you come back to its tab."));
      withdraw();
    },
    over(title, words) {
      document.title = title;
      notify(title, words);
      withdraw();
    },
  };
})();
