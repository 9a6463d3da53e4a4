# The Python side of `scalewm bench --peer`. This file and others of this folder are
# concatenated to one program. It reads a line of JSON that describes the work, answers
# with the names of its variants, and then runs a variant for every line that names it.
import json
import os
import resource
import sys
import time

SPEC = json.loads(sys.stdin.readline())
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what packages print goes to stderr instead of between the answers


def answer(**kw):
    ANSWERS.write(json.dumps(kw) + "\n")
    ANSWERS.flush()


def serve(variants, **hello):
    """Answers requests. variants[ours][name] is a function that does the work once and
    returns None, or the milliseconds it took; ours is what scalewm compares it with."""
    every = {k: f for group in variants.values() for k, f in group.items()}
    answer(variants={k: list(g) for k, g in variants.items()}, **hello)
    for line in sys.stdin:
        name = line.strip()
        if not name:
            break
        try:
            began = time.perf_counter()
            ms = every[name]()
            answer(ms=(time.perf_counter() - began) * 1e3 if ms is None else ms)
        except Exception as e:  # a variant that cannot run on this machine is left out
            answer(error=f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:200])
    answer(rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


