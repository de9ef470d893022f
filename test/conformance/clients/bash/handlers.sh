# Tasks of the contract for examples/bash-worker/worker.sh: those that need no abort signal.
_of() { sql "select :'payload'::jsonb ->> '$1'" payload="$payload"; }
_note() { printf '{"job": "%s", "what": "%s"}\n' "$id" "$1" >> "$CONFORMANCE_EFFECTS"; }
_call() { sql "select $schema.$1" id="$id" token="$token" payload="$payload" > /dev/null; }
_result() { sql "select :'payload'::jsonb -> 'result'" payload="$payload"; }
_wait_for() { while [ ! -e "$1" ]; do sleep 0.05; done && _note ended; }

ack() { _note started && _result; }
nack() {
  local times message && times=$(_of times) message=$(_of message) && _note started
  [ "$tries" -ge "$times" ] && _result && return
  echo "$message" >&2 && return 1
}
retry-after() {
  local times message ms && times=$(_of times) message=$(_of message) ms=$(_of ms) && _note started
  [ "$tries" -ge "$times" ] && return
  echo "$message" >&2 && echo "$ms ms" && return 1
}
give-up() { _note started && _of message >&2 && return 65; }
snooze() { _note started && echo "$(_of ms) ms" && return 75; }
hold() { local gate && gate=$(_of gate) && _note started && _wait_for "$gate"; }
extend() {
  local gate && gate=$(_of gate) && _note started
  _call "extend(:'id'::uuid, :'token'::uuid, (:'payload'::jsonb ->> 'extendMs')::float8 * interval '1 ms')" && _note extended
  _wait_for "$gate"
}
progress() {
  local gate && gate=$(_of gate) && _note started
  _call "report_progress(:'id', :'token', :'payload'::jsonb -> 'value')" && _wait_for "$gate"
}
poison() { _note started && kill -KILL $$ && sleep 60; }
