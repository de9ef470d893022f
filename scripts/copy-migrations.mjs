// Before packing: the migrations live at the top of the repository and ship inside @pgqueue/postgres.
import { cpSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const from = fileURLToPath(new URL('../migrations', import.meta.url));
const to = fileURLToPath(new URL('../packages/postgres/migrations', import.meta.url));
rmSync(to, { recursive: true, force: true });
cpSync(from, to, { recursive: true });
