import type { BulkRun, Dashboard, LiveEvent } from '@pgqueue/dashboard';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DashboardBench } from './support.ts';
import { browse, openDashboardBench, until } from './support.ts';

let bench: DashboardBench;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_live_test');
});
afterAll(() => bench.close());

/** A tab that listens. */
interface Listener {
  readonly events: readonly (LiveEvent & { readonly id: string })[];
  readonly ended: Promise<void>;
  readonly leave: () => void;
}

async function listen(dashboard: Dashboard, lastId?: string): Promise<Listener> {
  const leaving = new AbortController();
  const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
  const response = await browse(dashboard, 'vera:viewer').fetch('/api/live', { headers });
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const events: (LiveEvent & { readonly id: string })[] = [];
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) throw new Error('no body');
  const read = async (): Promise<void> => {
    let text = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (text + value).split('\n\n');
      text = parts.pop() ?? '';
      for (const part of parts) {
        const [, id, event, data] = /^id: (.*)\nevent: (.*)\ndata: (.*)$/.exec(part) ?? [];
        if (data !== undefined) events.push({ id, event, data: JSON.parse(data) } as (typeof events)[number]);
      }
    }
  };
  leaving.signal.addEventListener('abort', () => void reader.cancel());
  return { events, ended: read(), leave: () => leaving.abort() };
}

const snapshots = ({ events }: Listener): number => events.filter(({ event }) => event === 'snapshot').length;

describe('live events', () => {
  test('two tabs, one reader: both see the same, and it is asked for once', async () => {
    await bench.insert({ queue: 'mail' }, 3);
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const tabs = await Promise.all([listen(dashboard), listen(dashboard)]);
    await until('a snapshot in both', () => tabs.every((tab) => snapshots(tab) >= 1));
    const [one, two] = tabs.map(({ events }) => events[0]);
    expect(one).toEqual(two);
    expect(one).toMatchObject({
      event: 'snapshot',
      data: { totals: { pending: { count: 3 } }, queues: [{ queue: 'mail' }] },
    });
    const others = await Promise.all(Array.from({ length: 20 }, () => listen(dashboard)));
    await until('a snapshot in all', () => others.every((tab) => snapshots(tab) >= 1));
    // who comes later gets what is known, at once
    expect(new Set(others.map(({ events }) => events[0]?.id)).size).toBe(1);
    for (const tab of [...tabs, ...others]) tab.leave();
    await Promise.all([...tabs, ...others].map(({ ended }) => ended));
  });

  test('what others do is told, and a bulk action’s progress', async () => {
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const tab = await listen(dashboard);
    const operator = browse(dashboard, 'otto:operator');
    await operator.post('/api/actions/queue', { queue: 'mail', settings: { paused: true } });
    await until('the change', () => tab.events.some(({ event }) => event === 'changed'));
    expect(tab.events.find(({ event }) => event === 'changed')).toMatchObject({
      data: { action: 'queue.set', target: 'mail' },
    });
    const { body } = await operator.post<BulkRun>('/api/bulk', {
      over: 'jobs',
      filter: {},
      action: { kind: 'delete' },
    });
    await until('its end', () =>
      tab.events.some(({ event, data }) => event === 'bulk' && data.state === 'done'),
    );
    expect(tab.events.findLast(({ event }) => event === 'bulk')).toMatchObject({
      data: { id: body.id, done: 3 },
    });
    tab.leave();
    await tab.ended;
  });

  test('who comes back gets what was missed, and of another process the newest only', async () => {
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const operator = browse(dashboard, 'otto:operator');
    const tab = await listen(dashboard);
    await until('a snapshot', () => snapshots(tab) >= 1);
    const last = tab.events.at(-1)?.id;
    const other = await listen(dashboard);
    tab.leave();
    await tab.ended;
    await operator.post('/api/actions/queue', { queue: 'mail', settings: { paused: false } });
    await until('another snapshot', () => snapshots(other) >= 2);
    const back = await listen(dashboard, last);
    await until('both', () => back.events.length >= 2);
    expect(back.events.map(({ event }) => event)).toEqual(expect.arrayContaining(['changed', 'snapshot']));
    expect(back.events.map(({ id }) => id)).not.toContain(last);
    const stranger = await listen(dashboard, '000000000000-1');
    await until('one', () => stranger.events.length >= 1);
    expect(stranger.events.map(({ event }) => event)).toEqual(['snapshot']);
    await dashboard.close();
    // closing ends them all
    await Promise.all([back.ended, other.ended, stranger.ended]);
    expect((await operator.get('/api/live')).status).toBe(503);
  });

  test('nobody looks, nothing is asked', async () => {
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const tab = await listen(dashboard);
    await until('a snapshot', () => snapshots(tab) >= 1);
    tab.leave();
    await tab.ended;
    const active = async (): Promise<number | undefined> => {
      const [row] = await bench.sql<{ n: number }>(
        `select count(*)::integer as n from pg_stat_activity
         where application_name = 'pgqueue dashboard' and datname = current_database()
           and query_start > clock_timestamp() - interval '1 s'`,
      );
      return row?.n;
    };
    // the loop would ask every 0.2 s
    await until('no question for a second', async () => (await active()) === 0);
    const again = await listen(dashboard);
    await until('a question', async () => (await active()) !== 0);
    expect(snapshots(again)).toBeGreaterThan(0);
    again.leave();
    await again.ended;
  });

  test('a tab that does not read is let go, and the others go on', async () => {
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const stuck = await browse(dashboard, 'vera:viewer').fetch('/api/live');
    const tab = await listen(dashboard);
    const operator = browse(dashboard, 'otto:operator');
    const none = { ids: ['00000000-0000-7000-8000-000000000000'], action: { kind: 'run_now' } };
    for (let n = 0; n < 120; n += 30) {
      await Promise.all(Array.from({ length: 30 }, () => operator.post('/api/actions/jobs', none)));
    }
    await until('all of them', () => tab.events.filter(({ event }) => event === 'changed').length === 120);
    const events = (await stuck.text()).match(/event: changed/g)?.length ?? 0;
    expect(events).toBeLessThan(120);
    expect(events).toBeGreaterThan(50);
    tab.leave();
    await tab.ended;
  });

  test('a database that does not answer is said, and forgotten when it does', async () => {
    const dashboard = bench.dashboard({ liveEveryMs: 200 });
    const tab = await listen(dashboard);
    await until('a snapshot', () => snapshots(tab) >= 1);
    await bench.sql('alter table $schema.scheduler_lease rename to hidden');
    await until('trouble', () => tab.events.some(({ event }) => event === 'trouble'));
    await bench.sql('alter table $schema.hidden rename to scheduler_lease');
    const count = snapshots(tab);
    await until('another snapshot', () => snapshots(tab) > count);
    expect(tab.events.find(({ event }) => event === 'trouble')).toMatchObject({
      data: { message: expect.stringContaining('pgqueue migrate') },
    });
    tab.leave();
    await tab.ended;
  });
});
