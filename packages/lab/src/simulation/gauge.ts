/** How many jobs wait, are in flight and run, over time. Of a lane, a queue, or all. */
export interface Gauge {
  sinceMs: number;
  /** Jobs that could go, as far as time is concerned. */
  waiting: number;
  /** Work items: those of one bundle count as one, here and below. */
  inFlight: number;
  running: number;
  /** Sums over time: multiplied by milliseconds. */
  waitingArea: number;
  busyArea: number;
  /** The same, over the time in which something waited. */
  backloggedMs: number;
  busyBacklogged: number;
  inFlightBacklogged: number;
  inFlightMax: number;
  waitingMax: number;
  dispatched: number;
  dispatchedBacklogged: number;
}

export function createGauge(nowMs: number): Gauge {
  return {
    sinceMs: nowMs,
    waiting: 0,
    inFlight: 0,
    running: 0,
    waitingArea: 0,
    busyArea: 0,
    backloggedMs: 0,
    busyBacklogged: 0,
    inFlightBacklogged: 0,
    inFlightMax: 0,
    waitingMax: 0,
    dispatched: 0,
    dispatchedBacklogged: 0,
  };
}

/** Counts the time up to now. Before every change. */
export function bring(gauge: Gauge, nowMs: number): void {
  const ms = nowMs - gauge.sinceMs;
  if (ms <= 0) return;
  gauge.sinceMs = nowMs;
  gauge.busyArea += gauge.running * ms;
  if (gauge.waiting === 0) return;
  gauge.waitingArea += gauge.waiting * ms;
  gauge.backloggedMs += ms;
  gauge.busyBacklogged += gauge.running * ms;
  gauge.inFlightBacklogged += gauge.inFlight * ms;
}
