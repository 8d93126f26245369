// While a person logs in, chooses and waits: the files that JupyterLab begins with come into the browser's cache, once
// in a tab: to read all of them again on the next page would keep the browser from what that page waits for. Without
// cookies, as JupyterLab's page asks for them (without_cookies.js): browsers keep what was asked for with them apart.
"use strict";

const LAB_FILES_AT_ONCE = 3;
const LAB_FILES_ARE_HERE = "dsportal-lab-files"; // the folder of those that this tab has fetched
const labFolder = document.currentScript.dataset.folder;

async function fetchLabFiles() {
  const connection = navigator.connection;
  if (connection && connection.saveData) return;
  if (sessionStorage.getItem(LAB_FILES_ARE_HERE) === labFolder) return;
  const list = await fetch(`${labFolder}first.json`, { priority: "low", credentials: "omit" });
  if (!list.ok) return;
  const names = await list.json();
  const fetchNext = async () => {
    while (names.length) {
      const asked = { priority: "low", cache: "force-cache", credentials: "omit" };
      const answer = await fetch(labFolder + names.shift(), asked);
      await answer.arrayBuffer(); // a body that nobody reads may not be kept
    }
  };
  await Promise.all(Array.from({ length: LAB_FILES_AT_ONCE }, fetchNext));
  sessionStorage.setItem(LAB_FILES_ARE_HERE, labFolder);
}

window.addEventListener("load", () => {
  const whenIdle = window.requestIdleCallback || ((work) => setTimeout(work, 200));
  whenIdle(() => fetchLabFiles().catch(() => {})); // JupyterLab fetches itself what is missing
});
