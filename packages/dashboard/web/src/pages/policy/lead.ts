import type { Lead } from '../../../../src/contract.ts';
import { exact, upToTenths } from '../../format/numbers.ts';
import { span } from '../../format/times.ts';

/** Formats a lead with its unit, as a table shows it and as its tooltip has it. */
export function leadText({ lead, unit }: Pick<Lead, 'lead' | 'unit'>): {
  readonly shown: string;
  readonly whole: string;
} {
  if (unit === 'time') return { shown: span(lead), whole: `${exact(lead)} ms of worker time by weight` };
  const noun = unit === 'jobs' ? 'jobs' : 'of cost';
  return { shown: `${upToTenths(lead)} ${noun}`, whole: `${lead} ${noun} by weight` };
}
