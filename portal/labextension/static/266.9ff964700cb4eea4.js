"use strict";(self.rspackChunkdsportal_lab=self.rspackChunkdsportal_lab||[]).push([[266],{"./node_modules/css-loader/dist/cjs.js!./style/index.css"(e,o,t){var r=t("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=t.n(r),l=t("./node_modules/css-loader/dist/runtime/api.js"),n=(t.n(l))()(a());n.push([e.id,`/* JupyterLab's toolbar above the files wraps: a button that comes and goes there would move the files under the
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
`,""]),t.d(o,{},{A:n})},"./node_modules/css-loader/dist/runtime/api.js"(e){e.exports=function(e){var o=[];return o.toString=function(){return this.map(function(o){var t="",r=void 0!==o[5];return o[4]&&(t+="@supports (".concat(o[4],") {")),o[2]&&(t+="@media ".concat(o[2]," {")),r&&(t+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),t+=e(o),r&&(t+="}"),o[2]&&(t+="}"),o[4]&&(t+="}"),t}).join("")},o.i=function(e,t,r,a,l){"string"==typeof e&&(e=[[null,e,void 0]]);var n={};if(r)for(var s=0;s<this.length;s++){var d=this[s][0];null!=d&&(n[d]=!0)}for(var i=0;i<e.length;i++){var p=[].concat(e[i]);r&&n[p[0]]||(void 0!==l&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=l),t&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=t),a&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=a):p[4]="".concat(a)),o.push(p))}},o}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(e){e.exports=function(e){return e[1]}},"./style/index.css"(e,o,t){t.r(o);var r=t("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),a=t.n(r),l=t("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),n=t.n(l),s=t("./node_modules/style-loader/dist/runtime/insertBySelector.js"),d=t.n(s),i=t("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),p=t.n(i),c=t("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),u=t.n(c),m=t("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=t.n(m),y=t("./node_modules/css-loader/dist/cjs.js!./style/index.css"),g={};g.styleTagTransform=f(),g.setAttributes=p(),g.insert=d().bind(null,"head"),g.domAPI=n(),g.insertStyleElement=u(),a()(y.A,g);let x=y.A&&y.A.locals?y.A.locals:void 0;t.d(o,{},{default:x})},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(e){var o=[];function t(e){for(var t=-1,r=0;r<o.length;r++)if(o[r].identifier===e){t=r;break}return t}function r(e,r){for(var a={},l=[],n=0;n<e.length;n++){var s=e[n],d=r.base?s[0]+r.base:s[0],i=a[d]||0,p="".concat(d," ").concat(i);a[d]=i+1;var c=t(p),u={css:s[1],media:s[2],sourceMap:s[3],supports:s[4],layer:s[5]};if(-1!==c)o[c].references++,o[c].updater(u);else{var m=function(e,o){var t=o.domAPI(o);return t.update(e),function(o){o?(o.css!==e.css||o.media!==e.media||o.sourceMap!==e.sourceMap||o.supports!==e.supports||o.layer!==e.layer)&&t.update(e=o):t.remove()}}(u,r);r.byIndex=n,o.splice(n,0,{identifier:p,updater:m,references:1})}l.push(p)}return l}e.exports=function(e,a){var l=r(e=e||[],a=a||{});return function(e){e=e||[];for(var n=0;n<l.length;n++){var s=t(l[n]);o[s].references--}for(var d=r(e,a),i=0;i<l.length;i++){var p=t(l[i]);0===o[p].references&&(o[p].updater(),o.splice(p,1))}l=d}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(e){var o={};e.exports=function(e,t){var r=function(e){if(void 0===o[e]){var t=document.querySelector(e);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(e){t=null}o[e]=t}return o[e]}(e);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(t)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(e){e.exports=function(e){var o=document.createElement("style");return e.setAttributes(o,e.attributes),e.insert(o,e.options),o}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(e,o,t){e.exports=function(e){var o=t.nc;o&&e.setAttribute("nonce",o)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=e.insertStyleElement(e);return{update:function(t){var r,a,l;r="",t.supports&&(r+="@supports (".concat(t.supports,") {")),t.media&&(r+="@media ".concat(t.media," {")),(a=void 0!==t.layer)&&(r+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),r+=t.css,a&&(r+="}"),t.media&&(r+="}"),t.supports&&(r+="}"),(l=t.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(l))))," */")),e.styleTagTransform(r,o,e.options)},remove:function(){var e;null===(e=o).parentNode||e.parentNode.removeChild(e)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(e){e.exports=function(e,o){if(o.styleSheet)o.styleSheet.cssText=e;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(e))}}}}]);