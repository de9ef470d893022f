import { defineTask, implement } from '@pgqueue/core';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { promoteAll } from '../../support/dispatch-all.ts';
import { useActors } from '../../support/encryption/actors.ts';
import { codecOf } from '../../support/encryption/keys.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);

const codec = codecOf(['new', 'old']);
const { producing } = useActors(bench, { codec });
const task = defineTask({
  name: 'greet',
  payload: z.looseObject({ secret: z.string() }),
  retry: { maxTries: 3, base: 1, jitter: 0 },
});

test.each(['replace', 'debounce'] as const)(
  '%s: only a changed payload begins the job anew, also while another key writes',
  async (onConflict) => {
    const seen: unknown[] = [];
    const failing = implement(task, async ({ secret }, { job, checkpoint }) => {
      seen.push([secret, job.tries, job.checkpoint]);
      await checkpoint({ page: seen.length });
      throw new Error('down');
    });
    await bench.worker([failing], { codec });
    const uniqueKey = { key: 'a', onConflict };
    const tried = async (given: { readonly secret: string; readonly more?: object }, by = codec) => {
      const { id } = await producing(by).enqueue(task, given, { uniqueKey });
      const tries = seen.length;
      // once: a second time would promote what has failed meanwhile
      await promoteAll(bench.database);
      await until('the next try', () => seen.length > tries);
      const waits = /delayed|pending|dead/;
      await until('its end', async () => waits.test((await bench.job(id)).status));
      return (await bench.job(id)).status;
    };
    await tried({ secret: 'canary 1' });
    await tried({ secret: 'canary 2', more: { a: 1, b: 2 } });
    await tried({ more: { b: 2, a: 1 }, secret: 'canary 2' });
    expect(await tried({ secret: 'canary 2', more: { a: 1, b: 2 } }, codecOf(['old', 'new']))).toBe('dead');
    expect(seen).toEqual([
      ['canary 1', 0, null],
      ['canary 2', 0, null],
      ['canary 2', 1, { page: 2 }],
      ['canary 2', 2, { page: 3 }],
    ]);
  },
);

test('a plain payload, or one whose key the producer lacks, is replaced by an equal one, which the job can read', async () => {
  const uniqueKey = { key: 'a', onConflict: 'replace' } as const;
  const equal = { secret: 'canary' };
  for (const before of [undefined, codecOf(['other'])]) {
    const { id } = await (before === undefined ? bench.producer : producing(before)).enqueue(task, equal, {
      uniqueKey,
    });
    expect(await producing().enqueue(task, equal, { uniqueKey })).toEqual({ id, outcome: 'replaced' });
    expect(
      await bench.sql(`select split_part(payload ->> '$enc', ':', 2) as key from pgqueue.queue`),
    ).toEqual([{ key: 'new' }]);
    await bench.clear();
  }
});
