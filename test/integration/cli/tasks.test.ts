import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { cli, parseCli } from '../../support/cli.ts';

const modules = (name: string): string =>
  fileURLToPath(new URL(`../../support/modules/${name}`, import.meta.url));
const file = modules('schema-tasks.ts');

describe('tasks', () => {
  test('lists the tasks of a module, with or without handlers, each once', async () => {
    const { code, stdout, stderr } = await cli(['tasks', '--tasks', file]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.trim().split(/ {2,}/)),
    ).toEqual([
      ['TASK', 'VERSIONS', 'TIMEOUT'],
      ['resize', '1-2', '2m'],
      ...['mail', 'plain', 'dated'].map((name) => [name, '1']),
    ]);
    const { stdout: json } = await parseCli(['tasks', '--tasks', file, '--json']);
    expect(JSON.parse(json)).toContainEqual({
      name: 'resize',
      version: 2,
      minVersion: 1,
      timeoutMs: 120_000,
    });
  });

  test('writes their JSON Schema; what has none is any value, and told', async () => {
    const { code, stdout, stderr } = await parseCli(['tasks', '--tasks', file, '--json-schema']);
    expect(code).toBe(0);
    const schemas = JSON.parse(stdout) as Record<string, unknown>;
    expect(schemas['resize']).toEqual({
      version: 2,
      // a producer may leave out what has a default
      payload: expect.objectContaining({
        type: 'object',
        properties: {
          file: { type: 'string' },
          width: expect.objectContaining({ type: 'integer', minimum: 1 }),
        },
        required: ['file'],
      }),
      result: expect.objectContaining({ required: ['file'] }),
    });
    expect(schemas['mail']).toMatchObject({
      payload: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
    });
    expect(schemas['mail']).not.toHaveProperty('result');
    expect(schemas['plain']).toEqual({ version: 1, payload: true });
    expect(schemas['dated']).toMatchObject({ payload: true, result: { type: 'number' } });
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/^task plain: its payload stands as true, for any value: .*valibot/),
      expect.stringMatching(/^task dated: its payload stands as true, for any value: .*Date/),
    ]);
  });

  test('refuses a module without tasks, and one that is not there', async () => {
    expect(await parseCli(['tasks', '--tasks', modules('fifo-policy.ts')])).toMatchObject({
      code: 78,
      stdout: '',
      stderr: expect.stringContaining('exports no tasks: export what defineTask or implement returns'),
    });
    expect(await parseCli(['tasks', '--tasks', './nowhere.ts'])).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('there is no such file'),
    });
    expect(await parseCli(['tasks'])).toMatchObject({ code: 2 });
  });
});
