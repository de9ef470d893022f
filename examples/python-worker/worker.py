# A worker node in Python: apt-get install python3-psycopg2; DATABASE_URL=postgres://… /usr/bin/python3 worker.py
import json, os, signal, time, uuid
import psycopg2
from psycopg2.extras import RealDictCursor

def shout(payload):
    return payload["text"].upper()

stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
connection = psycopg2.connect(os.environ["DATABASE_URL"])
connection.autocommit = True  # each call commits by itself: no transaction stays open while a job runs
cursor = connection.cursor(cursor_factory=RealDictCursor)
node, tasks = f"python-{uuid.uuid4()}", {"shout": {"min": 1, "max": 1, "timeoutMs": 60_000}}

def register():
    cursor.execute("select incarnation from pgqueue.register_node(%s, %s, 1)", (node, json.dumps(tasks)))
    return node, cursor.fetchone()["incarnation"]

me = register()
print(f"ready {node}", flush=True)
while not stopping:
    cursor.execute("select alive from pgqueue.heartbeat_node(%s, %s)", me)
    if not cursor.fetchone()["alive"]:  # reset, or silent for 30 s: its leases are gone
        me = register()
    try:
        cursor.execute("select id, token, payload from pgqueue.claim(%s, %s, 1)", me)
    except psycopg2.Error as error:
        if error.pgcode != "PQ001":
            raise
        continue  # reset since that heartbeat: the next one says so
    jobs = cursor.fetchall()
    for job in jobs:
        try:
            settled = ("ack", (job["id"], job["token"], json.dumps(shout(job["payload"]))))
        except Exception as error:
            settled = ("nack", (job["id"], job["token"], repr(error)))
        cursor.execute(f"select pgqueue.{settled[0]}(%s, %s, %s)", settled[1])  # false or null: the lease was lost
    time.sleep(0 if jobs else 0.1)
cursor.execute("select pgqueue.leave_node(%s, %s)", me)
