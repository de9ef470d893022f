import { makeId } from '@pgqueue/postgres/internal';

/** Ids of one producer. They name its installation once the check of the schema has read its number. */
export interface Ids {
  readonly make: () => string;
  readonly learn: (installation: number | null) => void;
  /**
   * Learns the number by `check` before the first write. Resolves to whether ids that were made before have to be made
   * again; undefined: they have not, and nothing was to be checked.
   */
  readonly settle: (check: () => Promise<void>) => Promise<boolean> | undefined;
}

export function createIds(): Ids {
  let number: number | null | undefined;
  return {
    make: () => makeId(number),
    learn: (installation) => {
      number = installation;
    },
    settle: (check) => {
      if (number !== undefined) return undefined;
      return check().then(() => typeof number === 'number');
    },
  };
}
