import { parseArgs } from 'node:util';

/** Parsed command line. */
export interface BenchOptions {
  readonly works: readonly string[];
  /** `name` or `name:setting`; a name alone selects all settings of that peer. */
  readonly peers: readonly string[];
  readonly jobs: number;
  readonly seconds: number;
  /** Duration of the soak. */
  readonly minutes: number;
  /** Jobs a second that the soak takes as the sustained rate; undefined: the soak measures it. */
  readonly sustained: number | undefined;
  readonly repeat: number;
  /** Numbers of worker processes that drain, each a case of its own. */
  readonly processes: readonly number[];
  readonly databaseUrl: string | undefined;
  readonly json: string | undefined;
  readonly html: string | undefined;
  readonly profile: string | undefined;
  readonly smoke: boolean;
  /** Name of a plan that gives works, peers and sizes, instead of `works` and `peers`. */
  readonly plan: string | undefined;
  /** Continues the report in `json`; runs it contains are not repeated. */
  readonly resume: boolean;
  /** Lists the runs without running them. */
  readonly list: boolean;
  /** No run begins after this many minutes. */
  readonly withinMinutes: number;
}

export interface Known {
  readonly works: readonly string[];
  /** Works that `all` leaves out. */
  readonly longWorks: readonly string[];
  readonly peers: readonly string[];
  readonly plans: readonly string[];
}

const defaults = {
  work: 'drain',
  peers: 'all',
  jobs: '200000',
  seconds: '60',
  repeat: '3',
  processes: '1,4',
};
/** Runs every work briefly, as a test that it works; the figures mean nothing. */
const smokeDefaults = {
  work: 'all',
  peers: 'pgqueue:default,table:hand-tuned',
  jobs: '600',
  seconds: '1',
  repeat: '1',
  processes: '2',
};

const flags = {
  work: { type: 'string' },
  peers: { type: 'string' },
  jobs: { type: 'string' },
  seconds: { type: 'string' },
  minutes: { type: 'string', default: '20' },
  sustained: { type: 'string' },
  repeat: { type: 'string' },
  processes: { type: 'string' },
  'database-url': { type: 'string' },
  json: { type: 'string' },
  html: { type: 'string' },
  profile: { type: 'string' },
  smoke: { type: 'boolean', default: false },
  plan: { type: 'string' },
  resume: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
  within: { type: 'string', default: '10000' },
} as const;

function minutesOf(name: string, text: string, problems: string[]): number {
  const minutes = Number(text);
  if (!(minutes > 0 && minutes <= 10_000))
    problems.push(`--${name} must be a number up to 10000, not "${text}"`);
  return minutes;
}

/** Options that contradict a plan, and `--resume` without a report. */
function contradictions(
  values: Readonly<Record<string, unknown>>,
  { plans }: Pick<Known, 'plans'>,
): readonly string[] {
  const { plan, work, peers, smoke, resume, json } = values;
  return [
    ...(typeof plan === 'string' && !plans.includes(plan)
      ? [`--plan: "${plan}" is none of ${plans.join(', ')}`]
      : []),
    ...(plan !== undefined && (work !== undefined || peers !== undefined || smoke === true)
      ? ['--plan says which works and peers there are: leave out --work, --peers and --smoke']
      : []),
    ...(resume === true && json === undefined ? ['--resume goes on with a report: name it by --json'] : []),
  ];
}

/** @throws Error with all problems at once */
export function parseOptions(args: readonly string[], known: Known): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: flags,
  });
  const problems = [...contradictions(values, known)];
  const whole = (name: string, text: string, max: number): number => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < 1 || value > max) {
      problems.push(`--${name} must be a whole number from 1 to ${max}, not "${text}"`);
    }
    return value;
  };
  const listed = (
    name: string,
    text: string,
    names: readonly string[],
    more: readonly string[] = [],
  ): readonly string[] => {
    if (text === 'all') return names;
    const given = text.split(',').map((one) => one.trim());
    for (const one of given) {
      const [first = ''] = one.split(':');
      if (!names.includes(first) && !more.includes(first))
        problems.push(`--${name}: "${first}" is none of ${[...names, ...more].join(', ')}, all`);
    }
    return given;
  };
  const { work, peers, jobs, seconds, repeat, processes } = {
    ...(values.smoke ? smokeDefaults : defaults),
    ...values,
  };
  const options: BenchOptions = {
    works: listed('work', work, known.works, known.longWorks),
    peers: listed('peers', peers, known.peers),
    jobs: whole('jobs', jobs, 50_000_000),
    seconds: whole('seconds', seconds, 86_400),
    minutes: minutesOf('minutes', values.minutes, problems),
    sustained: values.sustained === undefined ? undefined : whole('sustained', values.sustained, 10_000_000),
    repeat: whole('repeat', repeat, 100),
    processes: processes.split(',').map((text) => whole('processes', text, 64)),
    databaseUrl: values['database-url'],
    json: values.json,
    html: values.html,
    profile: values.profile,
    smoke: values.smoke,
    plan: values.plan,
    resume: values.resume,
    list: values.list,
    withinMinutes: minutesOf('within', values.within, problems),
  };
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return options;
}
