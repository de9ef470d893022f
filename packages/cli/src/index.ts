export type { ExitCode } from './errors.ts';
export { runCli } from './program.ts';
