"use strict";(self.rspackChunkdsportal_lab=self.rspackChunkdsportal_lab||[]).push([[266],{"./node_modules/css-loader/dist/cjs.js!./style/index.css"(o,e,t){var r=t("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=t.n(r),n=t("./node_modules/css-loader/dist/runtime/api.js"),l=(t.n(n))()(a());l.push([o.id,`/* What somebody else wrote is drawn in its own place: with a class of JupyterLab's own it could lie over controls and
   code (JupyterLab 4.6). What one has run oneself may draw beyond it, as before. */
.jp-OutputArea-output:not(.jp-mod-trusted),
.jp-RenderedHTMLCommon:not(.jp-mod-trusted),
.jp-RenderedLatex:not(.jp-mod-trusted) {
  contain: layout paint;
}

/* JupyterLab's toolbar above the files wraps: a button that comes and goes there would move the files under the
   pointer, between the two clicks of a double click. So its place is kept, and made in the first row. */
body:not([data-notebook]) .jp-FileBrowser-toolbar .dsportal-TensorBoardButton.lm-mod-hidden,
body:not([data-notebook]) .jp-FileBrowser-toolbar .dsportal-TensorBoardButton .lm-mod-hidden {
  display: inline-flex !important;
  visibility: hidden;
}

body:not([data-notebook]) .jp-FileBrowser-toolbar .jp-ToolbarButtonComponent[data-command='launcher:create'] {
  width: 36px;
}

.dsportal-TensorBoardButton .jp-ToolbarButtonComponent-label {
  margin-inline-start: 5px;
}

.dsportal-Differences pre {
  max-height: 60vh;
  max-width: 80vw;
  overflow: auto;
}

.dsportal-FolderInput label {
  display: flex;
  flex-direction: column;
  gap: 8px;
}

.dsportal-Gallery {
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  overflow: auto;
  padding: 24px 32px;
}

.dsportal-Gallery h1 {
  font-size: 1.6em;
  font-weight: 600;
  margin: 0 0 4px;
}

.dsportal-Gallery h2 {
  border-top: 1px solid var(--jp-border-color2);
  font-size: 1.15em;
  font-weight: 600;
  margin: 24px 0 12px;
  padding-top: 16px;
}

.dsportal-Gallery h3 {
  font-size: 1.08em;
  font-weight: 600;
  margin: 0;
}

.dsportal-Gallery p {
  line-height: 1.45;
  margin: 0;
}

.dsportal-Gallery-search {
  display: flex;
  flex-wrap: wrap;
  gap: 8px;
  margin: 16px 0 8px;
}

.dsportal-Gallery-search .jp-mod-styled {
  border: 1px solid var(--jp-border-color1);
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  height: 32px;
  padding: 0 8px;
}

.dsportal-Gallery-search input.jp-mod-styled {
  flex: 0 1 320px;
}

.dsportal-Gallery-search select.jp-mod-styled {
  appearance: auto;
  flex: 0 1 200px;
  width: auto;
}

.dsportal-Gallery-status,
.dsportal-Gallery-framework,
.dsportal-Gallery-fit,
.dsportal-Gallery dt {
  color: var(--jp-ui-font-color2);
}

.dsportal-Gallery-cards {
  display: grid;
  gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr));
  list-style: none;
  margin: 0;
  padding: 0;
}

.dsportal-Gallery-card {
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color2);
  border-radius: 6px;
  display: flex;
  flex-direction: column;
  gap: 12px;
  padding: 16px;
}

.dsportal-Gallery-head {
  align-items: center;
  display: flex;
  gap: 12px;
}

.dsportal-Gallery-mark {
  align-items: center;
  background: var(--jp-layout-color2);
  border-radius: 6px;
  display: flex;
  flex: none;
  font-weight: 600;
  height: 40px;
  justify-content: center;
  width: 40px;
}

.dsportal-Gallery-summary {
  flex: 1;
}

.dsportal-Gallery dl {
  display: grid;
  gap: 4px;
  margin: 0;
}

.dsportal-Gallery dl div {
  display: grid;
  grid-template-columns: 52px 1fr;
}

.dsportal-Gallery dd {
  margin: 0;
}

.dsportal-Gallery-fits::before {
  color: var(--jp-success-color0);
  content: '✓ ' / '';
  font-weight: 700;
}

.dsportal-Gallery-buttons {
  display: flex;
  gap: 8px;
}

.dsportal-Status {
  align-items: center;
  color: var(--jp-ui-font-color1);
  display: flex;
  font-size: var(--jp-ui-font-size1);
  padding: 0 6px;
  white-space: nowrap;
}

.dsportal-Status.dsportal-mod-soon {
  color: var(--jp-warn-color0);
  font-weight: 600;
}

.dsportal-Usage button,
.dsportal-TimeLeft button {
  background: none;
  border: 0;
  color: inherit;
  cursor: pointer;
  font: inherit;
  padding: 0;
}

.dsportal-Announcement {
  align-items: center;
  background: var(--jp-warn-color3);
  border: 1px solid var(--jp-border-color2);
  bottom: 0;
  color: var(--jp-ui-font-color1);
  display: flex;
  font-size: var(--jp-ui-font-size1);
  gap: 16px;
  justify-content: space-between;
  left: 0;
  max-height: 30vh;
  overflow: auto;
  padding: 6px 12px;
  position: fixed;
  right: 0;
  z-index: 1000;
}

.dsportal-Announcement.lm-mod-hidden {
  display: none;
}

.dsportal-Announcement.dsportal-mod-lab {
  bottom: 24px; /* above the status bar */
}

.dsportal-Announcement span {
  overflow-wrap: anywhere;
  white-space: pre-line;
}

.dsportal-Announcement button {
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  color: inherit;
  cursor: pointer;
  flex: none;
  font: inherit;
  padding: 2px 8px;
}

.dsportal-MoreTime select {
  display: block;
  margin: 8px 0;
  width: 100%;
}

.dsportal-UsagePanel {
  color: var(--jp-ui-font-color1);
  min-width: 320px;
}

.dsportal-UsagePanel dl {
  display: grid;
  gap: 8px 16px;
  grid-template-columns: auto 1fr;
  margin: 0 0 16px;
}

.dsportal-UsagePanel dt {
  color: var(--jp-ui-font-color2);
}

.dsportal-UsagePanel dd {
  margin: 0;
  overflow-wrap: anywhere;
}

.dsportal-UsagePanel meter {
  display: block;
  width: 100%;
}

.dsportal-UsagePanel table {
  border-collapse: collapse;
  margin-bottom: 16px;
  width: 100%;
}

.dsportal-UsagePanel th,
.dsportal-UsagePanel td {
  border-bottom: 1px solid var(--jp-border-color2);
  padding: 4px 8px 4px 0;
  text-align: start;
}

.dsportal-RunningOne .jp-RunningSessions-itemDetail {
  flex: none;
}

.dsportal-UsagePanel img {
  height: 24px;
  margin-inline-end: 8px;
  vertical-align: middle;
  width: 24px;
}

.dsportal-UsagePanel small {
  color: var(--jp-ui-font-color2);
  display: block;
  overflow-wrap: anywhere;
}

/* A tile is as wide as its longest word: no word is broken, and a path is at its slashes. */
.jp-LauncherCard {
  max-width: 16em;
  min-width: min-content;
}

.jp-LauncherCard-label p {
  overflow-wrap: break-word;
  word-break: normal;
}

.jp-LauncherCard[data-dsportal-test] {
  position: relative;
}

.jp-LauncherCard[data-dsportal-test]::after,
.lm-Menu-item[data-dsportal-test='fault'] .lm-Menu-itemLabel::after {
  align-items: center;
  border-radius: 50%;
  color: #fff;
  display: flex;
  font-size: 11px;
  font-weight: 700;
  height: 16px;
  justify-content: center;
  width: 16px;
}

.jp-LauncherCard[data-dsportal-test]::after {
  position: absolute;
  right: 5px;
  top: 5px;
}

.jp-LauncherCard[data-dsportal-test='good']::after {
  background: #1b7a3d;
  content: '✓' / 'tested';
}

.lm-Menu-item[data-dsportal-test='fault'] .lm-Menu-itemLabel::after {
  display: inline-flex;
  margin-inline-start: 8px;
}

.jp-LauncherCard[data-dsportal-test='fault']::after,
.lm-Menu-item[data-dsportal-test='fault'] .lm-Menu-itemLabel::after {
  background: #a84300;
  content: '!' / 'its last test found a fault';
}

.dsportal-Panel,
.dsportal-Log {
  background: var(--jp-layout-color1);
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  overflow: auto;
  padding: 12px;
}

.dsportal-Panel h2 {
  font-size: 1.15em;
  margin: 0 0 12px;
}

.dsportal-Panel ul {
  list-style: none;
  margin: 0;
  padding: 0;
}

.dsportal-Panel li {
  border-top: 1px solid var(--jp-border-color2);
  overflow-wrap: anywhere;
  padding: 8px 0;
}

.dsportal-Panel li p {
  margin: 4px 0 8px;
}

.dsportal-Panel li button {
  margin-inline-end: 6px;
}

.jp-Dialog .dsportal-Log {
  max-height: 60vh;
  width: 70vw;
}

.dsportal-Log pre {
  white-space: pre-wrap;
}

.dsportal-Form {
  display: grid;
  gap: 10px 16px;
  grid-template-columns: 1fr 1fr;
}

.dsportal-Form label {
  display: flex;
  flex-direction: column;
  gap: 4px;
}

.dsportal-Form .dsportal-mod-wide,
.dsportal-Form-fault {
  grid-column: 1 / -1;
}

.dsportal-Form p {
  margin: 0;
}

.dsportal-Form-fault {
  border-inline-start: 3px solid var(--jp-error-color1);
  line-height: 1.45;
  margin: 0;
  overflow-wrap: anywhere;
  padding-inline-start: 8px;
}

.dsportal-Form {
  max-width: 640px;
}

.dsportal-Form textarea {
  background: var(--jp-input-background);
  border: 1px solid var(--jp-border-color1);
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-code-font-family);
  min-height: 88px;
  padding: 6px 8px;
  resize: vertical;
}

.dsportal-Form select.jp-mod-styled {
  border: 1px solid var(--jp-border-color1);
  color: var(--jp-ui-font-color1);
}

.dsportal-Tabs {
  border-bottom: 1px solid var(--jp-border-color1);
  display: flex;
  gap: 16px;
  margin-bottom: 12px;
}

.dsportal-Tabs button {
  background: none;
  border: 0;
  border-bottom: 2px solid transparent;
  color: var(--jp-ui-font-color1);
  cursor: pointer;
  font: inherit;
  margin-bottom: -1px;
  padding: 6px 2px;
}

.dsportal-Tabs button[aria-selected='true'] {
  border-bottom-color: var(--jp-brand-color1);
  font-weight: 600;
}

.dsportal-Environments-head {
  align-items: baseline;
  display: flex;
  gap: 8px;
  justify-content: space-between;
}

.dsportal-Environments .dsportal-Environments-state,
.dsportal-Environments .dsportal-Environments-facts,
.dsportal-Environments .dsportal-Environments-path,
.dsportal-Modules-state,
.dsportal-Modules-summary,
.dsportal-Modules dt {
  color: var(--jp-ui-font-color2);
}

.dsportal-Environments li .dsportal-Environments-facts,
.dsportal-Environments li .dsportal-Environments-path {
  margin: 2px 0;
}

.dsportal-Environments-path {
  font-family: var(--jp-code-font-family);
  font-size: 0.92em;
}

.dsportal-Environments .dsportal-Environments-words {
  border-inline-start: 3px solid var(--jp-error-color1);
  line-height: 1.45;
  padding-inline-start: 8px;
}

.dsportal-Environments-state {
  white-space: nowrap;
}

.dsportal-Buttons {
  display: flex;
  flex-wrap: wrap;
  gap: 6px;
  margin-top: 8px;
}

.dsportal-Buttons button.jp-mod-styled,
.dsportal-Panel li .dsportal-Buttons button {
  margin: 0;
}

.dsportal-Modules > input.jp-mod-styled {
  border: 1px solid var(--jp-border-color1);
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  height: 32px;
  padding: 0 8px;
  width: 100%;
}

.dsportal-Modules-choice {
  background: var(--jp-layout-color2);
  border-radius: 6px;
  margin-bottom: 12px;
  padding: 8px 12px 12px;
}

.dsportal-Modules-choice[hidden] {
  display: none;
}

.dsportal-Modules-choice ol {
  list-style: none;
  margin: 0;
  padding: 0;
}

.dsportal-Panel .dsportal-Modules-choice li {
  align-items: center;
  border: 0;
  display: flex;
  justify-content: space-between;
  padding: 2px 0;
}

.dsportal-Panel .dsportal-Modules-choice li button {
  background: none;
  color: var(--jp-ui-font-color1);
  line-height: 20px;
  margin: 0;
  min-height: 24px;
  padding: 0 8px;
}

.dsportal-Modules summary {
  cursor: pointer;
  line-height: 1.45;
  list-style-position: outside;
  margin-inline-start: 14px;
}

.dsportal-Environments h2 {
  font-size: 1em;
}

.dsportal-Modules-mark {
  border: 1px solid var(--jp-border-color1);
  border-radius: 8px;
  font-size: 0.85em;
  padding: 0 6px;
}

.dsportal-Modules-summary {
  display: block;
}

.dsportal-Modules-facts {
  margin: 8px 0 4px 14px;
}

.dsportal-Modules dl {
  margin: 8px 0 0;
}

.dsportal-Modules dt {
  margin-top: 6px;
}

.dsportal-Modules dd {
  line-height: 1.45;
  margin: 0;
  white-space: pre-line;
}

.lm-Menu-itemIcon svg[data-icon^='dsportal:tool-'] {
  height: 16px;
  width: 16px;
}

/* JupyterLab is there when it is drawn: its splash goes at once, not 0.2 s later, and nothing circles on it until then. */
#jupyterlab-splash.splash-fade {
  display: none;
}

#jupyterlab-splash .moon {
  display: none;
}

.dsportal-LeftOut {
  margin: 0;
  white-space: pre-wrap;
}
`,""]),t.d(e,{},{A:l})},"./node_modules/css-loader/dist/runtime/api.js"(o){o.exports=function(o){var e=[];return e.toString=function(){return this.map(function(e){var t="",r=void 0!==e[5];return e[4]&&(t+="@supports (".concat(e[4],") {")),e[2]&&(t+="@media ".concat(e[2]," {")),r&&(t+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),t+=o(e),r&&(t+="}"),e[2]&&(t+="}"),e[4]&&(t+="}"),t}).join("")},e.i=function(o,t,r,a,n){"string"==typeof o&&(o=[[null,o,void 0]]);var l={};if(r)for(var s=0;s<this.length;s++){var d=this[s][0];null!=d&&(l[d]=!0)}for(var i=0;i<o.length;i++){var p=[].concat(o[i]);r&&l[p[0]]||(void 0!==n&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=n),t&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=t),a&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=a):p[4]="".concat(a)),e.push(p))}},e}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(o){o.exports=function(o){return o[1]}},"./style/index.css"(o,e,t){t.r(e);var r=t("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),a=t.n(r),n=t("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),l=t.n(n),s=t("./node_modules/style-loader/dist/runtime/insertBySelector.js"),d=t.n(s),i=t("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),p=t.n(i),c=t("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),u=t.n(c),m=t("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=t.n(m),g=t("./node_modules/css-loader/dist/cjs.js!./style/index.css"),x={};x.styleTagTransform=f(),x.setAttributes=p(),x.insert=d().bind(null,"head"),x.domAPI=l(),x.insertStyleElement=u(),a()(g.A,x);let h=g.A&&g.A.locals?g.A.locals:void 0;t.d(e,{},{default:h})},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(o){var e=[];function t(o){for(var t=-1,r=0;r<e.length;r++)if(e[r].identifier===o){t=r;break}return t}function r(o,r){for(var a={},n=[],l=0;l<o.length;l++){var s=o[l],d=r.base?s[0]+r.base:s[0],i=a[d]||0,p="".concat(d," ").concat(i);a[d]=i+1;var c=t(p),u={css:s[1],media:s[2],sourceMap:s[3],supports:s[4],layer:s[5]};if(-1!==c)e[c].references++,e[c].updater(u);else{var m=function(o,e){var t=e.domAPI(e);return t.update(o),function(e){e?(e.css!==o.css||e.media!==o.media||e.sourceMap!==o.sourceMap||e.supports!==o.supports||e.layer!==o.layer)&&t.update(o=e):t.remove()}}(u,r);r.byIndex=l,e.splice(l,0,{identifier:p,updater:m,references:1})}n.push(p)}return n}o.exports=function(o,a){var n=r(o=o||[],a=a||{});return function(o){o=o||[];for(var l=0;l<n.length;l++){var s=t(n[l]);e[s].references--}for(var d=r(o,a),i=0;i<n.length;i++){var p=t(n[i]);0===e[p].references&&(e[p].updater(),e.splice(p,1))}n=d}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(o){var e={};o.exports=function(o,t){var r=function(o){if(void 0===e[o]){var t=document.querySelector(o);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(o){t=null}e[o]=t}return e[o]}(o);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(t)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(o){o.exports=function(o){var e=document.createElement("style");return o.setAttributes(e,o.attributes),o.insert(e,o.options),e}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(o,e,t){o.exports=function(o){var e=t.nc;e&&o.setAttribute("nonce",e)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=o.insertStyleElement(o);return{update:function(t){var r,a,n;r="",t.supports&&(r+="@supports (".concat(t.supports,") {")),t.media&&(r+="@media ".concat(t.media," {")),(a=void 0!==t.layer)&&(r+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),r+=t.css,a&&(r+="}"),t.media&&(r+="}"),t.supports&&(r+="}"),(n=t.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),o.styleTagTransform(r,e,o.options)},remove:function(){var o;null===(o=e).parentNode||o.parentNode.removeChild(o)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(o){o.exports=function(o,e){if(e.styleSheet)e.styleSheet.cssText=o;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(o))}}}}]);