// Loaded into configurable-http-proxy (node --import): in systemd's journal its lines have their level (sd-daemon(3)) and no
// colours, for which journald keeps a line as bytes that other programs do not read. Elsewhere nothing is changed.

import fs from "node:fs";

const LEVELS = { error: 3, warn: 4, info: 6, debug: 7 };
const COLOURS = /\u001b\[\d+m/g;
const LEVEL = /^\S+ \[ConfigProxy\] (\w+): /;

function isJournal(descriptor) {
  try {
    const { dev, ino } = fs.fstatSync(descriptor);
    return process.env.JOURNAL_STREAM === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

function marked(words) {
  const plain = words.replace(COLOURS, "");
  const level = LEVELS[LEVEL.exec(plain)?.[1]];
  return level === undefined ? plain : `<${level}>${plain.replace(/\n(?=[^])/g, `\n<${level}>`)}`;
}

for (const stream of [process.stdout, process.stderr].filter((one) => isJournal(one.fd))) {
  const write = stream.write;
  stream.write = function (words, ...others) {
    return write.call(this, typeof words === "string" ? marked(words) : words, ...others);
  };
}
