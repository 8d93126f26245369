// Small pieces go on as larger ones. Node (22) bounds what waits by its bytes, and each piece has a weight and a cost of its
// own: who sends chunks of one byte, a session or a browser, would fill the memory of the proxy, and take the time of all
// others. What comes in one go is handed on as one piece; while somebody does not read, what comes is gathered; and of
// the pieces of one person there are so many a second. Who sends far more is cut off, which the log says once a minute.
// proxy_guard.mjs puts this before what the proxy hands on.

const SMALL = 1024; // bytes below which a piece is gathered
const LARGE = 2 ** 14;
const FEW = 64; // small pieces that come in one go without being too many
const A_MILLISECOND = 20; // small pieces, which is about a tenth of the proxy's time
const AT_ONCE_MS = 5;
const MOST_MS = 20_000; // who has sent more than can be handed on until then is cut off
const AGAIN_MS = 20;
const KNOWN = 1000;
const TOLD_EVERY_MS = 60_000;

const busy = new Map(); // by sender: until when what came is handed on
const told = new Map(); // by sender: when the log said last that one was cut off

function charged(sender, count) {
  const now = performance.now();
  if (busy.size > KNOWN) for (const [one, until] of busy) if (until < now) busy.delete(one);
  const until = Math.max(now, busy.get(sender) ?? 0) + count / A_MILLISECOND;
  busy.set(sender, until);
  return until - now;
}

function tell(sender) {
  const now = performance.now();
  for (const [one, at] of told) if (now - at > TOLD_EVERY_MS) told.delete(one);
  if (told.has(sender) || told.size >= KNOWN) return;
  told.set(sender, now);
  const limit = `more than ${1000 * A_MILLISECOND} a second for ${MOST_MS / 1000} s (each below ${SMALL} bytes)`;
  const words = `${JSON.stringify(sender)} sent very small pieces, ${limit}, and was cut off`; // a name is no line of its own
  console.warn(`${new Date().toISOString()} [ConfigProxy] warn: ${words}`);
}

// `sender` is whose pieces they are; `end` cuts off what has too many.
export function gather(readable, sender, end = () => readable.destroy()) {
  const { pipe, push } = readable;
  let target;
  let room = Buffer.alloc(0);
  let length = 0;
  let count = 0;
  let isDue = false;
  let isOver = false;

  const keep = (piece) => {
    if (length + piece.length > room.length) {
      const wider = Buffer.allocUnsafe(Math.max(SMALL, 2 * (length + piece.length)));
      room.copy(wider, 0, 0, length);
      room = wider;
    }
    length += piece.copy(room, length);
    count += 1;
  };
  const hand = () => {
    const whole = room.subarray(0, length);
    room = Buffer.alloc(0);
    length = 0;
    return push.call(readable, whole);
  };
  const send = () => {
    if (length === 0 || readable.destroyed) {
      isDue = false;
    } else if (length < LARGE && (readable.readableLength > 0 || target?.writableLength > 0)) {
      setTimeout(send, AGAIN_MS);
    } else {
      isDue = false;
      hand();
    }
  };
  const cutOff = () => {
    isOver = true;
    room = Buffer.alloc(0);
    length = 0;
    tell(sender);
    end();
  };
  const begin = () => {
    const wait = sender === undefined ? 0 : charged(sender, count); // the hub is not bounded
    count = 0;
    if (wait > MOST_MS) cutOff();
    else if (wait > AT_ONCE_MS) setTimeout(send, wait);
    else send();
  };
  readable.pipe = function (to, ...rest) {
    target = to;
    return pipe.call(this, to, ...rest);
  };
  readable.push = function (piece, ...rest) {
    if (isOver && piece) return false; // nothing more is read
    if (!piece && length > 0) hand();
    if (!piece || (length === 0 && piece.length >= SMALL)) return push.call(this, piece, ...rest);
    keep(piece);
    if (!isDue) {
      isDue = true;
      setImmediate(begin);
    }
    return count <= FEW && length < LARGE; // else it is read on when this is handed on
  };
}
