// On every page: times in the reader's own zone, buttons that say what they are doing, and the space bar for all of them.
"use strict";

function localTime(element) {
  const moment = new Date(element.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  const today = moment.toDateString() === new Date().toDateString();
  const day = today ? {} : { weekday: "short", day: "numeric", month: "short" };
  element.textContent = moment.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit" });
  element.title = moment.toLocaleString();
}

function sayBusy(form) {
  const button = form.querySelector("button[type=submit]");
  form.addEventListener("submit", (event) => {
    if (event.submitter?.hasAttribute("formaction")) return; // another button, for something else
    button.disabled = true;
    button.dataset.label = button.textContent;
    button.textContent = form.dataset.busy;
  });
  // The browser's Back button brings the page as it was left.
  window.addEventListener("pageshow", () => {
    button.disabled = false;
    button.textContent = button.dataset.label || button.textContent;
  });
}

function warnInsecure(warning) {
  warning.hidden = window.isSecureContext;
}

// A link that is called a button is pressed like one; a browser follows it for the Enter key alone.
function pressWithSpace(event) {
  const link = event.key === " " && event.target.closest?.("a[role=button]");
  if (!link) return;
  event.preventDefault(); // or the page scrolls
  if (!event.repeat) link.click();
}

document.addEventListener("keydown", pressWithSpace);
document.querySelectorAll("time.dsp-time").forEach(localTime);
document.querySelectorAll("form[data-busy]").forEach(sayBusy);
document.querySelectorAll("#insecure-login-warning").forEach(warnInsecure);
