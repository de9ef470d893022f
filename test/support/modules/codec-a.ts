// A codec for `pgqueue --codec`, with one key.
import { codecOf } from '../encryption/keys.ts';

export const codec = codecOf(['a'], { errors: true });
