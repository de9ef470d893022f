import { describe } from 'vitest';
import { onStage } from '../on-stage.ts';
import { flowsSuite } from './suite.ts';

onStage((on) => {
  describe('flows', () => {
    flowsSuite(on);
  });
});
