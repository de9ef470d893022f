import { parseDuration } from './duration.ts';
import { nearest } from './did-you-mean.ts';

/** Rule for the value of an option: see {@link optionProblems}. */
export interface Rule {
  /** The expected value, in words that follow "must be". */
  readonly expected: string;
  /** Set when the option may be left out. */
  readonly optional?: boolean;
  /** Accepted texts. When a value is close to one of them, the problem suggests it. */
  readonly words?: readonly string[];
  /** Judges a given value: valid or not, or a list of the problems within it. */
  readonly judge: (value: unknown, path: string) => boolean | readonly string[];
}

/** Rules for all options of a type. A new option fails to compile until it has a rule. */
export type Shape<Options> = { readonly [Name in keyof Options]-?: Rule };

/**
 * Returns all problems of some options; empty when they are valid. Meant for callers without TypeScript: each
 * problem names the option and the expected value. For an unknown option it suggests the one that was
 * probably meant: `gate({ onError: 'holds' })` once let jobs go that it should hold. Texts are quoted up to 40
 * characters, objects never: errors are logged, and a connection string is a secret. No schema library does
 * this: none suggests names, and core imports nothing but types.
 * @param own set when `options` is an object of the user's making, which may have members of its own; then an
 * unknown name is a problem only when it looks like a misspelt option
 */
export function optionProblems(
  options: unknown,
  shape: Readonly<Record<string, Rule>>,
  { path = '', own = false }: { readonly path?: string; readonly own?: boolean } = {},
): readonly string[] {
  if (!isRecord(options)) {
    return [`${path === '' ? 'its options' : path} must be an object, not ${say(options)}`];
  }
  const at = path === '' ? '' : `${path}.`;
  const problems = [...unknownNames(options, shape, { path, own })];
  for (const name of Object.keys(shape)) {
    const value = options[name];
    const rule = shape[name];
    // return early: an enqueue runs this for each of its jobs
    if (rule === undefined || (value === undefined && rule.optional === true)) continue;
    problems.push(...valueProblems(rule, value, at + name));
  }
  return problems;
}

/** Returns a problem for each of the first ten members of an object that are not known options. */
export function unknownNames(
  options: object,
  known: Readonly<Record<string, unknown>>,
  { path = '', own = false }: { readonly path?: string; readonly own?: boolean } = {},
): readonly string[] {
  const problems: string[] = [];
  const names = Object.keys(known);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    if (problems.length === unknownMax) {
      problems.push(`there are more unknown names${path === '' ? '' : ` in ${path}`}`);
      break;
    }
    const near = nearest(name, names, own);
    if (near === undefined && own) continue;
    const there = near === undefined ? `only ${names.join(', ')}` : `did you mean ${near}?`;
    problems.push(`there is no ${path === '' ? '' : `${path}.`}${name.slice(0, toldMax)}: ${there}`);
  }
  return problems;
}

/** Returns the problems of one value; empty when it is valid. */
export function valueProblems(rule: Rule, value: unknown, path: string): readonly string[] {
  if (value === undefined) {
    if (rule.optional === true) return [];
    return [`${path} must be given${rule === anything ? '' : `: ${rule.expected}`}`];
  }
  const judged = rule.judge(value, path);
  if (typeof judged !== 'boolean') return judged;
  return judged ? [] : [`${path} must be ${rule.expected}, not ${say(value)}${meant(rule, value)}`];
}

/** Returns the rule for an option that may be left out. */
export function optional(rule: Rule): Rule {
  return { ...rule, optional: true };
}

/** Returns the rule for a value that may also be null. */
export function orNull(rule: Rule): Rule {
  return {
    ...rule,
    expected: `${rule.expected}, or null`,
    judge: (value, path) => value === null || rule.judge(value, path),
  };
}

/**
 * Accepts a value that one of the rules accepts. When none does, reports the problems within the value if a
 * rule lists any.
 */
export function either(...rules: readonly Rule[]): Rule {
  return {
    expected: rules.map(({ expected }) => expected).join(', or '),
    words: rules.flatMap(({ words = [] }) => words),
    judge: (value, path) => {
      const judged = rules.map((rule) => rule.judge(value, path));
      if (judged.some((one) => one === true || (typeof one !== 'boolean' && one.length === 0))) return true;
      return judged.find((one) => typeof one !== 'boolean') ?? false;
    },
  };
}

/** Accepts every given value. It is checked elsewhere. */
export const anything: Rule = { expected: 'given', judge: () => true };

/** A function. Checked early, since a text in its place would only fail when it is called. */
export const aFunction: Rule = {
  expected: 'a function',
  judge: (value) => typeof value === 'function',
};

/** An `AbortSignal`. */
export const aSignal: Rule = {
  expected: 'an AbortSignal',
  judge: (value) => value instanceof AbortSignal,
};

/** `true` or `false`; texts such as "true" are refused. */
export const aFlag: Rule = {
  expected: 'true or false',
  judge: (value) => typeof value === 'boolean',
};

/** A {@link Duration}. */
export const aDuration: Rule = {
  expected: 'a duration: milliseconds, or a text such as "30s"',
  judge: (value) => parseDuration(value) !== undefined,
};

/**
 * A text of `min` to `max` characters, without NUL and lone surrogates. Default: any text that is not empty.
 */
export function aText({
  min = 1,
  max = Infinity,
}: { readonly min?: number; readonly max?: number } = {}): Rule {
  const some = max === Infinity ? 'a text' : `a text of ${min} to ${max} characters`;
  return {
    expected: min > 0 && max === Infinity ? 'a text that is not empty' : some,
    judge: (value, path) => {
      if (typeof value !== 'string' || value.length < min || value.length > max) return false;
      if (value.isWellFormed() && !value.includes('\u0000')) return true;
      return [`${path} must not contain NUL or lone surrogates, which PostgreSQL can't store`];
    },
  };
}

/** A finite number within bounds. Bounds are inclusive, except `above`. */
export function aNumber(
  bounds: {
    readonly min?: number;
    readonly max?: number;
    readonly above?: number;
    readonly whole?: boolean;
  } = {},
): Rule {
  const { min = -Infinity, max = Infinity, above = -Infinity, whole = false } = bounds;
  return {
    expected: sayBounds({ min, max, above, whole }),
    judge: (value) =>
      typeof value === 'number' &&
      Number.isFinite(value) &&
      value >= min &&
      value <= max &&
      value > above &&
      (!whole || Number.isInteger(value)),
  };
}

/** One of the given texts. */
export function oneOf(...words: readonly string[]): Rule {
  return {
    words,
    expected: words.map((word) => JSON.stringify(word)).join(' or '),
    judge: (value) => typeof value === 'string' && words.includes(value),
  };
}

/** A list in which each member satisfies the rule. */
export function aListOf(rule: Rule, what = 'a list'): Rule {
  return {
    expected: what,
    judge: (value, path) =>
      Array.isArray(value) &&
      value.flatMap((member: unknown, index) => valueProblems(rule, member, `${path}[${index}]`)),
  };
}

/** An object with members of any name, each of which satisfies the rule. */
export function aRecordOf(rule: Rule, what = 'an object'): Rule {
  return {
    expected: what,
    judge: (value, path) =>
      isRecord(value) &&
      Object.entries(value).flatMap(([name, member]) => valueProblems(rule, member, `${path}.${name}`)),
  };
}

/** An object with options of its own. */
export function anObject(
  shape: Readonly<Record<string, Rule>>,
  { what = 'an object', own = false }: { readonly what?: string; readonly own?: boolean } = {},
): Rule {
  return {
    expected: what,
    judge: (value, path) => isRecord(value) && optionProblems(value, shape, { path, own }),
  };
}

/** Reports whether a value is an object and no list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sayBounds(bounds: {
  readonly min: number;
  readonly max: number;
  readonly above: number;
  readonly whole: boolean;
}): string {
  const { min, max, above, whole } = bounds;
  const number = whole ? 'a whole number' : 'a number';
  if (above > -Infinity) return `more than ${above}${max < Infinity ? `, and at most ${max}` : ''}`;
  if (max < Infinity) return `${number} from ${min} to ${max}`;
  if (min > -Infinity) return whole ? `${number} from ${min}` : `${min} or more`;
  return number;
}

/**
 * Describes a value in a few words. Long texts and the contents of objects are not quoted: they may hold
 * secrets.
 */
export function say(value: unknown): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') {
    return value.length > toldMax ? `a text of ${value.length} characters` : JSON.stringify(value);
  }
  if (typeof value === 'function') {
    return value.name === '' ? 'a function' : `the function ${value.name.slice(0, toldMax)}`;
  }
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (value instanceof Promise) return 'a promise: await it';
  return typeof value === 'object' ? 'an object' : typeof value;
}

const toldMax = 40;

/** Unknown names that are told: the body of a request may have a million. */
const unknownMax = 10;

/** Suggests an accepted text that is close to the given one. */
function meant({ words = [] }: Rule, value: unknown): string {
  const near = typeof value === 'string' ? nearest(value, words) : undefined;
  return near === undefined ? '' : `: did you mean ${JSON.stringify(near)}?`;
}
