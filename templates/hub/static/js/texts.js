// Before all other scripts: their texts in the language of the page, which the page brings with it.
"use strict";

const dspTexts = JSON.parse(document.getElementById("dsp-texts").textContent);

// An English text as the page's language says it, with `{name}` filled in.
function gettext(text, values = {}) {
  return (dspTexts[text] || text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
