// npm run test:formal: every variant, and the larger ones; prints the states that were explored.
import { explore } from './spin.ts';
import { larger, variants } from './variants.ts';

let wrong = 0;
let total = 0;
for (const variant of [...variants, ...larger]) {
  const startedAt = performance.now();
  const { verdict, states } = await explore(variant);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  if (verdict !== variant.expect) wrong += 1;
  if (verdict === 'holds') total += states;
  const mark = verdict === variant.expect ? 'ok' : `WRONG, not ${variant.expect}`;
  const name = [variant.model, ...variant.defines].join(' ');
  console.log(`${name}: ${verdict} (${mark}), ${states} states, ${seconds} s`);
}
const all = variants.length + larger.length;
console.log(`formal: ${all - wrong} of ${all} variants as expected, ${total} states of models that hold`);
process.exitCode = wrong === 0 ? 0 : 1;
