import '@mantine/core/styles.layer.css';
import '@mantine/charts/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './base.css';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Router } from 'wouter';
import { ApiProblem } from './api/client.ts';
import { startLive } from './api/live.ts';
import { isOverall, mount, styleNonce } from './api/mount.ts';
import { App } from './app.tsx';
import { OverallApp } from './overall/app.tsx';
import { resolver, theme } from './theme.ts';

const nonce = styleNonce();
// react-remove-scroll, which keeps the page from scrolling under a dialog, reads the nonce from here
Object.assign(globalThis, { __webpack_nonce__: nonce });

const worthAnother: ReadonlySet<string> = new Set(['network', 'busy', 'timeout', 'database']);

const cache = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      retry: (count, error) => count < 2 && error instanceof ApiProblem && worthAnother.has(error.code),
    },
  },
});

const root = document.querySelector('#root');
if (root === null) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={resolver}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <Notifications position="bottom-right" limit={4} />
      <QueryClientProvider client={cache}>
        <Router base={mount}>{isOverall ? <OverallApp /> : <App />}</Router>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
startLive(cache, { hasStream: !isOverall });
