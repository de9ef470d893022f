import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';
import { peerNames } from './peers/index.ts';
import { partsOf, plans } from './actors/plans.ts';
import type { Peer } from './peers/peer.ts';
import type { StepName } from './steps.ts';
import { entrantsOf, nameOf, stepsOf } from './steps.ts';
import { works } from './works/index.ts';

const known = {
  works: works.map(({ name }) => name),
  longWorks: [],
  peers: peerNames,
  plans: Object.keys(plans),
};

test('a peer comes with all of its settings, or with the one that is named', async () => {
  const all = await entrantsOf(['table', 'table:raw']);
  expect(all.map(({ peer, setting }) => `${peer.name}:${setting.name}`)).toEqual([
    'table:hand-tuned',
    'table:raw',
    'table:raw',
  ]);
});

test('a setting or a peer that does not exist is refused, with what there is', async () => {
  await expect(entrantsOf(['table:slow'])).rejects.toThrow(
    'table has no setting slow; it has hand-tuned, raw',
  );
  await expect(entrantsOf(['nobody'])).rejects.toThrow(/no peer nobody; there are pgqueue, table/);
});

/** Returns peers that differ by name only: loading all of them is slow. */
async function load(name: string): Promise<Peer> {
  const { peer } = await import('./peers/table.ts');
  const settings = ['default', 'best', 'no-history', 'hand-tuned', 'raw'].map((setting) => ({
    name: setting,
    says: '',
  }));
  const openFlowStarter = (): Promise<never> => Promise.reject(new Error('never opened'));
  return { ...peer, name, settings, openFlowStarter };
}

async function namesOf(args: readonly string[]): Promise<readonly StepName[]> {
  const options = parseOptions(args, known);
  return (await stepsOf(options, partsOf(options), load)).map(nameOf);
}

test('everything is run once before anything is run for the second time', async () => {
  const names = await namesOf([
    '--work',
    'drain,backlog',
    '--peers',
    'pgqueue:default,table:raw',
    '--repeat',
    '2',
  ]);
  expect(names.map(({ repetition, case: name, peer }) => [repetition, name, peer].join(' '))).toEqual([
    '1 1 worker process pgqueue',
    '1 1 worker process table',
    '1 4 worker processes pgqueue',
    '1 4 worker processes table',
    '1 10,000 waiting pgqueue',
    '1 10,000 waiting table',
    '1 5,000,000 waiting pgqueue',
    '1 5,000,000 waiting table',
    '2 1 worker process pgqueue',
    '2 1 worker process table',
    '2 4 worker processes pgqueue',
    '2 4 worker processes table',
    '2 10,000 waiting pgqueue',
    '2 10,000 waiting table',
  ]);
});

test.each(Object.keys(plans))(
  'the plan %s measures something in each of its parts, and nothing twice',
  async (plan) => {
    const options = parseOptions(['--plan', plan], known);
    for (const part of partsOf(options)) expect(await stepsOf(options, [part], load)).not.toEqual([]);
    const names = (await namesOf(['--plan', plan])).map((name) => JSON.stringify(name));
    expect(new Set(names).size).toBe(names.length);
  },
);

test("a plan's sizes are bounded by those of the command line", async () => {
  const options = parseOptions(['--plan', 'short', '--seconds', '3', '--repeat', '1'], known);
  const steps = await stepsOf(options, partsOf(options), load);
  expect(Math.max(...steps.map((step) => step.options.seconds))).toBe(3);
  expect(new Set(steps.map(({ repetition }) => repetition))).toEqual(new Set([1]));
});
