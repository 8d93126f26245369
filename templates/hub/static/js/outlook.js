// The form of the instance options: what is free now, and when each choice would start, looked up again while the page
// is seen. Without this script the form shows what was known when it was loaded.
"use strict";

(() => {
  const form = document.getElementById("spawn_form");
  const section = document.getElementById("outlook");
  if (!section) return;
  const everyMs = 10000;
  const seldomMs = 60000; // of a page in which nobody has done anything for a while
  const aWhileMs = 180000;
  const soonMs = 1500; // while nothing is known yet
  const afterChangeMs = 250;
  const staysMs = 2500; // a choice that was just made is looked at twice more: then the hub asks Slurm itself
  const withinMs = 8000;
  const unsent = ["_xsrf"];
  let timer = 0;
  let asking = null;
  let failures = 0;
  let looksSoon = 0;
  let usedAt = Date.now();

  const element = (id) => document.getElementById(id);

  // A text with moments in it, as the hub sends it: strings, and objects with a time.
  function parts(text) {
    return text.map((part) => {
      if (typeof part === "string") return document.createTextNode(part);
      const time = document.createElement("time");
      time.dateTime = part.at;
      localTime(time);
      return time;
    });
  }

  // Screen readers hear what changed, not every look.
  function write(target, text) {
    const made = document.createElement("span");
    made.append(...parts(text));
    if (target.textContent.trim() !== made.textContent) target.replaceChildren(...made.childNodes);
  }

  function showRow(row) {
    const place = [...section.querySelectorAll("[data-partition]")].find(
      (one) => one.dataset.partition === row.partition && one.dataset.gpu === row.gpu,
    );
    if (!place) return;
    const groups = row.starts.map((start) => {
      const group = document.createElement("dd");
      const title = document.createElement("strong");
      title.textContent = start.title;
      group.className = `dsp-start-${start.state}`;
      group.append(title, " ", ...parts(start.words));
      return group;
    });
    place.replaceChildren(place.querySelector("dt"), ...groups);
  }

  function showPartitions(partitions) {
    form.querySelectorAll("[data-free]").forEach((free) => {
      const known = partitions[free.dataset.free];
      if (known) write(free, [known.free]);
    });
    const chosen = form.querySelector("input[name=partition]:checked");
    const limit = chosen && partitions[chosen.value];
    if (limit) write(element("hours-why"), limit.hours);
  }

  function show(outlook, link) {
    write(element("outlook-as-of"), [outlook.as_of]);
    write(element("outlook-hours"), [`${outlook.hours} h`]);
    write(element("outlook-choice"), outlook.choice.words);
    outlook.rows.forEach(showRow);
    showPartitions(outlook.partitions);
    const fewer = element("outlook-fewer");
    fewer.hidden = !outlook.fewer.gpus;
    write(fewer.querySelector("span"), [outlook.fewer.words]);
    const anchor = fewer.querySelector("a");
    anchor.textContent = outlook.fewer.title;
    const opens = new URLSearchParams(location.search).get("next");
    if (link) anchor.href = opens ? `${link}&next=${encodeURIComponent(opens)}` : link;
    section.dataset.known = String(outlook.is_known);
  }

  function choices() {
    const given = new URLSearchParams(new FormData(form));
    unsent.forEach((name) => given.delete(name));
    return given;
  }

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    const signal = AbortSignal.any([asking.signal, AbortSignal.timeout(withinMs)]);
    const headers = { "X-XSRFToken": window.jhdata.xsrf_token };
    const answer = await fetch(`${form.dataset.outlook}?${choices()}`, { headers, signal });
    if (answer.status === 429) return { againMs: 1000 * (Number(answer.headers.get("Retry-After")) || 1) };
    if (!answer.ok) throw new Error(answer.statusText);
    return answer.json();
  }

  async function look() {
    if (!section.isConnected) return;
    if (document.hidden) return; // it goes on when the page is seen again
    let next = Date.now() - usedAt > aWhileMs ? seldomMs : everyMs;
    try {
      const outlook = await ask();
      failures = 0;
      if (outlook.againMs) {
        next = outlook.againMs; // another tab looks in this moment: what is shown stays
      } else {
        show(outlook, outlook.fewer_link);
        if (outlook.age_s === null) next = soonMs;
        else if (looksSoon > 0) {
          looksSoon -= 1;
          next = staysMs;
        }
      }
    } catch (error) {
      if (error.name === "AbortError") return; // a newer look is under way
      failures += 1;
      write(element("outlook-as-of"), [gettext("The portal does not answer now; this is what it said last.")]);
      next = everyMs * Math.min(failures + 1, 6);
    }
    later(next);
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(look, ms);
  }

  function lookSoon(ms) {
    usedAt = Date.now();
    later(ms);
  }

  form.addEventListener("change", () => {
    looksSoon = 2;
    lookSoon(afterChangeMs);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : lookSoon(0)));
  later(section.dataset.known === "false" ? soonMs : everyMs);
})();
