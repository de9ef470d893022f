#!/usr/bin/python3
# The tasks of the contract that a program can do, whatever language it is in.
import json, os, signal, sys, time

payload = json.load(sys.stdin)
task, job = os.environ["PGQUEUE_TASK"], os.environ["PGQUEUE_JOB_ID"]
tries = int(os.environ["PGQUEUE_ATTEMPT"]) - 1


def note(what):
    with open(os.environ["CONFORMANCE_EFFECTS"], "ab", buffering=0) as file:
        file.write(json.dumps({"job": job, "what": what}).encode() + b"\n")


def fail(code):
    print(payload["message"], file=sys.stderr)
    sys.exit(code)


def cancelled(*_):
    note("cancelled")
    sys.exit(1)


if task == "wait-cancelled":
    signal.signal(signal.SIGTERM, cancelled)
note("started")
if task == "nack" and tries < payload["times"]:
    fail(1)
if task == "give-up":
    fail(65)
if task == "snooze":
    print(payload["ms"])
    sys.exit(75)
if task == "poison":
    os.kill(os.getppid(), signal.SIGKILL)
if task == "sleep":
    time.sleep(payload["ms"] / 1000)
while task in ("wait-cancelled", "poison") or (task == "hold" and not os.path.exists(payload["gate"])):
    time.sleep(0.05)
if task in ("sleep", "hold"):
    note("ended")
if task in ("ack", "nack") and "result" in payload:
    json.dump(payload["result"], sys.stdout)
