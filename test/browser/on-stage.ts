import { afterAll, beforeAll, describe } from 'vitest';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { lacks } from '../support/tools.ts';
import type { Stage } from './stage.ts';
import { openStage } from './stage.ts';
import type { World } from './world.ts';
import { fill } from './world.ts';

/** One browser, one server, one database for all suites of a file: what takes time is to start them. */
export function onStage(suites: (on: () => Stage, world: () => World) => void): void {
  describe.skipIf(lacks('chromium'))('the dashboard in Chromium', () => {
    let test: TestDatabase;
    let stage: Stage;
    let world: World;
    beforeAll(async () => {
      test = await createTestDatabase();
      stage = await openStage(test.url);
      world = await fill(stage);
    });
    afterAll(async () => {
      await stage?.close();
      await test?.drop();
    });
    suites(
      () => stage,
      () => world,
    );
  });
}
