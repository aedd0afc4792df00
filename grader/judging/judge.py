"""The judge: a clean process that runs the checks and never a learner's code.

It reads one JSON message a line from its standard input and writes one to its standard
output. The checks, with their hidden tests, live in here and nowhere else. Learners'
programs run in children of this process.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import gc
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coursekit import expect, outcomes, reference_checks
from coursekit.checks import CheckModule
from grader.judging.observer import NoObservation, Observer, Remote
from grader.judging.program_children import ProgramChildren
from grader.kernel.inside import responder
from grader.kernel.inside.compiled_programs import free_compiled_programs
from grader.results import Outcome
from grader.submissions.pictures import safe_picture

# What it means that there is no observation to check.
ENDINGS = {
    "missing": Outcome.NOT_ATTEMPTED,
    "died": Outcome.RAISED,
    "timed out": Outcome.TIMED_OUT,
    "unreadable": Outcome.FAILED,
    "distrusted": Outcome.FAILED,
    "program died": Outcome.RAISED,
    "program timed out": Outcome.TIMED_OUT,
}


MAX_ANSWERS = 60  # of one child: compiled programs take memory


class Judge:
    """Holds one lesson's checks and solutions, and runs one check at a time.

    `setup` is the lesson's set-up cell, `definitions` what its other cells define,
    `solutions` the exercises' cells as solved, `functions` the names that these define,
    `checks` the source of the visible checks, `hidden` that of the hidden cases by
    exercise, `seed` that of the generated cases.
    Learners' programs run in `children`, or, without them, in this process.
    """

    def __init__(
        self,
        send,
        receive,
        *,
        setup: str,
        definitions: list[str],
        solutions: list[str],
        functions: list[str],
        checks: str,
        hidden: dict[str, str],
        seed: int = 0,
        children: ProgramChildren | None = None,
    ):
        self.send, self.receive, self.children = send, receive, children
        self.functions = functions
        solved: dict[str, Any] = {"__name__": "__solution__"}
        with contextlib.redirect_stdout(io.StringIO()):
            for source in [setup, *definitions, *solutions]:
                exec(source, solved)
        run_program = children.answer if children else None
        own = Observer(lambda asked: answer(asked, self.ours), lambda runs: None)
        observer = Observer(self.ask, self.running, run_program, own.known)
        self.own, self.observer = own, observer
        self.module = CheckModule(checks, "<checks>", observer.observe)
        for source in hidden.values():
            self.module.add_hidden(source)
        # A learner's functions are names here; the lesson's own are what they are.
        self.module.bind(solved | {name: Remote(name) for name in functions})
        # What the solution does is observed on the same way, here.
        ours = self.module.compare_with(solved, {})
        self.ours = collections.ChainMap(ours.namespace, solved)
        reference_checks.ways |= {
            "solution": lambda f, *a, **how: own.observe(Remote(f.__name__), *a, **how)
        }
        reference_checks.seed = seed
        expect.count_devices = remembered(expect.count_devices)

    def ask(self, question: dict) -> dict:
        """Sends a question to the learner's process, by way of the grader."""
        self.send({"ask": question})
        return self.receive()

    def running(self, runs: bool) -> None:
        """Tells the grader whether an untrusted program runs now."""
        self.send({"running": runs})

    def check(self, exercise: str) -> dict[str, Any]:
        """Runs one check; returns its verdict as plain data.

        "right" takes positive evidence: the check came to its end and said so.
        """
        free_compiled_programs()
        self.observer.exported.clear()
        self.own.exported.clear()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                found = self.module.run(exercise)
        except NoObservation as end:
            if end.kind == "missing" and end.function not in self.functions:
                return verdict(Outcome.BROKEN, str(end))  # nothing a learner writes
            reply = verdict(ENDINGS[end.kind], str(end))
            if end.kind == "distrusted":
                reply["evidence"] = str(end)
            return reply | {"ended": end.kind}
        except BaseException as error:
            return verdict(Outcome.BROKEN, f"{type(error).__name__}: {error}")
        outcome = Outcome(found.outcome)
        statements = [dataclasses.asdict(one) for one in found.statements]
        if any(one["standing"] == outcomes.LATER for one in statements):
            return verdict(Outcome.BROKEN, "The check did not try every statement.")
        reply = verdict(outcome, found.headline, found.rows)
        return reply | {"share": found.share, "statements": statements}


def answer(question: dict, functions: Mapping[str, Any]) -> dict:
    """Answers a question as a learner's process does."""
    return {"answer": json.dumps(responder.reply(question, functions))}


def remembered(count_devices: Callable[[dict], int | str]) -> Callable:
    """Makes a `count_devices` that starts one process for each environment."""
    known: dict[str, int] = {}

    def count(env: dict) -> int | str:
        key = repr(sorted(env.items(), key=repr))
        found = known.get(key) or count_devices(env)
        if isinstance(found, int):  # what went wrong may go right another time
            known[key] = found
        return found

    return count


def verdict(outcome: Outcome, message: str, details: Iterable = ()) -> dict:
    """Makes a verdict: outcome, first sentence, rows of what was seen and expected."""
    rows = [[name, text] for name, text in details]
    found = {"verdict": outcome.name, "message": message, "details": rows}
    return found | {"share": 0.0, "statements": []}


def main() -> None:
    """Serves one grader until its standard input ends."""
    # In a box, programs are a stranger's. Before JAX starts: see program_children.py.
    contained = os.environ.get("COURSE_CONTAINED") == "1"
    children = ProgramChildren() if contained else None
    # What checks and libraries print must not get into the messages.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: dict) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def receive() -> dict:
        line = sys.stdin.readline()
        if not line:
            sys.exit()
        return json.loads(line)

    judge = Judge(send, receive, children=children, **receive())
    gc.freeze()  # what the lesson has made stays: no collection need look at it
    send({"ready": list(judge.module.checks)})
    while True:
        message = receive()
        if "check" in message:
            if children:
                children.wall_s = message["wall_s"]
                if message["begins"] or children.answers > MAX_ANSWERS:
                    children.end()  # each learner's programs meet another child
            send(judge.check(message["check"]))
        else:  # decoding untrusted files is done in here, where it can harm nobody
            send({"picture": safe_picture(base64.b64decode(message["picture"]))})


if __name__ == "__main__":
    main()
