import type { Codec } from '@pgqueue/core';
import type { Operator, OperatorOptions } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { afterEach } from 'vitest';

/** Makes producers and operators with codecs, which are closed after each test. */
export interface Actors {
  /** Default: the codec of the file. */
  readonly producing: (codec?: Codec) => Producer;
  readonly operating: (codec?: Codec) => Operator;
  /** Closes one more after the test. */
  readonly closing: (one: { readonly close: () => Promise<unknown> }) => void;
}

/** Call once in a file. After each test the actors are closed, and then the bench is cleared. */
export function useActors(
  bench: { readonly test: { readonly url: string }; readonly clear: () => Promise<void> },
  {
    codec: own,
    producer,
    operator,
  }: { readonly codec: Codec; readonly producer?: ProducerOptions; readonly operator?: OperatorOptions },
): Actors {
  const open: { readonly close: () => Promise<unknown> }[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((one) => one.close()));
    await bench.clear();
  });
  const closed = <One extends { readonly close: () => Promise<unknown> }>(one: One): One => {
    open.push(one);
    return one;
  };
  return {
    producing: (codec = own) =>
      closed(createProducer({ connectionString: bench.test.url, ...producer, codec })),
    operating: (codec) =>
      closed(
        createOperator({
          connectionString: bench.test.url,
          ...operator,
          ...(codec === undefined ? {} : { codec }),
        }),
      ),
    closing: (one) => void closed(one),
  };
}
