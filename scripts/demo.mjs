// The demo from source, with the pages of its dashboard built: run by the package.json script `demo`. With --installations N it
// is the one of several databases.
import { ensureWeb } from './build-web.mjs';

if (process.argv.includes('--installations')) await import('../examples/installations/main.ts');
else {
  await ensureWeb();
  await import('../examples/webhooks/main.ts');
}
