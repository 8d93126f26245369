// Which presses of the mouse, of a pen and of a finger count. A window of somebody else's that lay over this page may
// close, or move, under the first click of a double-click: the second one, or one a moment later, was not meant for
// what it meets here. It does nothing, nor do those that the browser counts on from it; the next one does. Keys are not
// looked at.
// JupyterLab has it, too: templates/lab/src/firstclick.js is a link to it.
"use strict";

(() => {
  const SOON_MS = 500; // within which clicks are a double-click, and in which Chromium guards its own questions
  let since = -Infinity; // the window has the focus, or is in sight
  let over; // since when the pointer has been over this page
  let isAway = false; // the focus is in another window, or in a frame
  let isMeant = false; // what the pointer does began with a press that counts
  let isDown = false; // and goes on
  let clicks = 0; // of the last press that counts, as the browser counts them across windows and pages

  const isLong = (start, event) => event.timeStamp - start >= SOON_MS;

  function counts(event) {
    if (!isAway && document.hasFocus() && isLong(since, event)) return true;
    // In a window beside the one that is worked in, the press itself brings the focus.
    return event.pointerType !== "touch" && over !== undefined && isLong(over, event);
  }

  function leave() {
    over = undefined;
    isMeant = isDown; // what is being dragged is let go
    clicks = 0;
  }

  function come(event) {
    since = event.timeStamp;
  }

  function point(event) {
    if (event.pointerType !== "touch") over ??= event.timeStamp;
  }

  function judge(event) {
    const isPointers = event.type.startsWith("pointer");
    if (!event.isTrusted || (!isPointers && event.detail === 0)) return; // by a script, by a key or in place of one
    if (event.type === "pointerdown") {
      isMeant = counts(event);
      isDown = isMeant;
      if (!isMeant && isAway && document.hasFocus()) window.focus(); // no finger would take it from a frame of this page
    }
    if (event.type === "pointerup") isDown = false;
    if (event.type === "mousedown") {
      isMeant &&= event.detail <= clicks + 1; // the first of two, or of three, was on another page
      if (isMeant) clicks = event.detail;
    }
    if (isMeant) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  addEventListener("focus", (event) => {
    isAway = false;
    come(event);
  });
  addEventListener("blur", () => {
    isAway = true;
    if (!document.hasFocus()) leave(); // and not for a frame of this page
  });
  addEventListener("visibilitychange", (event) => {
    leave();
    come(event);
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) come(event);
  });
  document.documentElement.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") over = undefined;
  });
  for (const type of ["pointerover", "pointermove"]) addEventListener(type, point, true);
  for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "dblclick", "auxclick"]) {
    addEventListener(type, judge, true);
  }
})();
