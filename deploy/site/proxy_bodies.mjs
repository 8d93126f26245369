// Where a request ends. The proxy's connections to the hub, and to each person's sessions, are used for one request after
// the other, whoever sends it: what is sent behind the end of one would be the beginning of the next one, which may be
// somebody else's. proxy_guard.mjs puts this in.

const WITHOUT = new Set(["DELETE", "OPTIONS"]); // seldom with a body, of which Node itself says nothing

// Of such a request without a body it is said that it has none; of one with a body nothing is changed.
function saysThatNothingComes(req) {
  const { headers } = req;
  if (!WITHOUT.has(req.method)) return;
  if (headers["content-length"] === undefined && headers["transfer-encoding"] === undefined) headers["content-length"] = "0";
}

// In the place of the pass of http-proxy-3 (1.23.3) for them; without it the proxy is another one than the portal knows, and does not start.
export function keepBodiesApart(proxy) {
  const place = proxy.webPasses?.findIndex((pass) => pass.name === "deleteLength") ?? -1;
  if (place < 0) throw new Error("This http-proxy-3 is another one than the portal knows.");
  proxy.webPasses[place] = saysThatNothingComes;
}

// A request for a web socket has no body (RFC 6455 §4.1): of one that states any, nothing would be sent on.
export function statesBody(req) {
  return Number(req.headers["content-length"] ?? 0) !== 0 || req.headers["transfer-encoding"] !== undefined;
}
