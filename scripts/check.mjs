// Everything that can be said about the code without running it. All steps run, then the exit code
// says whether any failed. `--fix` formats and applies safe lint fixes instead.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const lint = 'oxlint --type-aware --deny-warnings --report-unused-disable-directives';
const fixes = process.argv.includes('--fix');
const steps = fixes
  ? [`${lint} --fix`, 'oxfmt', 'node scripts/sql.mjs', 'node docs/api-reference.mjs']
  : [
      'turbo run build --output-logs=new-only --log-order=grouped',
      'tsc -b',
      lint,
      'oxfmt --check',
      'node scripts/sql.mjs --check',
      'node scripts/check-boundaries.mjs',
      'node scripts/check-dependencies.mjs',
      'node scripts/check-rooms.mjs',
      'node scripts/check-comments.mjs',
      'node scripts/check-names.mjs',
      'node docs/api-reference.mjs --check',
    ];

const failed = [];
for (const step of steps) {
  const [command = '', ...args] = step.split(' ');
  const started = Date.now();
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1' },
  });
  if (status !== 0) failed.push(step);
  console.log(`${status === 0 ? 'ok  ' : 'FAIL'} ${step} (${Date.now() - started} ms)`);
}
for (const step of failed) console.error(`check failed: ${step}`);
const fixable = failed.filter((step) => /^oxfmt|sql\.mjs|api-reference\.mjs/.test(step));
if (fixable.length > 0 && !fixes) console.error('`npm run fix` formats, and writes what is generated');
process.exitCode = failed.length === 0 ? 0 : 1;
