import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));

// whoever builds it: within a test runner it is `test`, and React would be the one for development
process.env['NODE_ENV'] = 'production';

/**
 * The bundle holds everything that a page needs, so that it asks no other host. Two texts in its index.html are for the server to
 * put in: `__PGQUEUE_NONCE__`, a nonce of the answer's own, and `__PGQUEUE_BASE__`, the path that the dashboard is mounted at.
 */
export default defineConfig({
  root: here,
  base: './',
  html: { cspNonce: '__PGQUEUE_NONCE__' },
  build: {
    outDir: fileURLToPath(new URL('../dist/web', import.meta.url)),
    emptyOutDir: true,
    target: 'es2023',
    // a data: address would need a hole in the policy
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      // libraries mark what a server may not render; here there is none that renders
      onLog: (level, log, handler) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handler(level, log);
      },
    },
  },
});
