// On a page that says what does not answer: each line goes when it is over.
"use strict";

(() => {
  const shown = document.getElementById("dsp-silences");
  const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
  const lookAgainMs = 20000;

  async function look() {
    if (document.visibilityState !== "visible") return;
    const answer = await fetch(shown.dataset.url, { headers, cache: "no-store" });
    if (!answer.ok) return;
    const still = (await answer.json()).silences.map((one) => one.what);
    for (const line of shown.querySelectorAll("[data-what]")) {
      if (!still.includes(line.dataset.what)) line.remove();
    }
    if (!shown.childElementCount) {
      shown.remove();
      window.clearInterval(looking);
    }
  }

  const looking = window.setInterval(() => look().catch(() => {}), lookAgainMs);
})();
