import { expect, test } from 'vitest';
import { withResults } from './markdown.ts';

test('new results take the place of the old ones, and what stands around them stays', () => {
  const page = 'before\n\n## Results\n\nold\n\n### old\n\n## Behind\n\ntext\n';
  const written = 'before\n\n## Results\n\nnew\n\n## Behind\n\ntext\n';
  expect(withResults(page, 'new')).toBe(written);
  expect(withResults(written, 'new')).toBe(written);
  expect(withResults('a\n## Results\nold\n', 'new')).toBe('a\n## Results\n\nnew\n');
});
