/** Bounds on one flow. */
export const flowLimits = {
  stepsMax: 10_000,
  needsMax: 100_000,
  jobsMax: 100_000,
  /** JSON of all payloads and attributes, in bytes. */
  bytesMax: 67_108_864,
  nameLengthMax: 200,
  keyLengthMax: 200,
  uniqueKeyLengthMax: 500,
  /** JSON of the value of a signal, in bytes. */
  valueBytesMax: 262_144,
} as const;
