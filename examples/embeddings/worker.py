"""A worker in Python for jobs of a producer in TypeScript (producer.ts): pip install pgqueue; python3 worker.py"""
import logging
import math
import os

from pgqueue import Context, Json, Worker, task


@task("embed", timeout=60)
def embed(payload: Json, ctx: Context) -> Json:
    """Stands for a model: counts the letters of each text."""
    vectors = []
    for number, text in enumerate(payload["texts"], 1):
        counts = [text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
        length = math.hypot(*counts) or 1.0
        vectors.append([round(count / length, 4) for count in counts])
        ctx.progress({"done": number, "of": len(payload["texts"])})
        ctx.check()  # stops if the job was cancelled
    return {"vectors": vectors}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    Worker(os.environ["DATABASE_URL"], [embed], concurrency=4).run()  # until SIGTERM
