"""Everything that needs no database."""
from __future__ import annotations

import base64
import json
import unittest
import unittest.mock
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

from cryptography.exceptions import UnsupportedAlgorithm

from pgqueue import Job, PgQueueError, Place, Producer, RetryPolicy, Task, Unique, Worker, blind, encrypted, task
from pgqueue._codec import encoded_error, envelope_of, opened_error
from pgqueue._ending import retry_delay
from pgqueue._errors import error_data, said
from pgqueue._jobs import rows_of, rows_text
from pgqueue._json import json_value, make_id, result_text, text_array
from pgqueue._node import wakes
from pgqueue._statements import ClaimedRow
from pgqueue._unit import Attempt, Unit

URL = "postgres://nobody@127.0.0.1:1/none"


def refused(code: str, work, *parts: str) -> None:
    """Checks that a call raises that code, and names all of these problems."""
    try:
        work()
    except PgQueueError as error:
        assert error.code == code, error
        for part in parts:
            assert part in str(error), f"{part!r} is not in {error}"
        return
    raise AssertionError(f"it should raise {code}")


@task("plain")
def plain(payload):
    return payload


class HintsTest(unittest.TestCase):
    def test_a_hint_of_ready_items_names_its_pool_or_nodes_of_it(self) -> None:
        for payload, expected in [
            ("", True),
            ("default", True),
            ("other", False),
            ('["default", "n1", "n2"]', True),
            ('["default", "n1"]', False),
            ('["other", "n2"]', False),
            ('["broken', False),
            ("[]", False),
        ]:
            with self.subTest(payload):
                self.assertIs(wakes(payload, "default", "n2"), expected)


class Jobs(unittest.TestCase):
    def test_a_job_with_many_faults_names_them_all(self) -> None:
        job = Job(
            "", float("nan"), version=0, id="x", queue="q" * 101, key="k\0", priority=2**31, attributes={"a": []},
            run_after=datetime.now(), delay=-1, expires_at="soon", timeout=0, retry=RetryPolicy(max_tries=0, jitter=2),
            unique_key=Unique("", "other", 0), trace={"traceparent": "x"},
        )  # fmt: skip
        names = "task version id queue key priority attributes run_after delay expires_at timeout max_tries jitter unique_key"
        refused("invalid_job", lambda: rows_of([job], None), *names.split(), "trace", "payload")

    def test_payloads_that_the_database_or_a_worker_would_refuse(self) -> None:
        deep: list = []
        for _ in range(501):
            deep = [deep]
        for payload, part in (
            ("a\0b", "NUL"),
            ("\ud800", "surrogates"),
            ({"__proto__": 1}, "__proto__"),
            ({"constructor": {"prototype": 1}}, "prototype"),
            (deep, "500 levels"),
            ({1, 2}, "JSON"),
            ([{1: "a", "1": "b"}], "texts as keys"),
            (10**5_000, "JSON"),
            ("x" * 262_143, "262145 bytes"),
        ):
            refused("invalid_job", lambda payload=payload: rows_of([Job("t", payload)], None), "payload", part)

    def test_options_of_any_kind_are_refused_in_words(self) -> None:
        parent = f"00-{'a' * 32}-{'b' * 16}-01"
        for option, value in (
            ("delay", 10**400),
            ("timeout", 10**400),
            ("attributes", {"a": 10**400}),
            ("trace", 5),
            ("trace", {"traceparent": 5}),
            ("trace", {"traceparent": parent, "tracestate": {1, 2}}),
            ("trace", {"traceparent": parent, "tracestate": "a\0"}),
        ):
            refused(
                "invalid_job", lambda option=option, value=value: rows_of([Job("t", **{option: value})], None), option
            )
        rows_of([Job("t", trace={"traceparent": parent, "tracestate": "a=b"})], None)

    def test_a_backslash_before_u0000_is_no_nul(self) -> None:
        self.assertEqual(json.loads(rows_of([Job("t", "\\u0000")], None)[0]["payload"]), "\\u0000")

    def test_the_jobs_of_a_batch_are_named_by_their_index(self) -> None:
        refused("invalid_job", lambda: rows_of([Job("t"), Job("")], None), "jobs[1]")
        refused("invalid_job", lambda: rows_of([{"task": "t"}], None), "pgqueue.Job")
        refused("invalid_job", lambda: rows_of([Job("t")] * 50_001, None), "50001 jobs")

    def test_rows_hold_what_the_sql_functions_read(self) -> None:
        at = datetime(2026, 11, 2, tzinfo=timezone.utc)
        job = Job("t", {"ä": [1.5, None]}, delay=timedelta(seconds=0.0001), timeout=2, unique_key="u", expires_at=at)
        [row] = json.loads(rows_text(rows_of([job], None)))
        self.assertEqual(row["payload"], {"ä": [1.5, None]})
        self.assertEqual((row["delay_ms"], row["timeout_ms"], row["mode"]), (1, 2_000, "keep"))
        self.assertEqual(row["expires_at"], "2026-11-02T00:00:00+00:00")

    def test_a_job_has_delays_of_its_own_if_it_or_its_task_says_so(self) -> None:
        def stored(job: Job) -> tuple[object, ...]:
            [row] = rows_of([job], None)
            return row["max_tries"], row["max_crashes"], row["retry"]

        steady = Task("t", plain, 1, 1, None, RetryPolicy(max_crashes=2, base=60), None, None, False, False, False)
        each_minute = {"kind": "exponential", "baseMs": 60_000, "maxMs": 3_600_000, "factor": 2, "jitter": 0.2}
        self.assertEqual(stored(Job("t")), (20, 3, None))
        self.assertEqual(stored(Job("t", retry=RetryPolicy(max_tries=5))), (5, 3, None))
        self.assertEqual(stored(Job("t", retry=RetryPolicy(base=60))), (20, 3, each_minute))
        self.assertEqual(stored(plain.job({}, retry=RetryPolicy(max_tries=5))), (5, 3, None))
        self.assertEqual(stored(steady.job({})), (20, 2, each_minute))
        self.assertEqual(stored(steady.job({}, retry=RetryPolicy(max_tries=5))), (5, 2, each_minute))
        refused("invalid_job", lambda: rows_of([steady.job({}, retry={"max_tries": 5})], None), "pgqueue.RetryPolicy")

    def test_ids_are_uuids_of_version_7_and_in_order_of_time(self) -> None:
        ids = [make_id() for _ in range(100)]
        self.assertEqual({(id[14], id[19] in "89ab") for id in ids}, {("7", True)})
        self.assertEqual(sorted(id[:13] for id in ids), [id[:13] for id in ids])

    def test_an_option_that_does_not_exist(self) -> None:
        refused("invalid_job", lambda: Producer(URL).enqueue("t", prio=1), "prio")


class Options(unittest.TestCase):
    def test_a_worker_with_many_faults_names_them_all(self) -> None:
        refused(
            "configuration",
            lambda: Worker(URL, [plain, plain, len], concurrency=0, pool="", heartbeat=0.01, lost_after=0.01, drain=-1),  # type: ignore[list-item]
            *"decorator concurrency pool heartbeat lost_after drain".split(),
            "more than one handler",
        )
        refused("configuration", lambda: Worker(URL, []), "tasks is empty")

    def test_names_of_schemas(self) -> None:
        for name in ("public", "pg_x", "select", "A", "a-b", "", "a" * 42):
            refused("configuration", lambda name=name: Producer(URL, schema=name), "schema")

    def test_connection_strings(self) -> None:
        refused("configuration", lambda: Producer("postgres://[bad"), "connection string")
        refused("configuration", lambda: Producer().enqueue("t"), "conninfo, or conn")
        refused("configuration", lambda: Producer().enqueue("t", conn=object()), "psycopg", "builtins.object")

    def test_tasks(self) -> None:
        refused(
            "configuration",
            lambda: task("", version=0, timeout=0, retry=RetryPolicy(base=-1)),
            "name",
            "version",
            "timeout",
            "base",
        )
        refused("configuration", lambda: task("t")(lambda: 0), "payload and ctx")
        refused("configuration", lambda: task("t", process=True)(_nothing), "async")
        self.assertEqual(plain(3), 3)
        self.assertEqual(plain.job({"a": 1}, key="k").key, "k")


async def _nothing(payload):
    pass


class Values(unittest.TestCase):
    def test_results_lose_what_postgresql_can_not_store(self) -> None:
        self.assertEqual(result_text({"a\0": ["b\0", 1]}), ('{"a":["b",1]}', None))
        self.assertEqual(result_text("\ud800x"), ('"?x"', None))
        for value in ({1, 2}, float("inf"), "x" * 1_048_577):
            text, problem = result_text(value)
            self.assertIn("pgqueue_error", json.loads(text or ""))
            self.assertIn("can't be stored", problem or "")

    def test_numbers_of_any_length_are_read(self) -> None:
        for length in (640, 4_300, 4_301, 131_072):
            digits = "1" + "0" * (length - 2) + "7"
            self.assertEqual(
                json_value(f"[-{digits},{digits},1]"), [-(10 ** (length - 1)) - 7, 10 ** (length - 1) + 7, 1]
            )
        with self.assertRaises(ValueError):
            json_value("[")

    def test_arrays_are_quoted(self) -> None:
        self.assertEqual(text_array(['a"b\\', None, "NULL"]), '{"a\\"b\\\\",NULL,"NULL"}')

    def test_the_errors_of_a_group_are_kept_up_to_a_size(self) -> None:
        class Group(Exception):  # as ExceptionGroup, which Python 3.10 lacks
            def __init__(self, message: str, exceptions: list[Exception]) -> None:
                super().__init__(message)
                self.exceptions = tuple(exceptions)

        told = error_data(Group("all", [Group("some", [ValueError("why")]), KeyError("k")]))
        self.assertEqual([one["message"] for one in told["errors"]], ["some", "'k'"])
        self.assertEqual(told["errors"][0]["errors"][0]["message"], "why")
        wide = error_data(Group("all", [Group("some", [ValueError("x" * 5_000)] * 20) for _ in range(20)]))
        self.assertLess(len(json.dumps(wide)), 32_768)
        endless = Group("all", [])
        endless.exceptions = (endless,)
        self.assertLess(len(json.dumps(error_data(endless))), 32_768)

    def test_errors_carry_their_causes(self) -> None:
        try:
            try:
                raise KeyError("inner\0")
            except KeyError as error:
                raise RuntimeError("outer") from error
        except RuntimeError as error:
            data = error_data(error)
        self.assertEqual((data["name"], data["message"], data["cause"]["name"]), ("RuntimeError", "outer", "KeyError"))
        self.assertIn("test_errors_carry_their_causes", data["stack"])
        self.assertNotIn("\0", json.dumps(data))

    def test_values_that_the_server_quotes_are_left_out_in_every_language(self) -> None:
        for message in (
            'invalid input syntax for type integer: "%s"',
            'value "%s" is out of range for type integer',
            "ungültige Eingabesyntax für Typ integer: »%s«",
            "la valeur « %s » est en dehors des limites pour le type integer",
        ):
            error = Exception()
            error.sqlstate = "22P02"  # type: ignore[attr-defined]
            error.diag = SimpleNamespace(message_primary=message % "secret")  # type: ignore[attr-defined]
            self.assertNotIn("secret", said(error))
            self.assertIn("integer", said(error))

    def test_delays_grow_as_the_policy_says(self) -> None:
        def delay(tries: int, retry: object, **policy: object) -> float:
            made = Task("t", plain, 1, 1, None, RetryPolicy(jitter=0, **policy), None, None, False, False, False)  # type: ignore[arg-type]
            job = ["id", "q", "t", None, None, None, {}, 1, tries, 20, None, retry, None, 0, None, None]
            return retry_delay(Attempt(Unit(None, made, "token", ClaimedRow(1, 1, 1_000, [job]), 0), job, 0))  # type: ignore[arg-type]

        self.assertEqual([delay(n, None) for n in range(3)], [1_000, 2_000, 4_000])
        self.assertEqual(delay(60, None), 3_600_000)
        self.assertEqual(delay(4, None, backoff="linear", base=2), 10_000)
        self.assertEqual(delay(4, {"kind": "fixed", "baseMs": 5, "jitter": 0}), 5)
        self.assertEqual(delay(0, {"baseMs": "x", "factor": None, "jitter": 0}), 1_000)


class Encryption(unittest.TestCase):
    vectors = json.loads((Path(__file__).parents[3] / "docs/encryption-vectors.json").read_text())

    def codec(self, **options: object):
        return encrypted([(key["id"], key["key"]) for key in self.vectors["keys"]], **{"plain": "refuse", **options})

    def test_the_vectors_of_the_typescript_packages_are_read(self) -> None:
        for one in self.vectors["vectors"]:
            place = Place(one["id"], one["field"], one["name"])
            self.assertEqual(self.codec().decode(one["stored"], place), one["value"])
            again = json.loads(self.codec().encode(one["text"], place))
            [before, after] = [envelope_of(value) for value in (one["stored"], again)]
            assert before is not None and after is not None
            if before.key == after.key:
                self.assertEqual(after.fingerprint, before.fingerprint)
            self.assertEqual(self.codec().decode(again, place), one["value"])

    def test_values_that_were_changed_or_moved_are_refused(self) -> None:
        for one in self.vectors["refused"]:
            refused(
                one["code"],
                lambda one=one: self.codec().decode(one["stored"], Place(one["id"], one["field"], one["name"])),
            )

    def test_where_openssl_has_aes_alone_a_value_of_the_other_cipher_waits(self) -> None:
        [one, *_] = [one for one in self.vectors["vectors"] if one["stored"]["$enc"].startswith("2:")]
        place = Place(one["id"], one["field"], one["name"])
        name = "cryptography.hazmat.primitives.ciphers.aead.ChaCha20Poly1305"
        with unittest.mock.patch(name, side_effect=UnsupportedAlgorithm("")):
            codec = self.codec()
        self.assertEqual(codec.decode(json.loads(codec.encode("1", place)), place), 1)
        refused("key_missing", lambda: codec.decode(one["stored"], place), "OpenSSL of this process lacks")

    def test_another_key_under_the_id_of_a_value_is_as_good_as_none(self) -> None:
        one = self.vectors["vectors"][0]
        other = encrypted([("2026-11", b"o" * 32)], plain="refuse")
        place = Place(one["id"], one["field"], one["name"])
        refused("key_missing", lambda: other.decode(one["stored"], place), "another key under this id")

    def test_plain_values(self) -> None:
        place = Place(make_id(), "payload", "t")
        self.assertEqual(self.codec(plain="accept").decode({"a": 1}, place), {"a": 1})
        refused("undecodable", lambda: self.codec().decode({"a": 1}, place), "not encrypted")
        for value in self.vectors["plain"]:
            self.assertEqual(self.codec(plain="accept").decode(value, place), value)

    def test_a_payload_is_not_encrypted_for_a_job_that_another_one_replaces(self) -> None:
        for mode in ("keep", "supersede"):
            rows_of([Job("a", unique_key=Unique("u", mode))], self.codec())
        for mode in ("replace", "debounce"):
            rows_of([Job("a", unique_key=Unique("u", mode))], None)
            refused("invalid_job", lambda: rows_of([Job("a", unique_key=Unique("u", mode))], self.codec()), "supersede")

    def test_a_plain_error_has_no_text_where_errors_are_encrypted_and_plain_values_refused(self) -> None:
        place = Place("0193a4d2-7c1e-7b44-9d3a-5f0c2e8b6a71", "error", "a")
        made = {"kind": "error", "name": "canary", "message": "canary", "try": 1}
        strict = self.codec(errors=True)
        shown = opened_error(strict, made, place)
        self.assertEqual([shown["kind"], shown["try"], "canary" in json.dumps(shown)], ["error", 1, False])
        self.assertEqual(opened_error(strict, encoded_error(strict, made, place), place), made)
        crash = {**made, "kind": "crash"}
        self.assertEqual(opened_error(strict, crash, place), crash)
        for other in (self.codec(), self.codec(errors=True, plain="accept")):
            self.assertEqual(opened_error(other, made, place), made)

    def test_blind_texts(self) -> None:
        for one in self.vectors["blind"]:
            self.assertEqual(blind(one["value"], one["key"]), one["text"])

    def test_wrong_options_are_named_without_a_key(self) -> None:
        secret = base64.b64encode(b"s" * 31).decode()
        with self.assertRaises(PgQueueError) as caught:
            encrypted([("", secret), ("a", b"k" * 32), ("a", b"k" * 32)], plain="maybe")  # type: ignore[arg-type]
        for part in ("keys[0]", "twice", "plain"):
            self.assertIn(part, str(caught.exception))
        self.assertNotIn(secret, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
