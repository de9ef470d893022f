// Facts that the demo gives to its processes.
import type { Installation } from '@pgqueue/router';

function required(variable: string): string {
  const value = process.env[variable];
  if (value === undefined || value === '') throw new Error(`set ${variable}`);
  return value;
}

/** Name of this process. */
export const name: string = required('DEMO_NAME');
export const installations = JSON.parse(required('DEMO_INSTALLATIONS')) as readonly Installation[];
