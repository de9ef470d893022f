import { describe } from 'vitest';
import { looksSuite } from './looks-suite.ts';
import { onStage } from './on-stage.ts';
import { pagesSuite } from './pages-suite.ts';

// they only look
onStage((on, world) => {
  describe('pages', () => {
    pagesSuite(on, world);
  });
  describe('looks', () => {
    looksSuite(on, world);
  });
});
