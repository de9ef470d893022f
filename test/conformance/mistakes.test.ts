// Does the suite find what is wrong with a worker? Each mistake is made in the worker in bash.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, inject, test } from 'vitest';
import { lacks } from '../support/tools.ts';
import { cases, runClient } from './run.ts';

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const worker = readFileSync(file('../../examples/bash-worker/worker.sh'), 'utf8');
const handlers = file('clients/bash/handlers.sh');
const folder = mkdtempSync(join(tmpdir(), 'pgqueue-mistakes-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Mistake {
  readonly name: string;
  readonly in: string;
  readonly text: string;
  readonly instead: string;
  /** Part of the report. */
  readonly found: RegExp;
}

const mistakes: readonly Mistake[] = [
  {
    name: 'no heartbeat while a job runs',
    in: 'heartbeat',
    text: 'kill -0 $$; do',
    instead: 'false; do',
    found: /crashes is 1, not 0|not within .* to end/,
  },
  {
    name: 'claims on after SIGTERM',
    in: 'drain',
    text: 'until [ -e "$state/draining" ]; do',
    instead: 'while :; do',
    found: /the handler was called 1 times, not 0|not within/,
  },
  {
    name: 'leaves without a word',
    in: 'drain',
    text: 'sql "select $schema.leave_node',
    instead: 'true "',
    found: /state is "draining", not "left"/,
  },
  {
    name: 'never registers again',
    in: 'reset',
    text: '[ "$alive" != f ] || register',
    instead: 'true',
    found: /not within .* to be registered|to register again/,
  },
  {
    name: 'settles once, whatever the answer',
    in: 'restart',
    text: 'for _ in {1..60}',
    instead: 'for _ in 1',
    found: /crashes is 1, not 0|not within .* to end/,
  },
  {
    name: 'any version of the schema will do',
    in: 'schema',
    text: '(( breaking <= 1 )) ||',
    instead: 'true ||',
    found: /newer/,
  },
  {
    name: 'any version of a payload will do',
    in: 'unknown',
    text: '"max": 1',
    instead: '"max": 9',
    found: /called 1 times, not 0|did not stay waiting/,
  },
  {
    name: 'a failure is a success',
    in: 'retry',
    text: "*) settle \"nack(:'id', :'token', :'err', nullif(:'out', '')::interval)\"",
    instead: "*) settle \"ack(:'id', :'token')\"",
    found: /tries is 0, not 2/,
  },
  {
    name: 'gives up by another try',
    in: 'give-up',
    text: '65) settle "give_up',
    instead: '65) settle "nack',
    found: /not within .* to be dead/,
  },
  {
    name: 'snoozes by another try',
    in: 'snooze',
    text: "75) settle \"snooze(:'id', :'token', :'out')\"",
    instead: "75) settle \"nack(:'id', :'token', :'err', :'out')\"",
    found: /tries is \d, not 0/,
  },
  {
    name: 'no result is kept',
    in: 'result',
    text: "nullif(:'out', '')::jsonb",
    instead: 'null::jsonb',
    found: /result is null/,
  },
];

test.skipIf(lacks('psql')).concurrent.each(mistakes)(
  '$name: found by $in',
  async ({ name, in: wanted, text, instead, found }) => {
    expect(worker).toContain(text);
    const path = join(folder, `${name.replaceAll(/\W/g, '-')}.sh`);
    writeFileSync(
      path,
      worker.replace(text, () => instead),
    );
    const results = await runClient({
      adminUrl: inject('adminUrl'),
      client: { name, command: `bash '${path}' '${handlers}'`, tools: ['psql'] },
      chosen: cases.filter((each) => each.name === wanted),
      waitMs: 20_000,
    });
    const result = results.get(wanted);
    if (result?.kind === 'skipped') return;
    expect(result).toEqual({ kind: 'failed', error: expect.stringMatching(found) });
  },
);
