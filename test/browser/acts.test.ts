import { describe } from 'vitest';
import { actionsSuite } from './actions-suite.ts';
import { keyboardSuite } from './keyboard-suite.ts';
import { liveSuite } from './live-suite.ts';
import { mountSuite } from './mount-suite.ts';
import { onStage } from './on-stage.ts';

// they change the world, the last ones most
onStage((on, world) => {
  describe('keyboard', () => {
    keyboardSuite(on);
  });
  describe('live', () => {
    liveSuite(on);
  });
  describe('mounted', () => {
    mountSuite(on);
  });
  describe('actions', () => {
    actionsSuite(on, world);
  });
});
