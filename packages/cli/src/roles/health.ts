import type { HealthOptions } from '@pgqueue/postgres';
import { Option } from 'commander';
import { whole } from '../parse.ts';

/** Values of the options {@link healthPort} and {@link metricKeys}, as commander gives them. */
export interface HealthFlags {
  readonly healthPort?: number;
  readonly metricKeys?: number;
}

/** Makes the option for the port of a role's health checks. */
export function healthPort(): Option {
  return new Option(
    '--health-port <n>',
    'port on which to answer GET /live, GET /ready and GET /metrics',
  ).argParser(whole(0, 65_535));
}

/** Makes the option for the keys in a scheduler's metrics. */
export function metricKeys(): Option {
  return new Option(
    '--metric-keys <n>',
    'most keys named in /metrics, the others are summed; default 10',
  ).argParser(whole(0, 1_000));
}

/** Returns the option `health` of a role; empty without a port. */
export function healthOf({ healthPort: port, metricKeys: keys }: HealthFlags): { health?: HealthOptions } {
  if (port === undefined) return {};
  return { health: { port, ...(keys === undefined ? {} : { keys }) } };
}
