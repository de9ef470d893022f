export type { Installation } from './installations/installations.ts';
export { checkInstallations, installationsProblems } from './installations/installations.ts';
export type { RouterProducer } from './producer/producer.ts';
export { homeOf } from './route/home-of.ts';
export type { Router, RouterOptions } from './router.ts';
export { createRouter } from './router.ts';
