"use strict";(self.rspackChunkdsportal_lab=self.rspackChunkdsportal_lab||[]).push([[266],{"./node_modules/css-loader/dist/cjs.js!./style/index.css"(e,t,o){var r=o("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=o.n(r),l=o("./node_modules/css-loader/dist/runtime/api.js"),s=(o.n(l))()(a());s.push([e.id,`/* JupyterLab's toolbar above the files wraps: a button that comes and goes there would move the files under the
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

.dsportal-Usage button {
  background: none;
  border: 0;
  color: inherit;
  cursor: pointer;
  font: inherit;
  padding: 0;
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

.dsportal-RunningBoard .jp-RunningSessions-itemDetail {
  flex: none;
}

.dsportal-UsagePanel small {
  color: var(--jp-ui-font-color2);
  display: block;
  overflow-wrap: anywhere;
}

.jp-LauncherCard[data-dsportal-test] {
  position: relative;
}

.jp-LauncherCard[data-dsportal-test]::after {
  align-items: center;
  border-radius: 50%;
  color: #fff;
  display: flex;
  font-size: 11px;
  font-weight: 700;
  height: 16px;
  justify-content: center;
  position: absolute;
  right: 5px;
  top: 5px;
  width: 16px;
}

.jp-LauncherCard[data-dsportal-test='good']::after {
  background: #1b7a3d;
  content: '✓' / 'tested';
}

.jp-LauncherCard[data-dsportal-test='fault']::after {
  background: #a84300;
  content: '!' / 'its last test found a fault';
}

.dsportal-Jobs,
.dsportal-JobLog {
  background: var(--jp-layout-color1);
  box-sizing: border-box;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  overflow: auto;
  padding: 12px;
}

.dsportal-Jobs h2 {
  font-size: 1.15em;
  margin: 0 0 12px;
}

.dsportal-Jobs ul {
  list-style: none;
  margin: 0;
  padding: 0;
}

.dsportal-Jobs li {
  border-top: 1px solid var(--jp-border-color2);
  overflow-wrap: anywhere;
  padding: 8px 0;
}

.dsportal-Jobs li p {
  margin: 4px 0 8px;
}

.dsportal-Jobs li button {
  margin-inline-end: 6px;
}

.jp-Dialog .dsportal-JobLog {
  max-height: 60vh;
  width: 70vw;
}

.dsportal-JobLog pre {
  white-space: pre-wrap;
}

.dsportal-JobForm {
  display: grid;
  gap: 10px 16px;
  grid-template-columns: 1fr 1fr;
}

.dsportal-JobForm label {
  display: flex;
  flex-direction: column;
  gap: 4px;
}
`,""]),o.d(t,{},{A:s})},"./node_modules/css-loader/dist/runtime/api.js"(e){e.exports=function(e){var t=[];return t.toString=function(){return this.map(function(t){var o="",r=void 0!==t[5];return t[4]&&(o+="@supports (".concat(t[4],") {")),t[2]&&(o+="@media ".concat(t[2]," {")),r&&(o+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),o+=e(t),r&&(o+="}"),t[2]&&(o+="}"),t[4]&&(o+="}"),o}).join("")},t.i=function(e,o,r,a,l){"string"==typeof e&&(e=[[null,e,void 0]]);var s={};if(r)for(var n=0;n<this.length;n++){var d=this[n][0];null!=d&&(s[d]=!0)}for(var i=0;i<e.length;i++){var p=[].concat(e[i]);r&&s[p[0]]||(void 0!==l&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=l),o&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=o),a&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=a):p[4]="".concat(a)),t.push(p))}},t}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(e){e.exports=function(e){return e[1]}},"./style/index.css"(e,t,o){o.r(t);var r=o("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),a=o.n(r),l=o("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),s=o.n(l),n=o("./node_modules/style-loader/dist/runtime/insertBySelector.js"),d=o.n(n),i=o("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),p=o.n(i),c=o("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),u=o.n(c),m=o("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=o.n(m),g=o("./node_modules/css-loader/dist/cjs.js!./style/index.css"),y={};y.styleTagTransform=f(),y.setAttributes=p(),y.insert=d().bind(null,"head"),y.domAPI=s(),y.insertStyleElement=u(),a()(g.A,y);let x=g.A&&g.A.locals?g.A.locals:void 0;o.d(t,{},{default:x})},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(e){var t=[];function o(e){for(var o=-1,r=0;r<t.length;r++)if(t[r].identifier===e){o=r;break}return o}function r(e,r){for(var a={},l=[],s=0;s<e.length;s++){var n=e[s],d=r.base?n[0]+r.base:n[0],i=a[d]||0,p="".concat(d," ").concat(i);a[d]=i+1;var c=o(p),u={css:n[1],media:n[2],sourceMap:n[3],supports:n[4],layer:n[5]};if(-1!==c)t[c].references++,t[c].updater(u);else{var m=function(e,t){var o=t.domAPI(t);return o.update(e),function(t){t?(t.css!==e.css||t.media!==e.media||t.sourceMap!==e.sourceMap||t.supports!==e.supports||t.layer!==e.layer)&&o.update(e=t):o.remove()}}(u,r);r.byIndex=s,t.splice(s,0,{identifier:p,updater:m,references:1})}l.push(p)}return l}e.exports=function(e,a){var l=r(e=e||[],a=a||{});return function(e){e=e||[];for(var s=0;s<l.length;s++){var n=o(l[s]);t[n].references--}for(var d=r(e,a),i=0;i<l.length;i++){var p=o(l[i]);0===t[p].references&&(t[p].updater(),t.splice(p,1))}l=d}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(e){var t={};e.exports=function(e,o){var r=function(e){if(void 0===t[e]){var o=document.querySelector(e);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(e){o=null}t[e]=o}return t[e]}(e);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(o)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(e){e.exports=function(e){var t=document.createElement("style");return e.setAttributes(t,e.attributes),e.insert(t,e.options),t}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(e,t,o){e.exports=function(e){var t=o.nc;t&&e.setAttribute("nonce",t)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=e.insertStyleElement(e);return{update:function(o){var r,a,l;r="",o.supports&&(r+="@supports (".concat(o.supports,") {")),o.media&&(r+="@media ".concat(o.media," {")),(a=void 0!==o.layer)&&(r+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),r+=o.css,a&&(r+="}"),o.media&&(r+="}"),o.supports&&(r+="}"),(l=o.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(l))))," */")),e.styleTagTransform(r,t,e.options)},remove:function(){var e;null===(e=t).parentNode||e.parentNode.removeChild(e)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(e){e.exports=function(e,t){if(t.styleSheet)t.styleSheet.cssText=e;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(e))}}}}]);