import { parseArgs } from 'node:util';

/** What the command line says. */
export interface BenchOptions {
  readonly works: readonly string[];
  /** `name` or `name:setting`; without one, all settings of that peer. */
  readonly peers: readonly string[];
  readonly jobs: number;
  readonly seconds: number;
  /** Of the soak. */
  readonly minutes: number;
  /** Jobs a second that the soak takes for what is sustained; undefined: it finds out. */
  readonly sustained: number | undefined;
  readonly repeat: number;
  /** How many worker processes drain, each number a case of its own. */
  readonly processes: readonly number[];
  readonly databaseUrl: string | undefined;
  readonly json: string | undefined;
  readonly html: string | undefined;
  readonly profile: string | undefined;
  readonly smoke: boolean;
  /** A list of works, peers and sizes by name, instead of `works` and `peers`. */
  readonly plan: string | undefined;
  /** Goes on with the report in `json`: what is in it is not measured again. */
  readonly resume: boolean;
  /** Says what would be run, and runs nothing. */
  readonly list: boolean;
  /** No run begins when so many minutes have gone. */
  readonly withinMinutes: number;
}

export interface Known {
  readonly works: readonly string[];
  /** That `all` leaves out. */
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
/** Every work, to see that it works: no figure of it means anything. */
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

/** What is given beside a plan, and what a report is needed for. */
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

/** @throws Error with everything that is wrong at once */
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
