import type { Stage } from './stage.ts';

/** The stage that all suites share: one browser, one server, one database. It is there when their tests run. */
export type OnStage = () => Stage;

/** Every page that stands in the side bar, with its heading. */
export const pages = [
  { path: '/', name: 'Overview' },
  { path: '/keys', name: 'Keys' },
  { path: '/queues', name: 'Queues' },
  { path: '/jobs', name: 'Jobs' },
  { path: '/flows', name: 'Flows' },
  { path: '/nodes', name: 'Nodes' },
  { path: '/dead', name: 'Dead letters' },
  { path: '/schedules', name: 'Schedules' },
  { path: '/policy', name: 'Policy' },
  { path: '/health', name: 'Health' },
  { path: '/audit', name: 'Audit' },
] as const;
