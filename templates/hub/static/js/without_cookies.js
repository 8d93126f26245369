// JupyterLab's files that the hub hands out are the same for everybody: its pages ask for them without cookies, of which
// a page of another host can leave too many for one of those addresses. It stands in the page, before all scripts.
"use strict";

(() => {
  const { get, set, ...rest } = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, "src");
  let folder = "";

  function isOfHub(address) {
    folder ||= JSON.parse(document.getElementById("jupyter-config-data")?.textContent ?? "{}").fullStaticUrl ?? "";
    return folder && address.startsWith(folder);
  }

  Object.defineProperty(HTMLScriptElement.prototype, "src", {
    ...rest,
    get,
    set(address) {
      if (isOfHub(String(address))) this.crossOrigin = "anonymous";
      set.call(this, address);
    }
  });
})();
