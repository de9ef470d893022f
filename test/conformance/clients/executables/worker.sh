#!/bin/sh
# `pgqueue worker --exec`, with the tasks that a program can do.
here=$(dirname "$0")
for task in ack nack give-up snooze sleep hold wait-cancelled poison; do
  set -- "$@" --exec "$task=$here/program.py"
done
[ "$PGQUEUE_LISTEN" = true ] || set -- "$@" --no-listen
exec node --conditions=@pgqueue/source "$here/../../../../packages/cli/src/main.ts" worker "$@" \
  --schema "$PGQUEUE_SCHEMA" --node "$PGQUEUE_NODE" --pool "$PGQUEUE_POOL" --concurrency "$PGQUEUE_SLOTS" \
  --drain "${PGQUEUE_DRAIN_MS}ms" --exec-env CONFORMANCE_EFFECTS
