// Loaded into configurable-http-proxy (node --import): what comes before an answer. A session may send heads that are no
// answer yet (100 Continue, 103 Early Hints), and Node reads them as fast as they come, for nobody: a few such requests
// would keep everybody's waiting. After some of them all connections to that session end; its person may ask again.

import http from "node:http";

const HEADS_MOST = 10; // of one request

const add = http.Agent.prototype.addRequest; // HTTPS has it too
if (!add) throw new Error("This Node is another one than the portal knows.");

http.Agent.prototype.addRequest = function (request, ...rest) {
  let heads = 0;
  request.on("information", () => {
    heads += 1;
    if (heads === HEADS_MOST + 1) endAll(this, request);
  });
  return add.call(this, request, ...rest);
};

function endAll(agent, request) {
  const { socket } = request;
  request.destroy(Object.assign(new Error(`${HEADS_MOST} heads and no answer`), { code: "ECONNRESET" }));
  const theirs = Object.values(agent.sockets).find((one) => one?.includes(socket)) ?? [];
  for (const one of [...theirs]) one.destroy();
}
