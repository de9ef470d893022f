"""The statements of a worker, one function each: calls of the SQL functions that the role ``<schema>_worker`` may call."""
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._json import json_value, plain_array, text_array
from ._link import Link

CLAIM_JOBS_MAX = 1_000
CLAIM_BYTES_MAX = 32 * 1_048_576
"""Limits of a claim: the SQL function ``within_bytes``."""
UTF8_MOST = 4
"""Most bytes of a character."""
LOCK_MS = 200
"""Longest wait of a settlement for locks of other transactions; then the server refuses it, and nothing was changed."""
_PATIENCE = f"(select set_config('lock_timeout', '{LOCK_MS}', true) as ms) as patience"
# A commit may carry a hint: one does at a time, and none while the server's queue of notifications is nearly full.
MAY_HINT = "pg_try_advisory_xact_lock(hashtextextended(%s, 0)) and pg_notification_queue_usage() < 0.9"
_RELAXED = "(select set_config('synchronous_commit', 'off', true)) as relaxed"


class Lease(NamedTuple):
    """A job's id and the token of its lease: both must match for anything to change."""

    id: str
    token: str


class ClaimedRow(NamedTuple):
    """A claimed work item. ``jobs``: lists as the SQL function ``claim_rows`` makes them."""

    position: int
    size: int
    lease_ms: float
    jobs: list[list[Any]]


@dataclass(slots=True)
class Settlement:
    """The end of one attempt. ``data``: the result, or the error, as JSON text. ``jobs``: jobs that it adds, as JSON."""

    lease: Lease
    outcome: str
    delay_ms: float | None = None
    data: str | None = None
    waited_ms: float = 0.0
    jobs: str | None = None


class Statements:
    """Statements of one installation."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def register(self, link: Link, node: str, described: Sequence[object], seen: str | None) -> tuple[bool, str, int]:
        """Begins an incarnation; tells if it was accepted, or else the heartbeat of the node that has the id."""
        accepted, heartbeat, heartbeat_ms = link.query(
            f"""select accepted, coalesce(other_heartbeat::text, ''), coalesce(other_heartbeat_ms, 5000)
            from {self.schema}.register_node(%s, %s::jsonb, %s, %s, p_heartbeat_ms => %s, p_lost_after_ms => %s,
              p_software => %s, p_incarnation => %s::uuid, p_seen => %s::timestamptz)""",
            [node, *described, seen],
        )[0]
        return accepted, heartbeat, heartbeat_ms

    def heartbeat(
        self, link: Link, node: str, incarnation: str, leases: Sequence[Lease], draining: bool, hung: int
    ) -> tuple[bool, set[str], list[Lease]]:
        """Records a heartbeat; tells if the incarnation lives, the ids of cancelled jobs, and lost leases."""
        ids, tokens = plain_array(one.id for one in leases), plain_array(one.token for one in leases)
        alive, cancelled, lost = link.query(
            f"""select alive, array_to_json(cancelled)::text, array_to_json(lost)::text
            from {self.schema}.heartbeat_node(%s, %s::uuid, %s, %s, p_ids => %s::uuid[], p_tokens => %s::uuid[],
              p_pid => %s, p_hung => %s)""",
            [node, incarnation, len(leases), draining, ids, tokens, link.pid(), hung],
        )[0]
        return alive, set(json.loads(cancelled)), [leases[place - 1] for place in json.loads(lost)]

    def leave(self, link: Link, node: str, incarnation: str) -> None:
        link.query(f"select {self.schema}.leave_node(%s, %s::uuid)", [node, incarnation])

    def held(self, link: Link, node: str, incarnation: str) -> list[Lease]:
        text = link.one(
            f"select json_agg(json_build_array(id, token))::text from {self.schema}.held_leases(%s, %s::uuid)",
            [node, incarnation],
        )
        return [Lease(*one) for one in json.loads(text or "[]")]

    def tell_runs(self, link: Link, node: str, incarnation: str, runs: dict[str, float]) -> None:
        link.query(f"select {self.schema}.tell_runs(%s, %s::uuid, %s::jsonb)", [node, incarnation, json.dumps(runs)])

    def claim(
        self, link: Link, node: str, incarnation: str, token: str, take: dict[str, object]
    ) -> tuple[list[ClaimedRow], bool]:
        """Takes leases in dispatch order. True: the claim was cut by its size, and more work may be ready.

        Commits asynchronously: a lease lost in a crash is an item ready again.
        """
        rows = link.query(
            f"""select f."position", f.size, f.lease_ms, coalesce(f.jobs, '[]')
            from {_RELAXED}, lateral {self.schema}.claim_rows(%s, %s::uuid, %s::uuid, %s::jsonb) f""",
            [node, incarnation, token, json.dumps(take)],
        )
        size, characters = sum(row[1] for row in rows), sum(len(row[3]) for row in rows)
        claimed = (ClaimedRow(position, size, lease_ms, json_value(jobs)) for position, size, lease_ms, jobs in rows)
        found = sorted((row for row in claimed if row.jobs), key=lambda row: row.position)
        return found, size >= CLAIM_JOBS_MAX or characters * UTF8_MOST >= CLAIM_BYTES_MAX

    def claim_unread(self, link: Link, node: str, incarnation: str, token: str, take: dict[str, Any]) -> list[str]:
        """Claims single jobs without reading them."""
        given = [node, incarnation, take["max"], token, take["from"], take["reap"]]
        rows = link.query(
            f"select f.id::text from {_RELAXED}, lateral {self.schema}.claim(%s, %s::uuid, %s, %s::uuid, %s, %s) f",
            given,
        )
        return [id for (id,) in rows]

    def leased(self, link: Link, token: str, ids: Sequence[str]) -> list[ClaimedRow]:
        """Reads the jobs of leases, each as a row of its own."""
        rows = link.query(
            f"""select f."position", f.lease_ms, json_build_array(f.id, f.queue, f.task, f.key, f.priority, f.attributes, f.payload,
              f.payload_version, f.tries, f.max_tries, f.crashes, f.retry, f.trace,
              floor(date_part('epoch', f.created) * 1000 + 0.0005), null, f.checkpoint)::text
            from {self.schema}.leased(%s::uuid, %s::uuid[]) f""",
            [token, plain_array(ids)],
        )
        return [ClaimedRow(position, 1, lease_ms, [json_value(job)]) for position, lease_ms, job in rows]

    def release_claim(self, link: Link, node: str, incarnation: str, token: str) -> None:
        link.query(f"select {self.schema}.release_claim(%s, %s::uuid, %s::uuid)", [node, incarnation, token])

    def take_out(self, link: Link, position: int, token: str, ids: Sequence[str] | None = None) -> int | None:
        """Gives jobs of a batch rows of their own; all without ``ids``. The position of the row with the others."""
        named = None if ids is None else plain_array(ids)
        found: int | None = link.one(
            f"select {self.schema}.take_out(%s, %s::uuid, %s::uuid[])", [position, token, named]
        )
        return found

    def settle_rows(
        self,
        link: Link,
        rows: Sequence[tuple[int, str, int]],
        busy_us: Iterable[int],
        data: Sequence[str | None] | None,
    ) -> set[int]:
        """Ends batches (position, token, size) whose jobs are all done; returns the positions that were settled."""
        positions, tokens, sizes = zip(*rows)
        text: str = link.one(
            f"""select array_to_json({self.schema}.settle_rows(%s::bigint[], %s::uuid[], %s::integer[], %s::float4[],
              case when patience.ms <> '' then %s::text[] end))::text from {_PATIENCE}""",
            [
                plain_array(positions),
                plain_array(tokens),
                plain_array(sizes),
                "{" + ",".join(f"{us}e-3" for us in busy_us) + "}",
                None if data is None else text_array(data),
            ],
        )
        return set(json.loads(text))

    def settle(self, link: Link, ended: Sequence[Settlement], repeat: bool = False) -> dict[str, str]:
        """Ends attempts; returns the verdicts by id. An id that is missing was stale: nothing was changed."""
        text = link.one(
            f"select json_object_agg(s.job_id, s.verdict)::text {self._settling(True)}", self._settled(ended, repeat)
        )
        verdicts: dict[str, str] = json.loads(text) if text else {}
        return verdicts

    def settle_and_hint(self, link: Link, ended: Sequence[Settlement]) -> tuple[dict[str, str], bool]:
        """The same, with a hint for the schedulers in the same transaction, if no other commit carries one now."""
        verdicts, hinted = link.query(
            f"""select a.verdicts::text, case when {MAY_HINT}
                then pg_notify(%s, case when a.done then a.ids else '' end)::text = '' else false end
              from (select json_object_agg(s.job_id, s.verdict) as verdicts, bool_and(s.verdict = 'done') as done,
                      string_agg(s.job_id::text, ',') as ids {self._settling(True)}) a""",
            [*[f"{self.schema}:done"] * 2, *self._settled(ended, False)],
        )[0]
        return json.loads(verdicts) if verdicts else {}, hinted

    def settle_within(self, ended: Sequence[Settlement], idle_ms: float) -> tuple[str, list[object]]:
        """A settlement in a transaction of the handler, which the server ends when it has been idle for that time.

        The transaction holds the job's rows from then on: no node could take the job over.
        """
        idle = """set_config('idle_in_transaction_session_timeout', least(%s::float8, nullif(extract(epoch from
          current_setting('idle_in_transaction_session_timeout')::interval) * 1000, 0))::bigint::text, true)"""
        statement = f"""select json_object_agg(s.job_id, s.verdict)::text
          from (select {idle} as ms) idle, lateral (select s.* {self._settling(False)}) s where idle.ms <> ''"""
        return statement, [round(idle_ms), *self._settled(ended, False)]

    def _settling(self, impatient: bool) -> str:
        repeat = "%s or patience.ms = ''" if impatient else "%s"
        source = f"{_PATIENCE}, lateral " if impatient else ""
        return f"from {source}{self.schema}.settle(%s::uuid[], %s::uuid[], %s::text[], %s::float8[], %s::text[], {repeat}, p_waited_ms => %s::float8[]) s"

    @staticmethod
    def _settled(ended: Sequence[Settlement], repeat: bool) -> list[object]:
        return [
            plain_array(one.lease.id for one in ended),
            plain_array(one.lease.token for one in ended),
            plain_array(one.outcome for one in ended),
            plain_array("NULL" if one.delay_ms is None else one.delay_ms for one in ended),
            text_array([one.data for one in ended]),
            repeat,
            plain_array(f"{one.waited_ms:.2f}" for one in ended),
        ]

    def fan_out(self, link: Link, ended: Settlement) -> bool:
        """Ends a job as done, and adds jobs to its step. False: its lease was lost."""
        statement = (
            f"select {self.schema}.fan_out(%s::uuid, %s::uuid, %s, nullif(%s, patience.ms)::jsonb) from {_PATIENCE}"
        )
        return link.one(statement, [*ended.lease, ended.data, ended.jobs]) is True

    def add_jobs(self, link: Link, lease: Lease, jobs: str, again: bool) -> bool:
        return (
            link.one(f"select {self.schema}.add_jobs(%s::uuid, %s::uuid, %s::jsonb, %s)", [*lease, jobs, again]) is True
        )

    def unlocked(self, link: Link, leases: Sequence[Lease]) -> set[str]:
        """The ids of those leases whose jobs no other transaction has locked, or that are lost."""
        given = [plain_array(one.id for one in leases), plain_array(one.token for one in leases)]
        statement = f"select f::text from {self.schema}.unlocked_jobs(%s::uuid[], %s::uuid[]) f"
        return {id for (id,) in link.query(statement, given)}

    def release(self, link: Link, leases: Sequence[Lease]) -> None:
        given = [plain_array(one.id for one in leases), plain_array(one.token for one in leases)]
        link.query(f"select {self.schema}.release(%s::uuid[], %s::uuid[])", given)

    def release_row(self, link: Link, position: int, token: str) -> bool:
        """Gives a whole batch back unrun. False: it is not whole any more."""
        found = link.one(f"select {self.schema}.release_rows(array[%s::bigint], array[%s::uuid])", [position, token])
        return bool(found)

    def crash(self, link: Link, lease: Lease, why: str) -> None:
        """Ends an attempt whose own process died."""
        link.query(f"select {self.schema}.crash_job(%s::uuid, %s::uuid, %s)", [*lease, why])

    def extend(self, link: Link, lease: Lease, ms: float) -> bool | None:
        """Moves the end of a lease to ``ms`` from now. None: it was lost. True: a cancellation was asked for."""
        cancelled: bool | None = link.one(
            f"select cancelled from {self.schema}.extend(array[%s::uuid], array[%s::uuid], array[%s::float8])",
            [*lease, ms],
        )
        return cancelled

    def progress(self, link: Link, lease: Lease, text: str) -> bool:
        return link.one(f"select {self.schema}.report_progress(%s::uuid, %s::uuid, %s::jsonb)", [*lease, text]) is True

    def checkpoint(self, link: Link, lease: Lease, text: str) -> bool:
        return link.one(f"select {self.schema}.save_checkpoint(%s::uuid, %s::uuid, %s::jsonb)", [*lease, text]) is True

    def needs(self, link: Link, lease: Lease) -> list[list[Any]]:
        """The steps that the step of a running job waited for: name, step, outcome, done, failed, other."""
        text = link.one(
            f"""select json_agg(json_build_array(n.name, n.step, n.outcome, n.done, n.failed, n.other))::text
            from {self.schema}.needs_of(%s::uuid, %s::uuid) n""",
            [*lease],
        )
        steps: list[list[Any]] = json.loads(text) if text else []
        return steps

    def need_page(self, link: Link, lease: Lease, step: int, after: str | None, most: int) -> tuple[str, bool]:
        """A page of the ends of a needed step's jobs, as JSON, and whether the lease is held in the same snapshot."""
        text, held = link.query(
            f"""select coalesce((select json_agg(r order by r.job)::text
                from {self.schema}.need_results(%s::uuid, %s::uuid, %s, %s::uuid, %s) r), '[]'),
              exists (select from {self.schema}.needs_of(%s::uuid, %s::uuid))""",
            [*lease, step, after, most, *lease],
        )[0]
        return text, held

    def notify(self, link: Link, channel: str, payload: str = "") -> None:
        """Sends a hint, outside any transaction."""
        notify = "case when pg_notification_queue_usage() < 0.9 then pg_notify(%s, %s)::text end"
        statement = f"select set_config('synchronous_commit', 'off', true), {notify}"
        link.query(statement, [f"{self.schema}:{channel}", payload])
