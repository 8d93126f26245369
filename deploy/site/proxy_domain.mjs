// Loaded into configurable-http-proxy (node --import): which address a request may come by, where each person's session
// has an origin of its own (portal.domain). What a browser shows of the hub is at the portal's one address, what it shows
// of a session at its person's. Programs that send a token reach everything at every address, without cookies.

import fs from "node:fs";
import { pathToFileURL } from "node:url";

const PORTAL = process.env.DSPORTAL_URL; // "http://portal.example.org:8000"; "" = everything is at one address
const BASE = process.env.DSPORTAL_BASE_URL || "/"; // "/jupyter/": everything is below it
const LOOPBACK = /^(localhost|.*\.localhost|127\.[0-9.]+|\[::1\])$/;
const HOST = /^([\w.-]*|\[[0-9a-f:.]+\])(:\d+)?$/i; // the proxy finds a route by host and path as one text
const TOKEN = /^(token|bearer)\s+\S/i;
const SESSIONS = `${BASE}user/`;
const MISDIRECTED = 421;

function targetOf(url) {
  // What a request asks for, from "/" on: it may also name scheme and host, or nothing but "*" (RFC 9112, 3.2).
  if (url.startsWith("/")) return url;
  const { pathname, search } = URL.canParse(url) ? new URL(url) : new URL(PORTAL);
  return pathname.startsWith("/") ? pathname + search : "/";
}

function pathOf(target) {
  // Of "//name/user/…" all is taken for a path: it is no session's.
  return new URL(PORTAL + target).pathname;
}

function cameTo(headers) {
  const [, name, port] = /^(.*?)(?::(\d+))?$/.exec((headers.host ?? "").toLowerCase());
  return { name, port: port ?? "" };
}

function placeOf(headers) {
  // "portal", "person" or "elsewhere": whose address a request has come to.
  const own = new URL(PORTAL);
  const { name, port } = cameTo(headers);
  // An address of one's own computer may be a tunnel with another port; elsewhere a server in front may leave ports away.
  if (LOOPBACK.test(own.hostname) && port !== own.port) return "elsewhere";
  if (name === own.hostname) return "portal";
  return name.endsWith(`.${own.hostname}`) ? "person" : "elsewhere";
}

function reachesPortal(headers) {
  // Whether a browser that came to this address reaches the portal's own one, too.
  const own = new URL(PORTAL);
  const { name, port } = cameTo(headers);
  return !LOOPBACK.test(own.hostname) || (LOOPBACK.test(name) && port === own.port);
}

function ruling(method, url, headers) {
  // What becomes of a request: "pass", "token" (pass, without cookies), "redirect" to the portal's address, "refuse".
  if (!HOST.test(headers.host ?? "")) return "refuse"; // with a path in it, it would lead elsewhere than the path says
  const path = pathOf(url);
  const place = placeOf(headers);
  const isSessions = place === "person" && path.startsWith(SESSIONS);
  if (isSessions || path === `${BASE}hub/health`) return "pass";
  if (TOKEN.test(headers.authorization ?? "")) return "token";
  if (place === "portal") return "pass";
  return ["GET", "HEAD"].includes(method) && reachesPortal(headers) ? "redirect" : "refuse";
}

function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // no text: no route is called so
  }
}

async function hostOf(routes, url) {
  // "alice.portal.example.org:8000" for "/user/alice/…", told by the routes, because not every name can be a host's; for
  // anything else the portal's own.
  const own = new URL(PORTAL);
  const asked = decoded(pathOf(url)); // as the routes are
  const isSession = asked.startsWith(SESSIONS) && asked.indexOf("/", SESSIONS.length) > SESSIONS.length;
  const path = isSession && asked.slice(0, asked.indexOf("/", SESSIONS.length) + 1);
  const known = path ? Object.keys(await routes.getAll()) : [];
  const found = known.find((route) => `${route}/`.replace(/^\/[^/]*/, "").startsWith(path));
  own.hostname = found?.split("/")[1] ?? own.hostname;
  return own.host;
}

function answer(req, res, head, body) {
  if (res.writeHead) {
    res.writeHead(head.status, { "Cache-Control": "no-store", "Content-Type": head.type, ...head.more });
    res.end(req.method === "HEAD" ? undefined : body);
  } else {
    res.write(`HTTP/1.1 ${head.status} Misdirected Request\r\nConnection: close\r\n\r\n`); // a web socket
    res.destroySoon();
  }
}

function refuse(req, res) {
  const isForPerson = (req.headers.accept ?? "").includes("text/html");
  const words = `This is not the portal's own address, which is ${PORTAL}\n`;
  fs.readFile(process.env.DSPORTAL_ADDRESS_PAGE ?? "", (error, page) => {
    const isPage = isForPerson && !error;
    const type = `text/${isPage ? "html" : "plain"}; charset=utf-8`;
    answer(req, res, { status: MISDIRECTED, type }, isPage ? page : words);
  });
}

if (PORTAL) {
  // Without this every session would be at one address: a fault here must stop the proxy.
  const program = pathToFileURL(fs.realpathSync(process.argv[1]));
  const { ConfigurableProxy } = await import(new URL("../lib/configproxy.js", program));
  const ours = ConfigurableProxy.prototype;
  const pass = ours.handleProxy;

  ours.handleProxy = async function (kind, req, res, ...rest) {
    req.url = targetOf(req.url);
    const what = ruling(kind === "ws" ? "WS" : req.method, req.url, req.headers);
    if (what === "refuse") return refuse(req, res);
    if (what === "redirect") {
      const more = { Location: PORTAL + req.url };
      return answer(req, res, { status: 302, type: "text/plain", more }, "");
    }
    if (req.headers.host) req.headers.host = req.headers.host.toLowerCase(); // the proxy's own look at it is a literal one
    if (what === "token") {
      delete req.headers.cookie;
      req.headers.host = await hostOf(this._routes, req.url);
    }
    return pass.call(this, kind, req, res, ...rest);
  };
}
