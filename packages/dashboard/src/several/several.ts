import { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import type { Installation } from '@pgqueue/postgres/internal';
import { checkInstallations } from '@pgqueue/postgres/internal';
import { pathBelow } from '../app.ts';
import type { DashboardOptions, Settings } from '../options.ts';
import { settleOwn } from '../options.ts';
import type { Site } from '../site.ts';
import { openSite } from '../site.ts';
import { createFront } from './front.ts';
import type { Member } from './member.ts';

/** Time in which an installation must answer a check, in milliseconds. */
const checkMs = 5_000;

/** Opens the sites of several installations below `/i/NAME`, and pages over all of them. */
export function openSeveral(settings: Settings, options: DashboardOptions): Omit<Site, 'office'> {
  const members = checkInstallations(options.installations).map((installation): Member => ({
    installation,
    site: openSite(settleOwn(settings, options, installation), installation),
  }));
  const front = createFront(settings, members);
  const memberAt = (path: string): Member | undefined => {
    const [, name] = /^\/i\/([^/]+)(?:\/|$)/.exec(path) ?? [];
    return members.find(({ installation }) => installation.name === name);
  };
  return {
    fetch: async (request, remote) => {
      const path = pathBelow(settings.mountPath, new URL(request.url).pathname);
      const member = memberAt(path);
      return member === undefined ? front.fetch(request, remote) : member.site.fetch(request, remote);
    },
    check: () => checkAll(members),
    close: async () => {
      await Promise.all(members.map(({ site }) => site.close()));
    },
  };
}

/**
 * Checks all installations. Those that do not answer in time are left for later, unless none answers.
 * @throws {PgQueueError} `schema_version`, `configuration`: one that answered is not as it must be
 */
async function checkAll(members: readonly Member[]): Promise<void> {
  const failures: unknown[] = [];
  await Promise.all(
    members.map(async ({ installation, site }) => {
      try {
        const checked = site.check();
        if (!(await within(checkMs, checked)))
          throw new Error(`installation ${installation.name} does not answer`);
        await checked;
      } catch (error) {
        failures.push(named(error, installation));
      }
    }),
  );
  const wrong = failures.find((error) => error instanceof PgQueueError);
  if (wrong !== undefined) throw wrong;
  if (failures.length === members.length) throw failures[0];
}

function named(error: unknown, { name }: Installation): unknown {
  if (!(error instanceof PgQueueError)) return error;
  return new PgQueueError(error.code, `installation ${name}: ${error.message}`, { cause: error });
}
