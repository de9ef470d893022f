export type { LastingServer } from './server-local.ts';
export { startEmbedded } from './server-local.ts';
export type { ServerMajor, StartServerOptions, TestServer } from './server.ts';
export type { ServerKind } from './running-server.ts';
export type { RunningServer } from './running-server.ts';
export { startServer } from './server.ts';
export { migrateFrom } from '../migrate/migrator.ts';
