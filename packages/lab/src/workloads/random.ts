/** Random numbers, the same for the same seed. */
export interface Random {
  /** Returns a number from 0 up to, but not including, 1. */
  readonly uniform: () => number;
  /** Returns a whole number from 0 to `count` − 1. */
  readonly below: (count: number) => number;
  /** Returns the time between two independent events that are `mean` apart on average. */
  readonly exponential: (mean: number) => number;
  /** Returns a number of the standard normal distribution: mean 0, standard deviation 1. */
  readonly normal: () => number;
  /**
   * Returns a lognormal number. `sigma` is the standard deviation of its logarithm; 0 always gives the
   * median.
   */
  readonly lognormal: (median: number, sigma: number) => number;
}

/** 2^32, which scales 32-bit words to numbers from 0 to 1. */
const words = 4_294_967_296;

/**
 * Mixes a 32-bit word: each bit of the input changes about half of the output's bits (the finaliser of
 * MurmurHash3).
 */
function mix(word: number): number {
  let mixed = word >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/**
 * Returns a random number from 0 up to 1 that depends on `seed` and `parts` only, not on the moment of the
 * call. So a job fails at the same attempts under each policy that is tried.
 */
export function chance(seed: number, ...parts: readonly number[]): number {
  let state = mix(seed + 0x9e3779b9);
  for (const part of parts) {
    state = mix(state ^ (part >>> 0)) + 0x9e3779b9;
    state = mix(state ^ Math.floor(part / words));
  }
  return mix(state) / words;
}

/** Creates a generator: xoshiro128** (Blackman and Vigna, 2018), its state derived from the seed. */
export function createRandom(seed: number): Random {
  let [a, b, c, d] = [1, 2, 3, 4].map((part) => Math.floor(chance(seed, part) * words)) as [
    number,
    number,
    number,
    number,
  ];
  // with this one state the generator would only ever return 0
  if ((a | b | c | d) === 0) a = 1;
  const uniform = (): number => {
    const turned = Math.imul(b, 5);
    const result = Math.imul((turned << 7) | (turned >>> 25), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >>> 21);
    return result / words;
  };
  // 1 − u is above 0, so that its logarithm is finite
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return {
    uniform,
    below: (count) => Math.floor(uniform() * count),
    exponential: (mean) => -mean * Math.log(1 - uniform()),
    normal,
    lognormal: (median, sigma) => median * Math.exp(sigma * normal()),
  };
}
