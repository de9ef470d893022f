export type { LastingServer } from './server-local.ts';
export { startEmbedded } from './server-local.ts';
export type { RunningServer, ServerKind, ServerMajor, StartServerOptions, TestServer } from './server.ts';
export { startServer } from './server.ts';
export { migrateFrom } from '../migrate/migrator.ts';
