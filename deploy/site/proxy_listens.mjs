// Loaded into configurable-http-proxy (node --import) in the local mode: where somebody else has its port it ends, and the
// hub with it. Else that one would be asked for the password in its place.

import net from "node:net";

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (...given) {
  this.on("error", (error) => {
    if (error.syscall !== "listen") return;
    console.error(`The portal does not start: ${error.message}. Take another --port.`);
    process.exit(1); // its hub sees that
  });
  return listen.apply(this, given);
};
