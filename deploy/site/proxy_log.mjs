// Loaded into configurable-http-proxy (node --import): how much it logs, whoever asks for how much. Each request that a
// session does not answer is a line with its address, and a person may have them made as fast as the proxy is.
// - Long words, as addresses may be, and long lines are cut.
// - Of warnings and errors the first of each minute are told, and then how many more there were.

const LONGEST_WORD = /(\S{300})\S+/g;
const LONGEST = 4_000; // letters of one record
const FAULT = /^\S+ \[ConfigProxy\] (?:\u001b\[\d+m)*(?:error|warn)\b/;

const settings = JSON.parse(process.env.DSPORTAL_PROXY_GUARD ?? "{}");
const EVERY_MS = 1000 * (settings.faults_every_s ?? 60);
const FAULTS_MAX = settings.faults_told ?? 300; // in that time

let since = 0;
let told = 0;
let left = 0;

function short(words) {
  const cut = words.replace(LONGEST_WORD, "$1…");
  return cut.length > LONGEST ? `${cut.slice(0, LONGEST)} …\n` : cut;
}

// What is to be said before the next record of faults: how many were left out, when their time is over.
function begun() {
  if (performance.now() - since < EVERY_MS) return "";
  const words = left ? `${new Date().toISOString()} [ConfigProxy] warn: ${left} more such lines were left out\n` : "";
  since = performance.now();
  told = left = 0;
  return words;
}

for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write;
  stream.write = function (words, ...others) {
    if (typeof words !== "string") return write.call(this, words, ...others);
    if (!FAULT.test(words)) return write.call(this, short(words), ...others);
    const first = begun();
    if (first) write.call(this, first);
    told += 1;
    if (told <= FAULTS_MAX) return write.call(this, short(words), ...others);
    left += 1;
    others.findLast((one) => typeof one === "function")?.();
    return true;
  };
}
