// Loaded into configurable-http-proxy (node --import): a page of the portal's own while the hub is away.
// The proxy asks the hub for its error pages (--error-target), or has them as files, not both. When the hub does not
// answer either, it has two words of plain text; here a browser gets the page that the hub left for it instead.

import fs from "node:fs";
import { pathToFileURL } from "node:url";

const RETRY_AFTER_S = 2;

try {
  const program = pathToFileURL(fs.realpathSync(process.argv[1]));
  const { ConfigurableProxy } = await import(new URL("../lib/configproxy.js", program));
  const ours = ConfigurableProxy.prototype;
  const plain = ours._handleProxyErrorDefault;

  ours._handleProxyErrorDefault = function (code, kind, req, res) {
    const isForPerson = (req.headers?.accept ?? "").includes("text/html");
    fs.readFile(process.env.DSPORTAL_ERROR_PAGE, (error, page) => {
      if (error || !isForPerson || !res.writeHead || res.headersSent || res.writableEnded) {
        plain.call(this, code, kind, req, res);
        return;
      }
      res.writeHead(503, {
        "Content-Type": "text/html; charset=utf-8",
        "Cache-Control": "no-store",
        "Retry-After": RETRY_AFTER_S,
      });
      res.end(page);
    });
  };
} catch (error) {
  console.error(`The portal's own page is left out: ${error}`);
}
