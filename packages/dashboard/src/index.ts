export type * from './contract.ts';
export type { Dashboard } from './dashboard.ts';
export { createDashboard } from './dashboard.ts';
export type {
  ApiOptions,
  Auth,
  DashboardOptions,
  DatabaseRoles,
  Redact,
  Shown,
  User,
  UserRole,
} from './options.ts';
export type { DashboardServer, NodeHandler, ServeOptions } from './server.ts';
export { serveDashboard, toNodeHandler } from './server.ts';
export { readTokens, tokenAuth } from './token-auth.ts';
export type { TokenUser } from './token-auth.ts';
