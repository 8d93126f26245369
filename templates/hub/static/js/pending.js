// The page of a starting session follows the hub's event stream: progress, words, and how it ended.
"use strict";

(() => {
  const page = document.getElementById("pending");
  const message = document.getElementById("progress-message");
  const bar = document.getElementById("progress-bar");
  const log = document.getElementById("progress-log");
  const heard = document.getElementById("pending-heard");
  const cancel = document.getElementById("stop-server-btn");
  const status = document.getElementById("stop-status");
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
  const lookAgainMs = 3000;
  const giveWayMs = 30000;
  const remembered = 200; // lines of what happened
  let following = null;

  function element(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.textContent = text;
    return made;
  }

  // The first line says what happens; further lines are Slurm's own words or the end of a log. What is heard, and kept
  // in the list, is the same without what changes each second.
  function say(text, short) {
    const [first, ...others] = text.trim().split("\n");
    const parts = [element("p", "dsp-words", first)];
    if (others.join("").trim()) {
      const details = element("pre", "dsp-log", others.join("\n"));
      details.tabIndex = 0;
      details.setAttribute("role", "region");
      details.setAttribute("aria-label", gettext("Details"));
      parts.push(details);
    }
    message.replaceChildren(...parts);
    hear(short || first);
  }

  // Written only when it is new: a screen reader says it then.
  function hear(line) {
    if (heard.textContent === line) return;
    heard.textContent = line;
    remember(line);
  }

  function remember(line) {
    if (log.lastElementChild && log.lastElementChild.lastChild.textContent === line) return;
    const entry = document.createElement("li");
    entry.append(element("time", "", new Date().toLocaleTimeString()), element("span", "", line));
    log.append(entry);
    if (log.childElementCount > remembered) log.firstElementChild.remove();
  }

  function advance(percent) {
    bar.style.width = `${percent}%`;
    bar.setAttribute("aria-valuenow", percent);
  }

  function over(title, text) {
    document.getElementById("pending-title").textContent = title;
    document.getElementById("pending-hint").hidden = true;
    document.getElementById("pending-options").hidden = false;
    document.getElementById("pending-change")?.remove();
    cancel.hidden = true;
    status.textContent = "";
    say(text, `${title}. ${text.trim().split("\n")[0]}`);
    window.dspTell.over(title, text.trim().split("\n")[0]);
  }

  function failed({ message: text, turn, advice, id, record: key }) {
    const reason = text.replace(/^Spawn failed(: )?/, "").trim();
    bar.classList.add("bg-danger");
    over(gettext("The session did not start"), reason || gettext("The hub gave no reason; its log has it."));
    if (key) {
      const record = document.getElementById("pending-record");
      record.href += `#ended-${key}`;
      record.hidden = false;
    }
    if (!id) return;
    const whose = element("p", "dsp-turn", ` ${advice}`);
    whose.prepend(element("strong", "", turn));
    const number = element("p", "dsp-failure-id", `${gettext("Id of this answer, in the hub’s log too:")} `);
    number.append(element("code", "", id));
    message.append(whose, number);
  }

  // A tab that nobody looks at says by its title and icon that it is ready, and opens JupyterLab when somebody does.
  function ready() {
    say(gettext("JupyterLab is ready."));
    window.dspTell.ready(gettext("Ready: your session"));
    if (document.visibilityState === "visible") {
      window.location.reload();
      return;
    }
    document.addEventListener("visibilitychange", () => window.location.reload(), { once: true });
  }

  function take(event) {
    if (event.progress !== undefined) advance(event.progress);
    if (event.ready) {
      ready();
    } else if (event.failed) {
      failed(event);
    } else if (event.message) {
      say(event.message, event.heard);
    }
    return Boolean(event.ready || event.failed);
  }

  // The hub's events, one JSON object each. No EventSource: that could send the token in the address only.
  async function* events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) yield JSON.parse(line.slice("data:".length));
      }
    }
  }

  async function read(signal) {
    const answer = await fetch(page.dataset.progressUrl, { headers, signal, cache: "no-store" });
    // A refused stream stays closed: the page itself then knows what became of the session.
    if (!answer.ok) return "reload";
    for await (const event of events(answer.body)) {
      if (take(event)) return "over";
      if (event.later) return "later"; // newer windows follow this start
    }
    return "again";
  }

  async function follow() {
    following = new AbortController();
    const { signal } = following;
    const outcome = await read(signal).catch(() => "again");
    if (signal.aborted || outcome === "over") return;
    if (outcome !== "later") say(gettext("The portal does not answer at the moment; this page goes on trying."));
    window.setTimeout(() => {
      if (signal.aborted) return;
      if (outcome === "reload") window.location.reload();
      else follow();
    }, outcome === "later" ? giveWayMs : lookAgainMs);
  }

  // The stream is left first: of a start that is interrupted it says "ready" (JupyterHub 6.1.1).
  async function stop() {
    following.abort();
    cancel.disabled = true;
    status.textContent = gettext("Cancelling: the job is taken back…");
    const answer = await fetch(page.dataset.serverUrl, { method: "DELETE", headers });
    if (!answer.ok) throw new Error((await answer.json()).message || gettext("the hub answered {status}", { status: answer.status }));
    advance(0);
    over(gettext("The start was cancelled"), gettext("Nothing runs for you now."));
  }

  cancel.addEventListener("click", () => {
    stop().catch((error) => {
      cancel.disabled = false;
      status.textContent = gettext("It could not be cancelled: {why}. Try again.", { why: error.message });
      follow();
    });
  });
  follow();
})();
