// The demo from source, with the pages of its dashboard built: run by the package.json script `demo`.
import { ensureWeb } from './build-web.mjs';

await ensureWeb();
await import('../examples/webhooks/main.ts');
