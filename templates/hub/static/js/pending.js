// The page of a starting session follows the hub's event stream: progress, words, and how it ended.
"use strict";

(() => {
  const page = document.getElementById("pending");
  const message = document.getElementById("progress-message");
  const bar = document.getElementById("progress-bar");
  const log = document.getElementById("progress-log");
  const cancel = document.getElementById("stop-server-btn");
  const status = document.getElementById("stop-status");
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
  const lookAgainMs = 3000;
  let events = null;

  function element(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.textContent = text;
    return made;
  }

  // The first line says what happens; further lines are Slurm's own words or the end of a log.
  function say(text) {
    const [first, ...others] = text.trim().split("\n");
    const parts = [element("p", "dsp-words", first)];
    if (others.join("").trim()) {
      const details = element("pre", "dsp-log", others.join("\n"));
      details.tabIndex = 0;
      details.setAttribute("role", "region");
      details.setAttribute("aria-label", "Details");
      parts.push(details);
    }
    message.replaceChildren(...parts);
    remember(first);
  }

  function remember(line) {
    if (log.lastElementChild && log.lastElementChild.lastChild.textContent === line) return;
    const entry = document.createElement("li");
    entry.append(element("time", "", new Date().toLocaleTimeString()), element("span", "", line));
    log.append(entry);
  }

  function advance(percent) {
    bar.style.width = `${percent}%`;
    bar.setAttribute("aria-valuenow", percent);
  }

  function over(title, text) {
    document.getElementById("pending-title").textContent = title;
    document.getElementById("pending-hint").hidden = true;
    document.getElementById("pending-options").hidden = false;
    document.title = title;
    cancel.hidden = true;
    status.textContent = "";
    say(text);
  }

  function failed(text) {
    bar.classList.add("bg-danger");
    over("The session did not start", text.replace(/^Spawn failed: /, ""));
  }

  function follow() {
    events = new EventSource(page.dataset.progressUrl);
    events.onmessage = (received) => {
      const event = JSON.parse(received.data);
      if (event.progress !== undefined) advance(event.progress);
      if (event.ready || event.failed) events.close();
      if (event.ready) {
        say("JupyterLab is ready.");
        window.location.reload();
      } else if (event.failed) {
        failed(event.message);
      } else if (event.message) {
        say(event.message);
      }
    };
    events.onerror = () => {
      say("The portal does not answer at the moment; this page goes on trying.");
      // A refused stream stays closed: the page itself then knows what became of the session.
      if (events.readyState === EventSource.CLOSED) window.setTimeout(() => window.location.reload(), lookAgainMs);
    };
  }

  // The stream is left first: of a start that is interrupted it says "ready" (JupyterHub 6.1.1).
  async function stop() {
    events.close();
    cancel.disabled = true;
    status.textContent = "Cancelling: the job is taken back…";
    const answer = await fetch(page.dataset.serverUrl, { method: "DELETE", headers });
    if (!answer.ok) throw new Error((await answer.json()).message || `the hub answered ${answer.status}`);
    advance(0);
    over("The start was cancelled", "Nothing runs for you now.");
  }

  cancel.addEventListener("click", () => {
    stop().catch((error) => {
      cancel.disabled = false;
      status.textContent = `It could not be cancelled: ${error.message}. Try again.`;
      follow();
    });
  });
  follow();
})();
