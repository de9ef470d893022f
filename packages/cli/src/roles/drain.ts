import { Option } from 'commander';
import { duration } from '../parse.ts';

/** Makes the option for the time that a role's jobs have at its end. */
export function drainTime(): Option {
  return new Option('--drain <duration>', 'longest wait for running jobs at the end')
    .argParser(duration)
    .default(30_000, '30s');
}
