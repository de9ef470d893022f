// A codec for `pgqueue --codec`, of which `a` is the older key.
import { codecOf } from '../encryption/keys.ts';

export const codec = codecOf(['b', 'a'], { errors: true });
