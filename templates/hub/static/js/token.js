// The page of tokens: make one, copy it, revoke one; what happened is said in words, and the keyboard stays where it is.
"use strict";

(() => {
  const page = document.getElementById("tokens");
  const form = document.getElementById("request-token-form");
  const button = form.querySelector("button[type=submit]");
  const area = document.getElementById("token-area");
  const result = document.getElementById("token-result");
  const copy = document.getElementById("token-copy");
  const fault = document.getElementById("token-fault");
  const status = document.getElementById("token-status");
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token, "Content-Type": "application/json" };

  async function ask(method, url, body) {
    const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    if (answer.ok) return answer.status === 204 ? null : answer.json();
    const told = await answer.json().catch(() => ({}));
    throw new Error((told.message || "").replace(/^"(.*)"$/, "$1") || gettext("the hub answered {status}", { status: answer.status }));
  }

  function blame(words) {
    const line = document.createElement("p");
    line.className = "alert alert-danger mt-4 mb-0 dsp-words";
    line.textContent = words;
    fault.replaceChildren(line);
  }

  async function make() {
    const value = (id) => document.getElementById(id).value.trim();
    const scopes = value("token-scopes").split(/[\s,]+/).filter(Boolean);
    const wanted = {
      note: value("token-note") || "Requested via token page",
      expires_in: parseInt(value("token-expiration-seconds"), 10) || null,
      ...(scopes.length ? { scopes } : {}),
    };
    fault.replaceChildren();
    button.disabled = true;
    result.textContent = (await ask("POST", page.dataset.url, wanted)).token;
    copy.hidden = !navigator.clipboard;
    area.hidden = false;
    area.focus();
    status.textContent = gettext("The token was made. It is in the list below when you load this page again.");
  }

  async function revoke(pressed) {
    const row = pressed.closest(".token-row");
    const note = row.querySelector(".token-note").textContent;
    pressed.disabled = true;
    try {
      await ask("DELETE", `${page.dataset.url}/${row.dataset.tokenId}`);
    } catch (error) {
      pressed.disabled = false;
      status.textContent = gettext("“{note}” could not be revoked: {why}", { note, why: error.message });
      return;
    }
    const next = row.nextElementSibling || row.previousElementSibling;
    const heading = row.closest("section").querySelector("h2");
    row.remove();
    status.textContent = gettext("“{note}” was revoked.", { note });
    (next ? next.querySelector(".revoke-token-btn") : heading).focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    make()
      .catch((error) => blame(gettext("No token was made: {why}", { why: error.message })))
      .finally(() => {
        button.disabled = false;
      });
  });
  copy.addEventListener("click", () => {
    navigator.clipboard.writeText(result.textContent).then(
      () => {
        status.textContent = gettext("The token is copied.");
      },
      () => {
        status.textContent = gettext("This browser does not let the page copy it: select it, and copy it yourself.");
      },
    );
  });
  document.querySelectorAll(".revoke-token-btn").forEach((one) => one.addEventListener("click", () => revoke(one)));
})();
