export type { ServerKind, ServerMajor, StartServerOptions, TestServer } from './server.ts';
export { startServer } from './server.ts';
