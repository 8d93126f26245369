const MINUTES_PER_HOUR = 60;
const HOURS_PER_DAY = 24;

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
