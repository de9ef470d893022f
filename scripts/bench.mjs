// The benchmark, on the built packages: plain JavaScript, as its users have it. Stripping types would be measured, too.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const built = spawnSync('tsc', ['-b', 'bench'], { cwd: root, stdio: 'inherit' });
if (built.status !== 0) process.exit(1);
await import('../bench/dist/main.js');
