// Whose turn it is. What one client has under way at the hub at a time is bounded: its next requests wait here, and those of
// others go before them. Of one connection one request is under way at a time, so that it needs one connection behind the
// proxy, however many a program sends at once: a browser sends the next one when it has its answer.

const PIPELINED = 32; // requests that a connection may send before it has their answers
const HEADS_WAITING = 2 ** 25; // bytes of such requests that are kept of one client
const HEAD = 2 ** 12; // what Node keeps of one, beside its text

const works = new WeakMap(); // by connection: what its end ends
const lines = new WeakMap(); // by connection: its requests that have no answer yet
const heads = new Map(); // by client: bytes of its requests that came behind another one

export function once(work) {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}

// Do something when a request is over: its answer, or its connection. Node (22) says nothing of the end of an answer that
// waits behind another one on a connection that ends.
export function whenOver(req, answer, work) {
  const { socket } = req;
  if (!works.has(socket)) {
    works.set(socket, new Set());
    socket.once("close", () => [...works.get(socket)].forEach((one) => one()));
  }
  const open = works.get(socket);
  const over = once(() => {
    open.delete(over);
    work();
  });
  open.add(over);
  answer.once("close", over);
  if (socket.closed) over();
}

function headOf(req) {
  return req.rawHeaders.reduce((size, part) => size + part.length, HEAD + req.url.length);
}

function count(client, bytes) {
  const kept = (heads.get(client) ?? 0) + bytes;
  if (kept > 0) heads.set(client, kept);
  else heads.delete(client);
  return kept;
}

// Node (22) works on all requests that have come with one piece, also when their connection has ended by the first of them.
// The name is an inner one of Node's; a test tells whether it does what it did.
export function readNoMore(socket) {
  if (socket.parser) socket.parser.onIncoming = () => 2; // as for an upgrade: what follows is no request
}

// When those that were sent before it on the same connection have their answers; a connection that sends too many ends,
// and so does one with which its client sends too much.
export function turnOnConnection(req, answer, client) {
  const line = lines.get(req.socket) ?? { waiting: 0, last: Promise.resolve() };
  lines.set(req.socket, line);
  const before = line.last;
  const bytes = line.waiting > 0 ? headOf(req) : 0;
  line.waiting += 1;
  const isTooMuch = count(client, bytes) > HEADS_WAITING && bytes > 0; // before it may be over
  line.last = new Promise((resolve) => {
    whenOver(req, answer, () => {
      line.waiting -= 1;
      count(client, -bytes);
      resolve();
    });
  });
  if (line.waiting > PIPELINED || isTooMuch) {
    readNoMore(req.socket);
    req.socket.destroy();
  }
  return before;
}

export class Turns {
  #atOnce;
  #byClient = new Map();
  #waitingMost;

  constructor(atOnce, waitingMost) {
    this.#atOnce = atOnce;
    this.#waitingMost = waitingMost;
  }

  // True when a request may go on, false for one too many, and for one whose client has gone. Its turn is over when its
  // answer begins (req.dsportalAnswered), or with it.
  take(client, req, answer) {
    const theirs = this.#byClient.get(client) ?? { going: 0, waiting: new Set() };
    if (theirs.waiting.size >= this.#waitingMost) return Promise.resolve(false);
    this.#byClient.set(client, theirs);
    return new Promise((resolve) => {
      let goes = false;
      const begin = () => {
        goes = true;
        theirs.going += 1;
        resolve(true);
      };
      if (theirs.going < this.#atOnce) begin();
      else theirs.waiting.add(begin);
      req.dsportalAnswered = once(() => {
        if (goes) theirs.going -= 1;
        else theirs.waiting.delete(begin);
        resolve(false);
        this.#next(client, theirs);
      });
      whenOver(req, answer, req.dsportalAnswered);
    });
  }

  #next(client, theirs) {
    for (const begin of theirs.waiting) {
      if (theirs.going >= this.#atOnce) return;
      theirs.waiting.delete(begin);
      begin();
    }
    if (theirs.going === 0) this.#byClient.delete(client);
  }
}
