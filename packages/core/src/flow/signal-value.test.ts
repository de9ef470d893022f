import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { signal } from './step.ts';
import { toSignalValue } from './signal-value.ts';

const flowId = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f';
const approval = signal(z.object({ by: z.string() }));

describe('the value of a signal', () => {
  test('is JSON text; without one it is null', async () => {
    expect(await toSignalValue({ flowId, step: 'ok', value: { by: 'ada' }, by: approval })).toBe(
      '{"by":"ada"}',
    );
    expect(await toSignalValue({ flowId, step: 'ok', value: undefined, by: undefined })).toBe('null');
    expect(await toSignalValue({ flowId, step: 'ok', value: false, by: signal(z.boolean()) })).toBe('false');
  });

  test.each<[string, Partial<Parameters<typeof toSignalValue>[0]>, RegExp]>([
    ['of another type', { value: { by: 5 }, by: approval }, /by: /],
    ['that JSON changes', { value: new Date(0), by: signal(z.date()) }, /expected date/],
    ['that is too long', { value: 'x'.repeat(262_144) }, /262146 bytes of JSON/],
    ['with NUL', { value: '\u0000' }, /NUL/],
    ['with __proto__', { value: JSON.parse('{"__proto__":1}') as unknown }, /must not have a key __proto__/],
    ['that is a BigInt', { value: 5n }, /BigInt/],
    ['that is a function', { value: () => 5 }, /can't be written as JSON/],
    ['for no flow', { flowId: '5' }, /flowId must be the id of a flow/],
    ['for no step', { step: '' }, /step must be a text of 1 to 200/],
    [
      'for a name that no wait of a job has',
      { step: 'n'.repeat(101), of: 'job' },
      /name must be a text of 1 to 100/,
    ],
    ['with a signal that is none', { by: {} as never }, /the schema of the signal must be given/],
    [
      'with a signal whose schema throws',
      {
        by: signal(
          z.any().refine(() => {
            throw new Error('mine');
          }),
        ),
      },
      /mine/,
    ],
  ])('%s is refused', async (_what, part, problem) => {
    const given = { flowId, step: 'ok', value: 5, by: undefined, ...part };
    await expect(toSignalValue(given)).rejects.toMatchObject({
      code: 'invalid_flow',
      message: expect.stringMatching(problem) as unknown,
    });
  });
});
