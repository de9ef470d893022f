import { PgQueueError } from '@pgqueue/core';
import type { Producer, ProducerOptions } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createRoutedProducer } from '@pgqueue/producer/internal';
import type { Member } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';

/** Producers of the installations, each made when it is first needed. */
export interface Producers {
  /**
   * The one that checks that keys have their home there. With one installation it is the plain one. A key that has moved
   * between the choice of its home and the enqueue is one whose route the router does not know.
   */
  readonly routed: (member: Member) => Producer;
  /** The one that checks no home: for transactions, signals and results. */
  readonly plain: (member: Member) => Producer;
  readonly close: () => Promise<void>;
}

/** Options of a router that its producers share. */
type SharedOptions = Omit<ProducerOptions, 'connectionString' | 'pool' | 'schema'>;

export function createProducers(
  shared: SharedOptions,
  routes: Routes,
  { alone }: { readonly alone: boolean },
): Producers {
  const made = new Map<string, Producer>();
  let closed = false;
  const get = (kind: string, member: Member, make: (options: ProducerOptions) => Producer): Producer => {
    const { number, connectionString, schema } = member.installation;
    if (closed) throw new PgQueueError('closed', 'this router was closed');
    const name = `${kind} ${number}`;
    const found =
      made.get(name) ?? make({ ...shared, connectionString, ...(schema === undefined ? {} : { schema }) });
    made.set(name, found);
    return found;
  };
  const plain = (member: Member): Producer => get('plain', member, createProducer);
  return {
    plain,
    routed: alone
      ? plain
      : (member) =>
          get('routed', member, (options) =>
            createRoutedProducer(options, (key) => (routes.home(key) === member ? routes.version(key) : 0)),
          ),
    close: async () => {
      closed = true;
      await Promise.all([...made.values()].map((producer) => producer.close()));
    },
  };
}
