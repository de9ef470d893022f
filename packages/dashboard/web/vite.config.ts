import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));

// a test runner sets it to `test`, which would bundle React's development build
process.env['NODE_ENV'] = 'production';

/**
 * Bundles everything a page needs, so that it loads nothing from other hosts. The server replaces three texts
 * in index.html: `__PGQUEUE_NONCE__` by a nonce of the answer, `__PGQUEUE_BASE__` by the path the dashboard is
 * mounted at, and `__PGQUEUE_VIEW__` by what the pages are of.
 */
export default defineConfig({
  root: here,
  base: './',
  html: { cspNonce: '__PGQUEUE_NONCE__' },
  build: {
    outDir: fileURLToPath(new URL('../dist/web', import.meta.url)),
    emptyOutDir: true,
    // ships the notices that the licences of bundled packages ask for: the bundle itself has lost them
    license: { fileName: 'licenses.md' },
    target: 'es2023',
    // a data: address would require an exception in the content security policy
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      // libraries mark modules with directives such as "use client", which are irrelevant without server
      // rendering
      onLog: (level, log, handler) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') handler(level, log);
      },
    },
  },
});
