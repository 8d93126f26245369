// My Server: stop it, say so, and show the new state when the hub says that it is gone.
"use strict";

(() => {
  const button = document.getElementById("stop");
  const status = document.getElementById("stop-status");
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
  const lookAgainMs = 1000;

  async function stillThere(url) {
    const answer = await fetch(url, { headers });
    if (!answer.ok) return answer.status !== 404;
    const server = await answer.json();
    return server.ready || server.pending !== null;
  }

  async function followUntilGone(url) {
    if (await stillThere(url)) {
      window.setTimeout(() => followUntilGone(url).catch(failed), lookAgainMs);
    } else {
      window.location.reload();
    }
  }

  function failed(error) {
    button.disabled = false;
    status.textContent = `It could not be stopped: ${error.message}. Try again.`;
  }

  async function stop() {
    button.disabled = true;
    status.textContent = "Stopping; that takes seconds…";
    const answer = await fetch(button.dataset.stopUrl, { method: "DELETE", headers });
    if (!answer.ok) throw new Error((await answer.json()).message || `the hub answered ${answer.status}`);
    await followUntilGone(button.dataset.stopUrl);
  }

  if (button) button.addEventListener("click", () => stop().catch(failed));
})();
