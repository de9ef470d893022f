// Facts that the demo gives to its processes.
import type { Installation } from '@pgqueue/router';
import { requiredEnv } from '../webhooks/messages.ts';

/** Name of this process. */
export const name: string = requiredEnv('DEMO_NAME');
export const installations = JSON.parse(requiredEnv('DEMO_INSTALLATIONS')) as readonly Installation[];
