// The site of the documentation: `npm run docs:site` builds it into docs/.vitepress/dist, with a search that needs no server.
// The pages are the Markdown files as they are; README.md is the first page. A dead link fails the build.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pages = /^(README|CONTRIBUTING|SECURITY)\.md$|^docs\/(?!node_modules\/).*\.md$/;

/** @param {string} page */
const titleOf = (page) => /^# (.+)$/m.exec(readFileSync(join(root, page), 'utf8'))?.[1] ?? basename(page);

/** @param {readonly string[]} names */
const entries = (...names) =>
  names.map((name) => ({ text: titleOf(`docs/${name}.md`), link: `/docs/${name}` }));

/** @param {string} folder */
const allOf = (folder) =>
  entries(
    ...readdirSync(join(root, 'docs', folder))
      .filter((name) => name.endsWith('.md') && name !== 'README.md')
      .map((name) => `${folder}/${name.slice(0, -3)}`),
  );

/**
 * Links to files that are no pages, such as sources, become plain text: the site does not know where the repository is published.
 * Expected outputs are shown as text.
 * @param {import('markdown-it')} md
 */
function asSite(md) {
  md.core.ruler.push('as_site', ({ tokens, env }) => {
    for (const token of tokens) if (token.info === 'output') token.info = 'txt';
    for (const inline of tokens.filter(({ type }) => type === 'inline')) {
      let unlinked = false;
      for (const token of inline.children ?? []) {
        if (token.type === 'link_open') {
          const href = String(token.attrGet('href'));
          unlinked = !/^(#|[a-z]+:)/.test(href) && !isPage(join(root, dirname(env.relativePath)), href);
        }
        if (!unlinked || !token.type.startsWith('link_')) continue;
        token.tag = 'span';
        token.attrs = [];
        if (token.type === 'link_close') unlinked = false;
      }
    }
  });
}

/**
 * A link to a page, also to one that is missing: that is a dead link.
 * @param {string} from @param {string} href
 */
function isPage(from, href) {
  const target = resolve(from, href.replace(/#.*$/, ''));
  return pages.test(relative(root, target)) || !existsSync(target);
}

export default defineConfig({
  title: 'pgqueue',
  description:
    'A Postgres job queue in two tiers: fair, exact about limits, and able to say why a job is not running.',
  srcDir: '..',
  srcExclude: ['**/node_modules/**', '{packages,test,examples,bench,docker,migrations,scripts}/**', '.*/**'],
  rewrites: {
    'README.md': 'index.md',
    'docs/README.md': 'docs/index.md',
    'docs/api/README.md': 'docs/api/index.md',
  },
  markdown: { config: asSite },
  cleanUrls: true,
  vite: { build: { chunkSizeWarningLimit: 5_000 } }, // the search's index
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Concepts', link: '/docs/concepts' },
      { text: 'API', link: '/docs/api/' },
    ],
    sidebar: [
      {
        text: 'Start',
        items: [{ text: 'pgqueue', link: '/' }, ...entries('tutorial', 'concepts', 'see-it-run', 'webhooks')],
      },
      {
        text: 'Write jobs',
        items: entries(
          'guides/producer',
          'guides/results',
          'guides/flows',
          'guides/http',
          'guides/worker',
          'guides/bundles',
          'guides/long-jobs',
          'guides/executables',
          'guides/python',
          'guides/protocol',
          'guides/encryption',
          'guides/testing',
          'guides/coming-from',
        ),
      },
      {
        text: 'Decide what runs',
        items: entries('guides/scheduler', 'guides/policies', 'guides/policy-lab'),
      },
      {
        text: 'Operate',
        items: entries(
          'operations',
          'guides/command-line',
          'guides/dashboard',
          'guides/monitoring',
          'guides/docker',
          'guides/kubernetes',
          'security',
          'scaling',
          'guides/installations',
          'guides/shared-limits',
          'guides/citus',
        ),
      },
      { text: 'Judge it', items: entries('reliability', 'benchmarks') },
      { text: 'API reference', collapsed: true, items: allOf('api') },
      { text: 'Decisions', collapsed: true, items: allOf('decisions') },
      {
        text: 'Carry on',
        items: [{ text: titleOf('CONTRIBUTING.md'), link: '/CONTRIBUTING' }, ...entries('glossary')],
      },
    ],
  },
});
