// Parts that the other packages of pgqueue are made of. Not for users: any release may change them.
export type { AttemptSpan, Sending, TracedJob } from './tracing.ts';
export {
  carrying,
  isTracing,
  sendingOf,
  startAttempt,
  startBundle,
  traceDispatch,
  traceSend,
} from './tracing.ts';
