import { expect, test } from 'vitest';
import { leadsOf } from './leads.ts';

test('a lead is over the least of its own level, and never below 0', () => {
  const below = [
    { names: ['acme', 'globex'], ahead: [-16_935, -17_000], below: null },
    { names: ['acme'], ahead: [4_000], below: null },
  ];
  const pools = { default: { names: ['mail', 'video'], ahead: [-20_000, 300], below } };
  expect(leadsOf([{ state: { unit: 'time', pools } }])).toEqual([
    { pool: 'default', path: ['mail'], lead: 0, unit: 'time' },
    { pool: 'default', path: ['mail', 'globex'], lead: 0, unit: 'time' },
    { pool: 'default', path: ['video', 'acme'], lead: 0, unit: 'time' },
    { pool: 'default', path: ['mail', 'acme'], lead: 65, unit: 'time' },
    { pool: 'default', path: ['video'], lead: 20_300, unit: 'time' },
  ]);
});

test.each([
  ['no state', null],
  ['a list', [1]],
  ['pools of another form', { pools: { default: { names: 'a', ahead: [1] } } }],
  ['names that are none', { pools: { default: { names: [1], ahead: [1], below: null } } }],
])('%s has no leads', (_, state) => {
  expect(leadsOf([{ state }])).toEqual([]);
});
