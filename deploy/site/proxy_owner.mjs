// Loaded into configurable-http-proxy (node --import): what is for a person goes to that person's session, to no other.
// All sessions have certificates of one authority, and a node has sessions of several people, so the name of the node
// does not tell them apart. The hub writes the person into the certificate (CN=user-NAME) and into the route.
// Without this the proxy does not start.

import fs from "node:fs";
import https from "node:https";
import tls from "node:tls";
import { pathToFileURL } from "node:url";

const OF_PERSON = "user-";

const program = pathToFileURL(fs.realpathSync(process.argv[1]));
const { ConfigurableProxy } = await import(new URL("../lib/configproxy.js", program));
const ours = ConfigurableProxy.prototype;
const { targetForReq, proxyOptsForTarget } = ours;
if (!targetForReq || !proxyOptsForTarget) {
  throw new Error("This configurable-http-proxy is another one than the portal knows.");
}
const agents = new Map(); // by person; a connection that was made for one is used for nobody else

function fault(person, host, certificate) {
  const name = String(certificate.subject?.CN ?? "");
  if (person ? name === OF_PERSON + person : !name.startsWith(OF_PERSON)) {
    return tls.checkServerIdentity(host, certificate);
  }
  const asked = person ? `the session of ${person}` : "the hub";
  return Object.assign(new Error(`${host} is not ${asked}: its certificate is that of ${name}`), { code: "ECONNREFUSED" });
}

function agentOf(person) {
  if (!agents.has(person)) {
    const checkServerIdentity = (host, certificate) => fault(person, host, certificate);
    // No servername: Node would take the browser's Host for it, and check that instead of the node.
    agents.set(person, new https.Agent({ keepAlive: true, servername: "", checkServerIdentity }));
  }
  return agents.get(person);
}

// The route's person travels from one of the proxy's functions to the next in the fragment of the target's address.
ours.targetForReq = async function (req) {
  const match = await targetForReq.call(this, req);
  if (!match) return match;
  const route = await this._routes.get(match.prefix);
  const target = new URL(match.target);
  target.hash = encodeURIComponent(route?.user ?? "");
  return { ...match, target: target.href };
};

ours.proxyOptsForTarget = function (target) {
  const person = decodeURIComponent(target.hash.slice(1));
  target.hash = "";
  const options = proxyOptsForTarget.call(this, target);
  return options.secure ? { ...options, agent: agentOf(person) } : options;
};
