import type { QueueSeen, Rate, VersionRange } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aFlag,
  aListOf,
  aNumber,
  anObject,
  aRecordOf,
  aText,
  optional,
  orNull,
  shareWeights,
} from '@pgqueue/core/internal';
import type { NodeOptions } from './fleet.ts';

/** Rule of a number of jobs. */
export const aCount: Rule = aNumber({ min: 0, whole: true });

const rate: Shape<Rate> = { perSecond: aNumber({ above: 0 }), burst: aNumber({ min: 0 }) };

const aRate = anObject(rate, { what: 'an object with perSecond and burst' });

const queue: Shape<Partial<QueueSeen>> = {
  pool: optional(aText({ max: 100 })),
  paused: optional(aFlag),
  concurrency: optional(orNull(aCount)),
  keyConcurrency: optional(orNull(aCount)),
  rate: optional(orNull(aRate)),
  keyRate: optional(orNull(aRate)),
  weight: optional(aNumber(shareWeights)),
};

/** Rule of the settings of each queue. */
export const queues: Rule = aRecordOf(anObject(queue), 'an object with the settings of each queue');

const versions: Shape<VersionRange> = {
  min: aNumber({ min: 1, whole: true }),
  max: aNumber({ min: 1, whole: true }),
};

const node: Shape<NodeOptions> = {
  count: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  slots: aNumber({ min: 1, max: 100_000, whole: true }),
  pool: optional(aText({ max: 100 })),
  tasks: optional(aRecordOf(anObject(versions))),
};

/** Rule of the nodes of a simulation. */
export const fleet: Rule = aListOf(anObject(node), 'a list of nodes');
