// My Server: stop a session, say so, and show the new state when the hub says that it is gone.
"use strict";

(() => {
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
  const lookAgainMs = 1000;

  async function stillThere(url) {
    const answer = await fetch(url, { headers });
    if (!answer.ok) return answer.status !== 404;
    const server = await answer.json();
    return server.ready || server.pending !== null;
  }

  function follow(button) {
    const url = button.dataset.stopUrl;
    const status = document.getElementById(button.dataset.status);

    function failed(error) {
      button.disabled = false;
      status.textContent = gettext("It could not be stopped: {why}. Try again.", { why: error.message });
    }

    async function followUntilGone() {
      if (await stillThere(url)) {
        window.setTimeout(() => followUntilGone().catch(failed), lookAgainMs);
      } else {
        window.location.reload();
      }
    }

    async function stop() {
      button.disabled = true;
      status.textContent = gettext("Stopping; that takes seconds…");
      const answer = await fetch(url, { method: "DELETE", headers });
      if (!answer.ok) throw new Error((await answer.json()).message || gettext("the hub answered {status}", { status: answer.status }));
      await followUntilGone();
    }

    button.addEventListener("click", (event) => {
      event.preventDefault(); // without scripts it sends its form
      stop().catch(failed);
    });
  }

  document.querySelectorAll("button[data-stop-url]").forEach(follow);
})();
