// What http-proxy-3 (1.23) leaves undone where a web socket is asked for; proxy_guard.mjs calls it.
// - An answer that is no web socket is read from its session, or from the hub, no faster than its client takes it: else
//   the proxy would keep all of it.
// - When a client goes, so does what was asked for it. Nobody else ends a connection to a session that says nothing.

const FAREWELL_MS = 5_000; // for the last words of a web socket, to a session that does not close it itself

export function keepPace(proxyReq, socket, begun) {
  const gone = () => proxyReq.destroy();
  const left = () => socket.destroy();
  socket.once("close", gone);
  socket.once("end", left); // nobody reads it yet, so Node itself closes nothing
  if (socket.readableEnded) left(); // it went while it waited
  if (socket.destroyed) gone();
  proxyReq.once("upgrade", (_, proxySocket) => {
    begun(proxySocket);
    socket.off("close", gone).off("end", left);
    socket.once("close", () => endSoon(proxySocket));
  });
  proxyReq.once("response", (proxyRes) => {
    socket.off("end", left);
    proxyRes.on("data", () => {
      if (!socket.writableNeedDrain) return;
      proxyRes.pause();
      socket.once("drain", () => proxyRes.resume());
    });
  });
}

function endSoon(proxySocket) {
  if (proxySocket.destroyed) return;
  const patience = setTimeout(() => proxySocket.destroy(), FAREWELL_MS);
  proxySocket.once("close", () => clearTimeout(patience));
}
