import type { TaskHandler } from '@pgqueue/core';
import { defineTask, implement } from '@pgqueue/core';
import { UsageError } from '../errors.ts';

/** Schema of payloads: a program checks its payload itself. */
const anything = {
  '~standard': { version: 1 as const, vendor: 'pgqueue', validate: (value: unknown) => ({ value }) },
};

/**
 * Makes handlers of `--exec 'task=program argument…'`. Words are separated by blanks, and no shell reads them.
 * @param env names of variables that the programs get
 * @throws {UsageError}
 */
export async function execTasks(
  given: readonly string[],
  env: readonly string[],
): Promise<readonly TaskHandler[]> {
  const misnamed = env.find((name) => !/^[A-Za-z_]\w*$/.test(name));
  if (misnamed !== undefined) throw new UsageError(`--exec-env ${misnamed}: give the name of a variable`);
  if (given.length === 0) {
    if (env.length > 0) throw new UsageError('--exec-env goes with --exec');
    return [];
  }
  const { executable } = await import('@pgqueue/worker');
  const passed = Object.fromEntries(env.map((name) => [name, true as const]));
  return given.map((text) => {
    const [, name = '', words = ''] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    const [program = '', ...args] = words.trim().split(/\s+/);
    if (name === '' || program === '')
      throw new UsageError(`--exec ${text}: give task=program, such as resize=./resize`);
    return implement(defineTask({ name, payload: anything }), executable(program, { args, env: passed }));
  });
}
