import { describe } from 'vitest';
import { hostileSuite } from './suite.ts';
import { onStage } from '../on-stage.ts';

onStage((on) => {
  describe('hostile texts', () => {
    hostileSuite(on);
  });
});
