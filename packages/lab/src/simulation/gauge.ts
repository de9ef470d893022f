/** Numbers of jobs that wait, are in flight and run, over time: of a lane, of a queue, or of all. */
export interface Gauge {
  sinceMs: number;
  /** Jobs that wait and are due. */
  waiting: number;
  /** Work items in flight. The jobs of one bundle count as one, here and below. */
  inFlight: number;
  running: number;
  /** Integrals over time, in job milliseconds. */
  waitingArea: number;
  busyArea: number;
  /** Integrals over the time in which a job waited. */
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

/** Counts the time up to now. Must be called before every change. */
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
