import { expect, test } from 'vitest';
import { createLines } from './lines.ts';

function read(...chunks: readonly (string | Buffer)[]): {
  readonly lines: readonly string[];
  readonly tail: string;
} {
  const lines: string[] = [];
  const stream = createLines((line) => lines.push(line));
  for (const chunk of chunks) stream.add(Buffer.from(chunk));
  stream.end();
  return { lines, tail: stream.tail() };
}

test('lines come whole, however the stream is cut, and without the empty ones', () => {
  const euro = Buffer.from('5 €\n');
  const { lines } = read('one\ntw', 'o\r\n\n', euro.subarray(0, 3), euro.subarray(3), 'last');
  expect(lines).toEqual(['one', 'two', '5 €', 'last']);
});

test('long lines are cut, and those beyond 1,000 counted', () => {
  expect(read('x'.repeat(3_000), 'x'.repeat(3_000), '\nshort').lines).toEqual(['x'.repeat(4_096), 'short']);
  const { lines, tail } = read('n\n'.repeat(1_500), 'the end\n');
  expect(lines).toHaveLength(1_001);
  expect(lines.at(-1)).toBe('501 more lines are left out');
  expect(tail).toMatch(/the end$/);
  expect(tail.length).toBeLessThanOrEqual(2_000);
});
