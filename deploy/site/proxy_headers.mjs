// Loaded into configurable-http-proxy (node --import): a request whose headers are too big or very many, or its cookies,
// is answered with a page that takes away the cookies which scripts have left in the browser, so that nobody's page keeps
// its visitors out for good. The cookies of logins are out of scripts' reach, and stay. What is behind the proxy reads each
// of them several times, whoever sends it. proxy_guard.mjs puts it before the proxy's server.

import crypto from "node:crypto";
import fs from "node:fs";

const STATUS = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};
// Of a request, as the hub has it (portal/guard/intake.py): browsers keep 180 cookies for a domain, and send some 30 lines.
const COOKIES_MOST = 400;
const LINES_MOST = 200;
const DISCARDED_FOR_MS = 5_000;
const SCRIPT = /<script>([^]*?)<\/script>/;

function page() {
  try {
    return fs.readFileSync(process.env.DSPORTAL_HEADERS_PAGE ?? "", "utf8");
  } catch {
    return "This request was too big: its address, or the cookies that came with it. Remove this site's cookies.\n";
  }
}

function headersOf(body) {
  const script = SCRIPT.exec(body)?.[1] ?? "";
  const digest = crypto.createHash("sha256").update(script).digest("base64");
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${digest}'; frame-ancestors 'none'`;
  return {
    "Cache-Control": "no-store",
    "Content-Type": `text/${script ? "html" : "plain"}; charset=utf-8`,
    "Content-Length": Buffer.byteLength(body),
    "Content-Security-Policy": policy,
    "X-Content-Type-Options": "nosniff",
  };
}

function answer(status, body) {
  const headers = Object.entries({ Connection: "close", ...headersOf(body) }).map(([name, value]) => `${name}: ${value}`);
  return `${[`HTTP/1.1 ${status}`, ...headers].join("\r\n")}\r\n\r\n${body}`;
}

export function sendsVeryMany(req) {
  if (req.rawHeaders.length > 2 * LINES_MOST) return true;
  return (req.headers.cookie ?? "").split(";", COOKIES_MOST + 1).length > COOKIES_MOST;
}

// One line says it, or none (RFC 9112 §3.2): of two, what reads them may take the first or the last one.
export function namesHostTwice(req) {
  return req.rawHeaders.filter((one, at) => at % 2 === 0 && one.toLowerCase() === "host").length > 1;
}

export function explanation() {
  const body = page();
  return [headersOf(body), body];
}

export function explainBigHeaders(server) {
  server.on("clientError", (error, socket) => {
    if (socket.dsportalAnswered) return; // what is still sent is no request either
    socket.dsportalAnswered = true;
    if (!socket.writable || socket._httpMessage?._headerSent) {
      socket.destroy();
      return;
    }
    const isTooBig = error.code === "HPE_HEADER_OVERFLOW";
    socket.end(answer(STATUS[error.code] ?? "400 Bad Request", isTooBig ? page() : ""));
    const patience = setTimeout(() => socket.destroy(), DISCARDED_FOR_MS);
    socket.once("close", () => clearTimeout(patience));
  });
}
