// A policy for `pgqueue scheduler --policy`: what the tests of the command line load.
import { fairShare, policy as compose } from '@pgqueue/core';

export const policy = compose({ name: 'tenants', order: fairShare() });
