// What an answer may say, a session's above all; proxy_guard.mjs calls it.
// - One that breaks HTTP's rules, so that http-proxy-3 (1.23) could not hand it on, is told as that: else who asks would
//   wait for ever.
// - A session's answers do not reach over its own place.

import http from "node:http";

const LEAST = 100; // Node itself sends no smaller number
const WORDS_OF_STATUS = /^[\t\x20-\x7e\x80-\xff]*$/;
const OVER_ITS_PLACE = [
  "service-worker-allowed",
  "cross-origin-opener-policy",
  "clear-site-data",
  "strict-transport-security",
  "alt-svc", // another server for all of the host
  "nel", // reports on all requests to the host, to wherever the next one says
  "report-to",
  "secure-session-registration", // requests to the host wait for an address that the next ones name (W3C's DBSC)
  "sec-session-registration",
  "use-as-dictionary", // for addresses of all of the host (RFC 9842)
  "x-accel-redirect", // what a web server in front does for the hub's host, and not for a session
  "x-accel-expires",
  "x-accel-limit-rate",
  "x-accel-charset",
  "x-sendfile",
  "x-sendfile2",
  "x-sendfile-temporary",
  "x-lighttpd-send-file",
  "x-lighttpd-send-tempfile",
  "x-litespeed-location",
  "x-reproxy-url",
];

// Whether an answer can be handed on; then with words and headers that can be.
export function canBeSaid(proxyRes) {
  if (!WORDS_OF_STATUS.test(proxyRes.statusMessage)) proxyRes.statusMessage = http.STATUS_CODES[proxyRes.statusCode] ?? "";
  delete proxyRes.headers.trailer; // none is handed on, and Node takes the word for it where no chunks are sent
  return proxyRes.statusCode >= LEAST;
}

// A web socket that nobody has asked for.
export function untilItTurns(proxyReq, refuse) {
  proxyReq.once("upgrade", (_, socket) => {
    socket.destroy();
    refuse();
  });
}

export function keepHeadersInTheirPlace(headers, originsApart, encrypted) {
  for (const name of OVER_ITS_PLACE) delete headers[name];
  // No page of another origin leads a window on that it has opened here; where all share one origin, that is no bar.
  if (originsApart) headers["cross-origin-opener-policy"] = "same-origin-allow-popups";
  // The script of a service worker is refused there: none comes out of a browser's cache, either.
  else headers.vary = [headers.vary, "Service-Worker"].filter(Boolean).join(", ");
  const cookies = headers["set-cookie"];
  if (cookies) headers["set-cookie"] = cookies.map((cookie) => closed(cookie, encrypted));
}

// For the session's own host alone, not sent by other sites' pages, and by HTTPS where there is HTTPS.
function closed(cookie, encrypted) {
  const parts = cookie.split(";").filter((part) => !/^\s*domain\s*(=|$)/i.test(part));
  const has = (name) => parts.slice(1).some((part) => part.trim().split("=")[0].trim().toLowerCase() === name);
  if (!has("samesite")) parts.push(" SameSite=Lax");
  if (encrypted && !has("secure")) parts.push(" Secure");
  return parts.join(";");
}
