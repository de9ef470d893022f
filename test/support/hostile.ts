/** A word in every hostile payload, result and error: a log that contains it has leaked one of them. */
export const marker = 'h0st1le';

/** Texts that have broken other software: each may occur as a name, a key, a payload or an argument. */
export const hostileTexts: readonly string[] = [
  '',
  ' ',
  "'; drop table pgqueue.queue; --",
  '"; drop schema pgqueue cascade; --',
  "\\'; select pg_sleep(60); --",
  '$1',
  '$$; select pg_sleep(60); $$',
  '%s%I%L%n%1$s',
  '{"a":[1,',
  '{a,NULL,"b}',
  'NULL',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'toString',
  `nul\u0000${marker}`,
  '\u0000',
  '\ud800',
  `lone \udc00 ${marker}`,
  '\uffff\ufffe',
  '\u202etxt.exe',
  '\u001b[2J\u001b]0;title\u0007\u009b31m',
  `\r\n{"level":50,"msg":"forged ${marker}"}\n`,
  '\u2028\u2029\u0085\u000b\f\t\b',
  'e\u0301\u0323'.repeat(20),
  '\u{1f469}\u200d\u{1f469}\u200d\u{1f467}',
  '../../../../etc/passwd',
  '-1',
  '--help',
  '-',
  '1e309',
  'NaN',
  '-Infinity',
  '0x10',
  '٣',
  '9'.repeat(400),
  '${process.exit(1)}',
  '{{constructor.constructor("process.exit(1)")()}}',
  '<script>alert(1)</script>',
  'postgres://user:hunter2-hunter2@host/db',
  'x'.repeat(100_000),
];

/** Returns a value nested so deeply that recursion into it overflows the stack. */
export function nested(depth: number, leaf: unknown = marker): unknown {
  let value = leaf;
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

const cyclic: { self?: unknown; marker: string } = { marker };
cyclic.self = cyclic;
const throwing = (): never => {
  throw new Error('toJSON threw');
};

/** Values by name that are not JSON, or are odd JSON. Some can be stored; the others must be refused. */
export const hostileValues: Readonly<Record<string, unknown>> = {
  undefined,
  null: null,
  // a test may extend a job by it: a minute, so that its lease does not end on a slow machine
  'a number': 60_000,
  'negative zero': -0,
  NaN: [Number.NaN, marker],
  Infinity: { a: Number.POSITIVE_INFINITY, marker },
  'the largest number': [Number.MAX_VALUE, Number.MIN_VALUE, 2 ** 53 + 1, marker],
  'a bigint': { n: 10n, marker },
  'a symbol': Symbol(marker),
  'a function': () => marker,
  'a date': { at: new Date(0), marker },
  'an invalid date': { at: new Date(Number.NaN), marker },
  'a map': new Map([[marker, 1]]),
  'a regular expression': /h0st1le/,
  'an error': new Error(marker),
  'a buffer': { bytes: Buffer.from(marker) },
  'a cycle': cyclic,
  'toJSON that throws': { toJSON: throwing },
  'toJSON that gives undefined': { toJSON: () => undefined },
  'toJSON that gives a forbidden key': { toJSON: () => JSON.parse(`{"__proto__": "${marker}"}`) as unknown },
  'a getter that throws': Object.defineProperty({}, 'a', { enumerable: true, get: throwing }),
  'a proxy that throws': new Proxy({}, { get: throwing, has: throwing, ownKeys: throwing }),
  'a revoked proxy': revoked(),
  'no prototype': Object.assign(Object.create(null) as object, { marker }),
  'a key __proto__': JSON.parse(`{"a": [{"__proto__": {"${marker}": true}}]}`) as unknown,
  'a key constructor': { a: { constructor: { prototype: { marker } } } },
  'a sparse array': Object.assign([], { 5: marker }),
  'a huge array': Array.from({ length: 200_000 }, () => 0),
  'a huge text': marker.repeat(1_500_000),
  'many keys': Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`${marker}${n}`, n])),
  '400 levels': nested(400),
  '4,000 levels': nested(4_000),
  '10,000 levels': nested(10_000),
  '200,000 levels': nested(200_000),
  ...Object.fromEntries(hostileTexts.map((text, n) => [`text ${n}`, { [text || 'empty']: text, marker }])),
};

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** Returns a text for the name of a test: without control characters, and short. */
export function named(text: string): string {
  return JSON.stringify(text.toWellFormed()).slice(0, 40);
}
