/** Problems of a flow: all are counted, but not more than a log can hold are told. */
export interface ProblemList {
  /** A function is called only when its problem is told. */
  readonly add: (problem: string | (() => string)) => void;
  readonly told: () => readonly string[];
}

const toldMax = 20;

export function createProblems(): ProblemList {
  const problems: string[] = [];
  let more = 0;
  return {
    add: (problem) => {
      if (problems.length >= toldMax) more += 1;
      else problems.push(typeof problem === 'string' ? problem : problem());
    },
    told: () => (more === 0 ? problems : [...problems, `and ${more} more`]),
  };
}
