import type { HealthChecks, HealthOptions, HealthServer, JoiningHealth } from './health-server.ts';
import { serveHealth } from './health-server.ts';

/** One health server for several roles of a process. */
export interface JointHealth {
  /** The option `health` of each role: it serves nothing itself, and this server asks it. */
  readonly options: HealthOptions;
  /** Undefined: it is not listening yet. */
  readonly port: number | undefined;
  /** @throws {PgQueueError} `configuration`: the port can't be listened on */
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Creates it without listening. Ready: as many roles as given have started, and all of them are ready. */
export function createJointHealth(options: HealthOptions, roles: number): JointHealth {
  const joined: HealthChecks[] = [];
  let server: HealthServer | undefined;
  let starting: Promise<void> | undefined;
  const checks: HealthChecks = {
    live: () => joined.flatMap(({ live }) => live()),
    ready: () => (joined.length < roles ? ['it is starting'] : joined.flatMap(({ ready }) => ready())),
    metrics:
      options.metrics === false
        ? undefined
        : async () => {
            const pages = await Promise.all(joined.flatMap(({ metrics }) => metrics?.() ?? []));
            const contentType = pages[0]?.contentType ?? 'text/plain; charset=utf-8';
            return { contentType, text: joinedTexts(pages.map(({ text }) => text)) };
          },
  };
  const joining: JoiningHealth = { ...options, join: (role) => void joined.push(role) };
  const listen = async (): Promise<void> => {
    server = await serveHealth(options, checks);
  };
  return {
    options: joining,
    get port() {
      return server?.port;
    },
    start: () => (starting ??= listen()),
    close: async () => {
      await starting?.catch(() => {});
      await server?.close();
    },
  };
}

/**
 * Joins texts for Prometheus, which takes each metric once: a metric of several texts has the series of all of them, and
 * their sum where several have the same, as the errors of the database may.
 */
export function joinedTexts(texts: readonly string[]): string {
  const metrics = new Map<string, Map<string, number>>();
  let series = new Map<string, number>();
  let help = '';
  for (const line of texts.flatMap((text) => text.split('\n'))) {
    if (line.startsWith('# HELP ')) help = line;
    else if (line.startsWith('# TYPE ')) {
      const head = `${help}\n${line}`;
      series = metrics.get(head) ?? new Map<string, number>();
      metrics.set(head, series);
    } else if (line !== '') {
      const end = line.lastIndexOf(' ');
      const name = line.slice(0, end);
      series.set(name, (series.get(name) ?? 0) + Number(line.slice(end)));
    }
  }
  return [...metrics]
    .map(([head, values]) => [head, ...[...values].map(([name, value]) => `${name} ${value}`), ''].join('\n'))
    .join('\n');
}
