const MINUTES_PER_HOUR = 60;
const HOURS_PER_DAY = 24;
const MIB = 2 ** 20;
const GIB = 2 ** 30;
const SMALL_GB = 0.1;

/** A duration in the two units that tell most, as "3 h 12 min". */
export function duration(minutes: number): string {
  const whole = Math.max(0, Math.floor(minutes));
  const hours = Math.floor(whole / MINUTES_PER_HOUR);
  if (hours === 0) {
    return `${whole} min`;
  }
  if (hours < 2 * HOURS_PER_DAY) {
    return `${hours} h ${whole % MINUTES_PER_HOUR} min`;
  }
  return `${Math.floor(hours / HOURS_PER_DAY)} d ${hours % HOURS_PER_DAY} h`;
}

/** A moment on the clock of the browser; with its day where that is not today. */
export function clock(at: Date): string {
  const time = at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()}, ${time}`;
}

/** Bytes in GB, as Slurm counts them, without the unit: "2.1" or "48". */
export function gigabytes(bytes: number): string {
  const size = bytes / GIB;
  return size < 10 ? size.toFixed(1).replace(/\.0$/, '') : String(Math.round(size));
}

/** Bytes with the unit that suits them: "120 MB" or "2.1 GB". */
export function size(bytes: number): string {
  return bytes < SMALL_GB * GIB ? `${Math.round(bytes / MIB)} MB` : `${gigabytes(bytes)} GB`;
}

/** "2.1 of 48 GB", or "2.1 GB" where there is no limit. */
export function share(used: number, limit: number | null): string {
  return limit === null ? size(used) : `${gigabytes(used)} of ${gigabytes(limit)} GB`;
}
