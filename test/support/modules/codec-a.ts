// A codec for `pgqueue --codec`, with one key.
import { codecOf } from '../encryption/keys.ts';

export default codecOf(['a'], { errors: true });
