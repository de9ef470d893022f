#!/usr/bin/env bash
# A worker node in bash and psql: DATABASE_URL=postgres://… ./worker.sh handlers.sh
# Each function of handlers.sh that does not begin with _ is a task. It gets the payload as $1, and $id, $token and $tries.
# It prints the result and returns 0; or it returns 65 to give up, 75 to snooze, anything else to be tried again, with the
# delay on stdout, if any. Its stderr is the error.
set -uo pipefail
url=${PGQUEUE_DATABASE_URL:-${DATABASE_URL:-}} schema=${PGQUEUE_SCHEMA:-pgqueue} pool=${PGQUEUE_POOL:-default}
node=${PGQUEUE_NODE:-bash-$HOSTNAME-$$} beat_ms=${PGQUEUE_HEARTBEAT_MS:-5000} lost_ms=${PGQUEUE_LOST_AFTER_MS:-30000}
state=$(mktemp -d) && trap 'rm -rf "$state"' EXIT

sql() { # sql STATEMENT [NAME=VALUE]…: each value is a psql variable, so that it is quoted
  local statement=$1 values=() && shift
  for value in "$@"; do values+=(-v "$value"); done
  psql -XAtq -F $'\t' -v ON_ERROR_STOP=1 -v node="$node" "${values[@]}" "$url" <<< "$statement"
}

read -r version breaking < <(sql "select coalesce(max(version), 0), coalesce(max(version) filter (where not compatible), 0)
  from $schema.migration") || { echo "there is no pgqueue in schema $schema: run \"pgqueue migrate\"" >&2; exit 1; }
(( version >= 1 )) || { echo "schema $schema is at version $version, needed is 1: run \"pgqueue migrate\"" >&2; exit 1; }
(( breaking <= 1 )) || { echo "schema $schema is at version $breaking, known is 1: upgrade this worker" >&2; exit 1; }

before=$(compgen -A function) && source "$1"
tasks=$(comm -13 <(sort <<< "$before") <(compgen -A function | sort) | grep -v ^_ | sed 's/.*/"&": {"min": 1, "max": 1, "timeoutMs": 60000}/' | paste -sd ,)

register() {
  until sql "select incarnation from $schema.register_node(:'node', :'tasks', 1, :'pool', $beat_ms, $lost_ms) where accepted" \
      tasks="{$tasks}" pool="$pool" | grep . > "$state/new"; do sleep 0.5; done # until the last process with this id is lost
  mv "$state/new" "$state/incarnation"
}
heartbeat() { # alive is false: reset, or silent for too long; its leases are gone
  local draining=false && [ -e "$state/draining" ] && draining=true
  local alive && alive=$(sql "select alive from $schema.heartbeat_node(:'node', :'me', 1, $draining)" me="$(< "$state/incarnation")")
  [ "$alive" != f ] || register
}
settle() { # repeats while the database is away: the token makes that safe
  for _ in {1..60}; do
    sql "select $schema.$1" id="$id" token="$token" out="$out" err="$err" > /dev/null && return
    case $? in 3 | 126) return 1 ;; esac # refused: no JSON, no UTF-8, or more than a program takes as an argument (128 KiB)
    sleep 0.5
  done
}

register
trap 'touch "$state/draining"; heartbeat' TERM INT
while kill -0 $$; do sleep "$(( beat_ms / 1000 )).$(( beat_ms % 1000 / 100 ))"; heartbeat; done 2> /dev/null & heart=$!

until [ -e "$state/draining" ]; do
  job=$(sql "select id, token, task, tries, payload from $schema.claim(:'node', :'me', 1)" me="$(< "$state/incarnation")")
  [ -n "$job" ] || { sleep 0.2; continue; }
  IFS=$'\t' read -r id token task tries payload <<< "$job"
  "$task" "$payload" > "$state/out" 2> "$state/err" & handler=$!
  wait "$handler"; code=$?
  while kill -0 "$handler" 2> /dev/null; do wait "$handler"; code=$?; done # a signal has interrupted the wait
  out=$(< "$state/out") err=$(< "$state/err")
  case $code in
    0) settle "ack(:'id', :'token', nullif(:'out', '')::jsonb)" ;;
    65) settle "give_up(:'id', :'token', :'err')" ;;
    75) settle "snooze(:'id', :'token', :'out')" ;;
    *) settle "nack(:'id', :'token', :'err', nullif(:'out', '')::interval)" ;;
  esac || { out='' err="it ended with $code, and its output is refused" && settle "nack(:'id', :'token', :'err')"; }
done
kill "$heart"
sql "select $schema.leave_node(:'node', :'me')" me="$(< "$state/incarnation")" > /dev/null
