// Loaded into configurable-http-proxy (node --import): what is for a person goes to that person's session, to no other.
// All sessions have certificates of one authority, and a node has sessions of several people, so the name of the node
// does not tell them apart. The hub writes the person into the certificate (CN=user-NAME) and into the route, and a word of
// this very start (OU): what somebody has kept of an ended session is worth nothing, whoever has the name by now. Of a session that an earlier version
// of the portal has started, or has saved since, the hub knows no word.
// Without this the proxy does not start.

import fs from "node:fs";
import https from "node:https";
import tls from "node:tls";
import { pathToFileURL } from "node:url";

const OF_PERSON = "user-";
const OF_HUB = JSON.stringify(["", ""]);

const program = pathToFileURL(fs.realpathSync(process.argv[1]));
const { ConfigurableProxy } = await import(new URL("../lib/configproxy.js", program));
const ours = ConfigurableProxy.prototype;
const { targetForReq, proxyOptsForTarget } = ours;
if (!targetForReq || !proxyOptsForTarget) {
  throw new Error("This configurable-http-proxy is another one than the portal knows.");
}
// Whoever says hello would else choose a group of which each takes long (ffdhe8192 of OpenSSL 3.0 to 3.4: 0.1 s).
const USUAL = ["X25519MLKEM768:X25519:P-256:P-384", "X25519:P-256:P-384", "P-256:P-384"];
tls.DEFAULT_ECDH_CURVE = USUAL.find(areKnown);
const AGENTS_MOST = 4096; // sessions; of what goes, connections end when nobody uses them
const agents = new Map(); // by session; a connection that was made for one is used for no other; the newest comes last

function areKnown(ecdhCurve) {
  try {
    return tls.createSecureContext({ ecdhCurve });
  } catch {
    return false; // an older library, or one that may use what FIPS names alone
  }
}

function fault(person, word, host, certificate) {
  const name = String(certificate.subject?.CN ?? "");
  if (word && name === OF_PERSON + person && String(certificate.subject.OU ?? "") !== word) {
    return refusal(`${host} is not the session of ${person}: its certificate is that of another start`);
  }
  if (person ? name === OF_PERSON + person : !name.startsWith(OF_PERSON)) {
    return tls.checkServerIdentity(host, certificate);
  }
  const asked = person ? `the session of ${person}` : "the hub";
  return refusal(`${host} is not ${asked}: its certificate is that of ${name}`);
}

function refusal(words) {
  return Object.assign(new Error(words), { code: "ECONNREFUSED" });
}

function agentOf(session) {
  const [person, word] = JSON.parse(session);
  const checkServerIdentity = (host, certificate) => fault(person, word, host, certificate);
  // No servername: Node would take the browser's Host for it, and check that instead of the node.
  const agent = agents.get(session) ?? new https.Agent({ keepAlive: true, servername: "", checkServerIdentity });
  agents.delete(session);
  agents.set(session, agent);
  if (agents.size > AGENTS_MOST) agents.delete(agents.keys().next().value);
  return agent;
}

// The route's session travels from one of the proxy's functions to the next in the fragment of the target's address.
ours.targetForReq = async function (req) {
  const match = await targetForReq.call(this, req);
  if (!match) return match;
  const route = await this._routes.get(match.prefix);
  const target = new URL(match.target);
  target.hash = encodeURIComponent(JSON.stringify([route?.user ?? "", route?.session_word ?? ""]));
  return { ...match, target: target.href };
};

ours.proxyOptsForTarget = function (target) {
  const session = decodeURIComponent(target.hash.slice(1)) || OF_HUB;
  target.hash = "";
  const options = proxyOptsForTarget.call(this, target);
  return options.secure ? { ...options, agent: agentOf(session) } : options;
};
