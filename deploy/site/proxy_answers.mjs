// What one client may leave unread of the hub's answers: each such answer holds memory in the kernel, and in the hub.
// - One that makes no progress for a while ends, and its connection with it.
// - Of those that a client reads slowly the oldest end when there are too many.
// Streams of events go on: they say nothing for long, and little at a time.

const EVENTS = /^text\/event-stream/i;

export class SlowAnswers {
  #byClient = new Map(); // the oldest first
  #everyMs;
  #perClient;

  constructor(takenWithinS, perClient) {
    this.#everyMs = 1000 * takenWithinS;
    this.#perClient = perClient;
  }

  // An answer of the hub begins.
  watch(client, proxyRes, req, res) {
    if (EVENTS.test(proxyRes.headers["content-type"] ?? "")) return;
    const { socket } = req;
    let before = socket.bytesWritten;
    const look = setInterval(() => {
      if (socket.bytesWritten === before) return socket.destroy();
      before = socket.bytesWritten;
      return this.#isSlow(client, socket);
    }, this.#everyMs);
    res.once("close", () => {
      clearInterval(look);
      this.#forget(client, socket);
    });
  }

  #isSlow(client, socket) {
    const theirs = this.#byClient.get(client) ?? new Set();
    this.#byClient.set(client, theirs.add(socket));
    if (theirs.size <= this.#perClient) return;
    const [oldest] = theirs;
    this.#forget(client, oldest);
    oldest.destroy();
  }

  #forget(client, socket) {
    const theirs = this.#byClient.get(client);
    theirs?.delete(socket);
    if (theirs?.size === 0) this.#byClient.delete(client);
  }
}
