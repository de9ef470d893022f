import { writeFileSync } from 'node:fs';
import type { TestModule, TestRunEndReason, TestSpecification, Vitest } from 'vitest/node';
import { MinimalReporter } from 'vitest/node';

/** Milliseconds between updates of a terminal's line, and between new lines if there is no terminal. */
const [terminalMs, lineMs] = [1_000, 15_000];
/** Number of files that the end names as the slowest ones, and the milliseconds that each of them takes at least. */
const [slowestMax, slowMs] = [15, 10_000];

export interface Failure {
  readonly file: string;
  /** Name of the test. Absent if the file failed as a whole: it did not load, or left resources behind. */
  readonly test?: string;
  readonly message: string;
}

/** Outcome of a run, which `scripts/test.mjs` reads. */
export interface Outcome {
  readonly passed: number;
  readonly failed: readonly Failure[];
  /** Counts by file. */
  readonly skipped: Readonly<Record<string, number>>;
  /**
   * Files whose process was ended by a crash of Node.js itself (a segmentation fault). The repository has no
   * native code, so no test can be the cause: they run once more.
   */
  readonly crashed: readonly string[];
}

/**
 * Reports while tests run how many files are done and which ones are running. Prints a test when it fails.
 * Writes the outcome into the file that PGQUEUE_TEST_OUTCOME names.
 */
// oxlint-disable-next-line import/no-default-export -- the runner imports a reporter so
export default class Progress extends MinimalReporter {
  #files = 0;
  #through = 0;
  readonly #running = new Map<string, string>();
  readonly #took: { readonly file: string; readonly ms: number }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #passed = 0;
  readonly #failed: Failure[] = [];
  readonly #skipped: Record<string, number> = {};

  override onInit(ctx: Vitest): void {
    this.ctx = ctx;
    this.silent = 'passed-only';
  }

  override onTestRunStart(specifications: readonly TestSpecification[]): void {
    super.onTestRunStart(specifications);
    this.#files = specifications.length;
    this.#timer = setInterval(() => this.#say(), this.isTTY ? terminalMs : lineMs);
  }

  onTestModuleStart(module: TestModule): void {
    this.#running.set(module.id, nameOf(module));
  }

  override onTestModuleEnd(module: TestModule): void {
    this.#running.delete(module.id);
    this.#through += 1;
    this.#took.push({ file: module.relativeModuleId, ms: module.diagnostic().duration });
    super.onTestModuleEnd(module);
  }

  /** Only tests that failed get a line. */
  protected override printTestModule(module: TestModule): void {
    const file = module.relativeModuleId;
    const before = this.#failed.length;
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result();
      if (state === 'passed') this.#passed += 1;
      if (state === 'skipped') this.#skipped[file] = (this.#skipped[file] ?? 0) + 1;
      if (state === 'failed') this.#failed.push({ file, test: test.fullName, message: firstLine(errors) });
    }
    if (module.state() === 'failed' && this.#failed.length === before) {
      const suites = [...module.children.allSuites()].flatMap((suite) => suite.errors());
      this.#failed.push({ file, message: firstLine([...module.errors(), ...suites]) });
    }
    for (const { test = '(the file)', message } of this.#failed.slice(before))
      this.#line(`failed: ${file} > ${test}: ${message}\n`);
  }

  override onTestRunEnd(
    modules: readonly TestModule[],
    unhandled: Parameters<MinimalReporter['onTestRunEnd']>[1],
    reason: TestRunEndReason,
  ): void {
    clearInterval(this.#timer);
    this.#line('');
    for (const { file, ms } of this.#took.toSorted((a, b) => b.ms - a.ms).slice(0, slowestMax))
      if (ms >= slowMs) this.#line(`${Math.round(ms / 1_000)} s: ${file}\n`);
    super.onTestRunEnd(modules, unhandled, reason);
    const crashed = unhandled.map(crashedFile);
    const others = unhandled.filter((_error, index) => crashed[index] === undefined);
    if (others.length > 0) this.#failed.push({ file: 'outside of any test', message: firstLine(others) });
    const outcome: Outcome = {
      passed: this.#passed,
      failed: this.#failed,
      skipped: this.#skipped,
      crashed: crashed.filter((file) => file !== undefined),
    };
    const file = process.env['PGQUEUE_TEST_OUTCOME'];
    if (file !== undefined) writeFileSync(file, JSON.stringify(outcome));
  }

  #say(): void {
    const seconds = Math.round((performance.now() - this.start) / 1_000);
    const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
    const failed = this.#failed.length === 0 ? '' : `, ${this.#failed.length} failed`;
    const at = [...this.#running.values()].join(', ');
    const line = `${clock}  ${this.#through} of ${this.#files} files, ${this.#passed} tests passed${failed}; at work: ${at}`;
    if (this.isTTY) this.#line(line.slice(0, (process.stdout.columns ?? 80) - 1));
    else this.#line(`${line}\n`);
  }

  /** Prints a line; in a terminal, over the line of progress. */
  #line(text: string): void {
    process.stdout.write(this.isTTY ? `\r\u001B[K${text}` : text);
  }
}

/** Returns the file whose process a crash of Node.js ended; undefined: the error is another one. */
export function crashedFile({ cause }: { readonly cause?: unknown }): string | undefined {
  const text = hasMessage(cause) ? cause.message : '';
  return /exited unexpectedly with signal SIG(?:SEGV|BUS|ILL) .*while running test file (.+)$/m.exec(
    text,
  )?.[1];
}

function hasMessage(cause: unknown): cause is { readonly message: string } {
  return typeof (cause as { readonly message?: unknown } | undefined)?.message === 'string';
}

function nameOf({ relativeModuleId }: TestModule): string {
  return (relativeModuleId.split('/').at(-1) ?? relativeModuleId).replace(/\.test\.ts$/, '');
}

function firstLine(errors: readonly { readonly message?: string }[] | undefined): string {
  return (errors?.[0]?.message ?? 'no reason given').split('\n', 1)[0]?.slice(0, 300) ?? '';
}
