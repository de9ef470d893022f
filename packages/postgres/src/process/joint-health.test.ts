import { expect, test } from 'vitest';
import { joinedTexts } from './joint-health.ts';

const help = '# HELP e_total Errors.\n# TYPE e_total counter\n';

test('joined texts have each metric once, with all of its series', () => {
  const own = '# HELP n Numbers.\n# TYPE n gauge\nn{queue="a b"} 1.5\n\n';
  const texts = [
    `${help}e_total{during="idle"} 1\ne_total{during="tick"} 2\n\n${own}`,
    `${help}e_total{during="claim"} 3\ne_total{during="idle"} 4\n`,
  ];
  expect(joinedTexts(texts)).toBe(
    `${help}e_total{during="idle"} 5\ne_total{during="tick"} 2\ne_total{during="claim"} 3\n\n${own.slice(0, -1)}`,
  );
  expect(joinedTexts([])).toBe('');
});
