// Loaded into configurable-http-proxy (node --import): what one client may ask of the proxy, and what a session may say.
// - A connection that does not send its request is closed soon, the oldest first where one address has many.
// - A request of the hub with a big body is refused before the hub reads any of it; sessions take what they like.
// - What a request brings is handed on as its own, and as no other request (proxy_bodies.mjs).
// - One client has a part of the connections, and a few requests of the hub under way at a time (proxy_turns.mjs).
// - An answer of the hub that its client does not read ends after a while.
// - A session that never answers holds a part of the connections only, however often its person asks it.
// - Headers that say where a request comes from are believed only of the proxies that the site names.
// - What was begun with a session whose route is gone ends (proxy_routes.mjs).
// - A session's answers do not reach over its own place: no wider service worker, no window of the hub's pages.
// Without one of these the proxy would be another one than the portal was tested with: then it does not start.

import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import { pathToFileURL } from "node:url";

import { SlowAnswers } from "./proxy_answers.mjs";
import { keepBodiesApart, statesBody } from "./proxy_bodies.mjs";
import { explainBigHeaders, explanation, namesHostTwice, sendsVeryMany } from "./proxy_headers.mjs";
import { gather } from "./proxy_pieces.mjs";
import { Begun } from "./proxy_routes.mjs";
import { canBeSaid, keepHeadersInTheirPlace, untilItTurns } from "./proxy_said.mjs";
import { keepPace } from "./proxy_sockets.mjs";
import { Turns, once, readNoMore, turnOnConnection, whenOver } from "./proxy_turns.mjs";

const DISCARDED_FOR_MS = 5_000;
const LISTENS_WITHIN_MS = 10_000; // less than a hub waits for its proxy (portal/proxy/apart.py)
const LISTENS_AGAIN_MS = 100;
const CHECKED_EVERY_MS = 5_000;
const CONNECTIONS_MAX = 30_000; // each needs two of the 65,536 files of dsportal-proxy.service at most
const HUB_BODY_MAX = 2 ** 20;
const BIG_BODY = 2 ** 14;
const BIG_PER_ADDRESS = 8; // requests of the hub with more than BIG_BODY, of one browser, at a time
const FORWARDED = /^(forwarded|x-forwarded-.*|x-real-ip|x-scheme|x-client-ip|true-client-ip)$/;
const GAINSAYING = /^(forwarded|x-scheme)$/; // which JupyterHub believes before X-Forwarded-Proto

const WORDS = {
  400: "This address is no text (UTF-8), or the request names its host twice. Type it again.",
  403: "A session has service workers below an address of its own alone (portal.domain), and with names of their own there.",
  413: `The portal takes at most ${HUB_BODY_MAX} bytes here.`,
  424: "This session does not run, so that nothing was saved in it.",
  429: "Too much at once; try again in some seconds.",
  502: "What was to answer here gave an answer that is none (HTTP).",
};

const settings = JSON.parse(process.env.DSPORTAL_PROXY_GUARD ?? "{}");
const HEADERS_WITHIN_MS = 1000 * (settings.headers_within_s ?? 15);
const SILENT_PER_ADDRESS = settings.silent_per_address ?? 1024; // connections that have not sent a request yet
const PER_ADDRESS = settings.per_address ?? CONNECTIONS_MAX / 2; // connections of one client
const OF_ONE_SESSION = settings.of_one_session ?? 1024; // requests of one client for one person's sessions, at a time
const trusted = new net.BlockList();
for (const place of settings.trusted_proxies ?? []) {
  const [address, length] = place.split("/");
  const family = net.isIPv6(address) ? "ipv6" : "ipv4";
  if (length === undefined) trusted.addAddress(address, family);
  else trusted.addSubnet(address, Number(length), family);
}

function plain(address) {
  return (address ?? "").replace(/^::ffff:(?=\d+\.)/, "");
}

function isTrusted(address) {
  return net.isIP(address) !== 0 && trusted.check(address, net.isIPv6(address) ? "ipv6" : "ipv4");
}

// The client of a connection for counting: an IPv6 network of 64 bits is one.
function clientOf(address) {
  if (!net.isIPv6(address)) return address;
  const [head, tail] = address.split("::");
  const groups = head.split(":");
  if (tail !== undefined) {
    const last = tail ? tail.split(":") : [];
    while (groups.length + last.length < 8) groups.push("0");
  }
  return groups.slice(0, 4).join(":");
}

class Counter {
  counts = new Map();
  add(key) {
    const count = (this.counts.get(key) ?? 0) + 1;
    this.counts.set(key, count);
    return count;
  }
  take(key) {
    const count = (this.counts.get(key) ?? 1) - 1;
    if (count > 0) this.counts.set(key, count);
    else this.counts.delete(key);
  }
}

const silent = new Map(); // by client, the oldest first
const big = new Counter();
const open = new Counter(); // by client and person
const connections = new Counter(); // by client
const turns = new Turns(settings.of_hub ?? 128, settings.of_hub_waiting ?? 8192);
const begun = new Begun(settings.without_route_s ?? 20);
const slow = new SlowAnswers(settings.taken_within_s ?? 60, settings.slow_per_address ?? 128);

// Until its first whole request: with HTTPS that is longer than Node's own time limits look. Where one address has too
// many such connections the oldest goes: who asks at once is answered, whatever others at that address do.
function watchConnection(socket) {
  const address = plain(socket.remoteAddress);
  if (isTrusted(address)) return;
  const client = clientOf(address);
  socket.once("close", () => connections.take(client));
  if (connections.add(client) > PER_ADDRESS) {
    socket.destroy();
    return;
  }
  const theirs = silent.get(client) ?? new Set();
  const patience = setTimeout(() => socket.destroy(), HEADERS_WITHIN_MS);
  socket.dsportalHeard = once(() => {
    clearTimeout(patience);
    theirs.delete(socket);
    if (theirs.size === 0 && silent.get(client) === theirs) silent.delete(client);
  });
  socket.once("close", socket.dsportalHeard);
  silent.set(client, theirs.add(socket));
  if (theirs.size <= SILENT_PER_ADDRESS) return;
  const [oldest] = theirs;
  oldest.dsportalHeard();
  oldest.destroy();
}

function limit(server) {
  server.headersTimeout = HEADERS_WITHIN_MS;
  server.connectionsCheckingInterval = CHECKED_EVERY_MS;
  server.maxConnections = CONNECTIONS_MAX;
  server.on("connection", watchConnection);
}

function heard(req) {
  const { socket } = req;
  (socket.dsportalHeard ?? socket._parent?.dsportalHeard)?.();
}

// A named proxy hands on what browsers send and it does not set: where it sets X-Forwarded-Proto, nothing says otherwise.
function dropClaims(req) {
  const isNamed = isTrusted(plain(req.socket.remoteAddress));
  if (isNamed && req.headers["x-forwarded-proto"] === undefined) return;
  const claims = isNamed ? GAINSAYING : FORWARDED;
  for (const name of Object.keys(req.headers)) {
    if (claims.test(name)) delete req.headers[name];
  }
}

// What is still sent is thrown away for a moment: closed at once, the connection would take the answer with it.
function refuse(req, res, code, retryAfterS) {
  const headers = {
    "Content-Type": "text/plain; charset=utf-8",
    "Cache-Control": "no-store",
    ...(retryAfterS ? { "Retry-After": retryAfterS } : {}),
  };
  refuseWith(req, res, code, headers, `${WORDS[code]}\n`);
}

function refuseWith(req, res, code, headers, body) {
  if (res.headersSent) return; // another refusal was faster
  res.writeHead(code, headers);
  res.end(body);
  req.resume();
  const patience = setTimeout(() => req.socket.destroy(), DISCARDED_FOR_MS);
  req.once("end", () => clearTimeout(patience));
}

// Of a request nothing more goes on: its sender is told why, unless an answer has begun.
function endUnread(req, res) {
  if (res.headersSent) {
    req.destroy();
    return;
  }
  req.dsportalRefused = true;
  req.unpipe();
  refuse(req, res, 429, 5);
}

function cut(socket, status) {
  socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
  socket.destroySoon();
}

// True when a request of the hub may go on to it.
function isTaken(req, res) {
  const length = Number(req.headers["content-length"] ?? 0);
  if (length > HUB_BODY_MAX) {
    refuse(req, res, personOf(req) === undefined ? 413 : 424);
    return false;
  }
  if (length <= BIG_BODY && req.headers["transfer-encoding"] === undefined) return true;
  const client = browserOf(req);
  const isOneMore = big.add(client) > BIG_PER_ADDRESS; // before it may be over
  const done = once(() => big.take(client));
  req.once("close", done);
  whenOver(req, res, done);
  if (isOneMore) {
    refuse(req, res, 429, 5);
    return false;
  }
  return true;
}

// Whether who asked for a web socket has not gone while it waited. What came behind the request is handed back to the
// connection, and http-proxy-3 (1.23) fails at one that has ended.
function isThere(socket) {
  if (socket.readableEnded) socket.destroy();
  return !socket.destroyed;
}

// Wait for a request's turn at the hub; true when it has come. Otherwise there is an answer, or nobody who waits for one.
async function mayAskHub(req) {
  const answer = req.dsportalAnswer;
  const isPage = answer instanceof http.ServerResponse;
  if (isPage && !isTaken(req, answer)) return false;
  if (await turns.take(browserOf(req), req, answer)) return isPage || isThere(answer);
  if (req.socket.destroyed) return false;
  if (isPage) refuse(req, answer, 429, 5);
  else cut(answer, "429 Too Many Requests");
  return false;
}

// An address as a proxy writes it, some with the port; "" for what is none.
function told(text) {
  const found = /^(\d+\.\d+\.\d+\.\d+):\d{1,5}$/.exec(text) ?? /^\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?$/.exec(text);
  const address = plain(found ? found[1] : text);
  return net.isIP(address) ? address : "";
}

// The browser's address: what a named proxy says of it comes last, and what stands farther to the left than something
// that is no address anybody may have written (portal/addresses.py reads it in the same way).
function browserOf(req) {
  let client = plain(req.socket.remoteAddress);
  if (!isTrusted(client)) return clientOf(client);
  for (const text of (req.headers["x-forwarded-for"] ?? "").split(",").reverse()) {
    const address = told(text.trim());
    if (address === "") break;
    client = address;
    if (!isTrusted(address)) break;
  }
  return clientOf(client);
}

// True when a request of a session may go on; `answer` is what ends with it: the response, or a web socket's connection.
function isOneOfFew(req, answer) {
  const person = personOf(req);
  if (person === undefined) return true;
  const key = `${browserOf(req)} ${person}`;
  const isFew = open.add(key) <= OF_ONE_SESSION; // before it may be over
  whenOver(req, answer, () => open.take(key));
  return isFew;
}

// Whose sessions an address is of, also of one that does not run, for which the hub answers; with what comes before the name:
// a service may have the name of a person.
function personOf(req) {
  const path = pathOf(req) ?? "";
  const prefix = (settings.sessions ?? []).find((one) => `${path}/`.startsWith(one));
  return prefix && prefix + path.slice(prefix.length).split("/")[0];
}

// A service worker may see all that lies in the folder of its script (Service Workers, §4.4.1): one at /user/NAME itself, of
// which no slash says that it is a folder, everybody's sessions. And what it answers has what headers it likes, as no answer
// of a session has them that comes by here: there is none where all share the hub's origin. Browsers name what asks for it.
function isWorkerOverItsPlace(req) {
  const path = pathOf(req) ?? "";
  const prefix = (settings.sessions ?? []).find((one) => path.startsWith(one));
  if (req.headers["service-worker"] === undefined || prefix === undefined) return false;
  return !settings.origins_apart || !path.slice(prefix.length).includes("/");
}

// The path as the proxy itself reads it when it looks for a route, for which two slashes at the beginning are one;
// undefined when it cannot be read.
function pathOf(req) {
  try {
    return decodeURIComponent(new URL(req.url, "http://example.com").pathname).replace(/^\/+/, "/");
  } catch {
    return undefined;
  }
}

// True when nobody's session, and no service, is behind an address: the hub answers, also for sessions that are away.
function isOfHub(route) {
  return route?.user === undefined && route?.service === undefined;
}

// An answer that was broken off behind the proxy is broken off here: Node says nothing of that by itself (22), and whoever
// waits would do so for ever, or take a part for all of it.
function breakOff(proxyRes, res) {
  proxyRes.once("close", () => {
    if (!proxyRes.complete) res.destroy();
  });
}

// Whether a browser's connection ends is said of that one, and not of the one behind the proxy, which serves everybody: told
// so, a server may end it without a word (Node keeps it for the next request all the same, and that one fails).
function keepConnection(proxyReq) {
  proxyReq.setHeader("Connection", "keep-alive");
}

function keepInItsPlace(proxyRes, req, res) {
  if (!canBeSaid(proxyRes) && res instanceof http.ServerResponse) {
    refuse(req, res, 502);
    proxyRes.destroy();
    return;
  }
  gather(proxyRes, personOf(req));
  if (res instanceof http.ServerResponse) delete proxyRes.headers.connection; // a browser hears of its own
  if (res) breakOff(proxyRes, res);
  if (req.dsportalOfHub) {
    req.dsportalAnswered?.();
    if (res) slow.watch(browserOf(req), proxyRes, req, res);
    return;
  }
  keepHeadersInTheirPlace(proxyRes.headers, settings.origins_apart, isEncrypted(req));
}

// An answer to a web socket's request does not come through proxyRes, and a browser takes its headers all the same.
function keepSocketInItsPlace(proxyReq, req, socket) {
  proxyReq.on("upgrade", (proxyRes) => keepInItsPlace(proxyRes, req));
  proxyReq.on("response", (proxyRes) => {
    if (!canBeSaid(proxyRes)) Object.assign(proxyRes, { statusCode: 502, statusMessage: http.STATUS_CODES[502] });
    proxyRes.headers.connection = "close"; // it is, whatever who answers says
    keepInItsPlace(proxyRes, req, socket);
  });
  for (const begins of ["upgrade", "response"]) proxyReq.on(begins, () => (req.dsportalBegun = true));
  keepPace(proxyReq, socket, (proxySocket) => gather(proxySocket, personOf(req)));
}

// Our own TLS, or that of a proxy in front that the site names.
function isEncrypted(req) {
  const first = (req.headers["x-forwarded-proto"] ?? "").split(",")[0].trim();
  return req.socket.encrypted === true || first === "https"; // what nobody may claim was dropped before
}

function redirect(port, to) {
  const server = http.createServer((req, res) => {
    readNoMore(req.socket); // one request of a connection
    const host = (req.headers.host ?? "").replace(/:\d+$/, "");
    if (!/^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])$/.test(host)) {
      res.writeHead(400, { Connection: "close" });
      res.end();
      return;
    }
    const Location = `https://${host}${to === 443 ? "" : `:${to}`}${req.url}`;
    res.writeHead(308, { Connection: "close", Location, "Cache-Control": "no-store" });
    res.end();
  });
  listenSoon(server);
  limit(server);
  server.listen(port, settings.bind);
}

const program = pathToFileURL(fs.realpathSync(process.argv[1]));
const { ConfigurableProxy } = await import(new URL("../lib/configproxy.js", program));
const ours = ConfigurableProxy.prototype;

function whenMade(name, work) {
  Object.defineProperty(ours, name, {
    configurable: true,
    set(made) {
      Object.defineProperty(this, name, { value: made, writable: true, configurable: true, enumerable: true });
      work(made);
    },
  });
}

// The proxy before this one may still be closing thousands of connections. One that does not listen is none, and ends.
function listenSoon(server) {
  const last = performance.now() + LISTENS_WITHIN_MS;
  server.on("error", (error) => {
    if (error.syscall !== "listen") throw error; // a connection that could not be taken: it is logged, and no end
    if (error.code !== "EADDRINUSE" || performance.now() > last) {
      console.error(`The proxy cannot listen: ${error.message}`);
      process.exit(1); // its hub, or its service, sees that
    }
    setTimeout(() => server.listen(error.port, error.address), LISTENS_AGAIN_MS);
  });
}

whenMade("proxyServer", (server) => {
  listenSoon(server);
  limit(server);
  explainBigHeaders(server);
});
whenMade("apiServer", listenSoon);
whenMade("proxy", (made) => {
  keepBodiesApart(made);
  made.on("proxyReq", keepConnection);
  made.on("proxyReq", (proxyReq, req, res) => untilItTurns(proxyReq, () => refuse(req, res, 502)));
  made.on("proxyRes", keepInItsPlace).on("proxyReqWs", keepSocketInItsPlace);
});

const web = ours.handleProxyWeb;
ours.handleProxyWeb = async function (req, res) {
  heard(req);
  dropClaims(req);
  delete req.headers.expect; // Node has answered it; http-proxy-3 (1.23) says nothing of a request that has one
  gather(req, browserOf(req), () => endUnread(req, res));
  const turn = turnOnConnection(req, res, browserOf(req));
  if (sendsVeryMany(req)) return refuseWith(req, res, 431, ...explanation());
  if (pathOf(req) === undefined || namesHostTwice(req)) return refuse(req, res, 400);
  if (isWorkerOverItsPlace(req)) return refuse(req, res, 403);
  await turn;
  if (req.socket.destroyed || req.dsportalRefused) return undefined;
  if (!isOneOfFew(req, res)) return refuse(req, res, 429, 5);
  req.dsportalAnswer = res;
  return web.call(this, req, res);
};
const ws = ours.handleProxyWs;
ours.handleProxyWs = async function (req, socket, head) {
  heard(req);
  dropClaims(req);
  gather(socket, browserOf(req));
  if (sendsVeryMany(req)) return cut(socket, "431 Request Header Fields Too Large");
  if (pathOf(req) === undefined || namesHostTwice(req) || statesBody(req)) return cut(socket, "400 Bad Request");
  socket.on("error", () => {}); // nobody else listens while it waits; "close" follows
  await turnOnConnection(req, socket, browserOf(req));
  if (!isThere(socket)) return undefined;
  if (!isOneOfFew(req, socket)) return cut(socket, "429 Too Many Requests");
  req.dsportalAnswer = socket;
  return ws.call(this, req, socket, head);
};
// The last step before a request goes on: where nothing is found the proxy asks the hub for a page, so that is the hub's.
const found = ours.targetForReq;
ours.targetForReq = async function (req) {
  const match = await found.call(this, req);
  req.dsportalOfHub = isOfHub(match && (await this._routes.get(match.prefix)));
  if (match && !req.dsportalOfHub) begun.add(match.prefix, req.dsportalAnswer, (work) => whenOver(req, req.dsportalAnswer, work));
  if (!req.dsportalOfHub || (await mayAskHub(req))) return match;
  req.dsportalRefused = true;
  return undefined;
};
const removed = ours.removeRoute;
ours.removeRoute = async function (path) {
  await removed.call(this, path);
  begun.end(this._routes.cleanPath(path));
};
// A proxy whose question to the hub for a page ends with who waits for that page.
function untilGone(proxy, req, res) {
  const gone = new AbortController();
  whenOver(req, res, () => {
    if (!res.writableFinished) gone.abort();
  });
  const stays = (work) => (...all) => (gone.signal.aborted ? undefined : work(...all)); // there is nobody to tell
  return Object.create(proxy, {
    proxyOptsForTarget: {
      value: (place) => {
        place.signal = gone.signal;
        return proxy.proxyOptsForTarget(place);
      },
    },
    log: { value: Object.create(proxy.log, { error: { value: stays((...words) => proxy.log.error(...words)) } }) },
    _handleProxyErrorDefault: { value: stays((...all) => proxy._handleProxyErrorDefault(...all)) },
  });
}

// What becomes of no web socket is closed: Node looks at a connection no more once it has asked for one. Of who has gone
// there is nothing to say.
const failed = ours.handleProxyError;
ours.handleProxyError = async function (code, kind, req, res, error) {
  if (req.dsportalRefused || (kind === "ws" && res?.destroyed)) return;
  if (kind === "ws" && req.dsportalBegun) return res?.destroy(); // no second answer goes into one that is broken off
  // The page that says so is the hub's work, and has its turn.
  if (kind !== "ws" && !req.dsportalAnswered && !(await turns.take(browserOf(req), req, res))) {
    if (!req.socket.destroyed && !res.headersSent) refuse(req, res, 429, 5);
    return;
  }
  failed.call(kind === "ws" || !res ? this : untilGone(this, req, res), code, kind, req, res, error);
  if (kind === "ws") res?.destroySoon();
};

if (settings.redirect_port) redirect(settings.redirect_port, settings.port);
