/** Wakes its waits. */
export interface Bell {
  readonly ring: () => void;
  /** Resolves at the next ring, after `ms` at the latest. */
  readonly wait: (ms: number) => Promise<void>;
}

export function createBell(): Bell {
  const waits = new Set<() => void>();
  return {
    ring: () => {
      for (const wake of waits) wake();
    },
    wait: async (ms) => {
      const rung = Promise.withResolvers<void>();
      const timer = setTimeout(rung.resolve, ms);
      waits.add(rung.resolve);
      await rung.promise;
      clearTimeout(timer);
      waits.delete(rung.resolve);
    },
  };
}
