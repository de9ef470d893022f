import { expect, test } from 'vitest';
import { cpuMsOf, isProcess, parentOf, parseStat, serverCpuMs } from './processes.ts';

test('a line of /proc/PID/stat, whatever the name', () => {
  const line =
    '7 (post gres) (x) S 3 7 7 0 -1 4194560 9 8 0 0 150 50 20 10 20 0 1 0 100 1000 10 18446744073709551615';
  expect(parseStat(line)).toEqual({ parent: 3, ownMs: 2_000, endedMs: 300 });
  expect(parseStat('nonsense')).toBeUndefined();
});

test.runIf(process.platform === 'linux')('this process is seen, and time passes for it', () => {
  const before = cpuMsOf(process.pid);
  // CPU time rather than elapsed time: on a busy machine this process may hardly run
  const used = process.cpuUsage();
  let spent = 0;
  while (spent < 30_000) spent = process.cpuUsage(used).user;
  expect(cpuMsOf(process.pid)).toBeGreaterThan(before);
  expect(parentOf(process.pid)).toBe(process.ppid);
  expect(isProcess(process.pid, 'no such name')).toBe(false);
});

test.runIf(process.platform === 'linux')('a server counts with its children', () => {
  expect(serverCpuMs(process.ppid)).toBeGreaterThanOrEqual(cpuMsOf(process.pid));
  expect(serverCpuMs(undefined)).toBeNaN();
});
