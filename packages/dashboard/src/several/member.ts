import type { Installation } from '@pgqueue/postgres/internal';
import type { Site } from '../site.ts';

/** One of several installations, with its pages. */
export interface Member {
  readonly installation: Installation;
  readonly site: Site;
}
