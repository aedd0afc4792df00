"""The judge: a clean process that runs the checks and never a learner's code.

Messages are JSON objects, which it reads from its standard input and writes to its
standard output. A learner's session gets the visible checks, never the hidden cases.
Learners' programs run in children of this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import hashlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from coursekit import outcomes
from coursekit.checks import CheckModule
from coursekit.context import Context, within
from coursekit.processes import count_devices
from grader.judging import known_results
from grader.judging.observer import NoObservation, Observer, Remote
from grader.judging.program_process import ProgramProcess
from grader.kernel.inside import responder
from grader.kernel.inside.responder import free_compiled_programs
from grader.results import Outcome


class Judge:
    """Holds one lesson's checks and solutions, and runs one check at a time.

    `ask` and `run_program` are those of an `Observer`; for the lesson's `material` see
    judge_process.py.
    """

    def __init__(
        self,
        ask: Callable[[dict], dict],
        material: Mapping[str, Any],
        run_program: Callable[[dict], str] | None = None,
    ):
        self.functions = material["functions"]
        solved: dict[str, Any] = {"__name__": "__solution__"}
        own = (material["setup"], *material["definitions"], *material["solutions"])
        self.context = Context(seed=material["seed"])
        self.observer = Observer(ask, run_program)
        with within(self.context), contextlib.redirect_stdout(io.StringIO()):
            for source in own:
                exec(source, solved)
            self.module = CheckModule(
                material["checks"], "<checks>", self.observer.observe
            )
            for source in material["hidden"].values():
                self.module.add_hidden(source)
            # A learner's functions are names here; the lesson's own are what they are.
            remote = {name: Remote(name) for name in self.functions}
            self.module.bind(solved | remote)
            self.module.compare_with(solved, {})
        known = self.context.known
        known |= known_results.decode(material.get("known", ""))
        # What the solution does is observed in the same way, but in this process.
        functions = self.context.solutions
        self.solution = Observer(lambda question: answer(question, functions))
        self.context.observe_solution = lambda f, *arguments, **how: (
            self.solution.observe(Remote(f.__name__), *arguments, **how)
        )
        self.context.count_devices = remembered(count_devices, known)

    def check(self, exercise: str, to_beat: float | None = None) -> dict[str, Any]:
        """Runs one check; returns its verdict as plain data; for `to_beat` see `Run`.

        "right" takes positive evidence: the check came to its end and said so.
        """
        free_compiled_programs()
        self.observer.begin_check()
        self.solution.begin_check()
        try:
            with within(self.context), contextlib.redirect_stdout(io.StringIO()):
                found = self.module.run(exercise, to_beat=to_beat)
        except NoObservation as end:
            is_missing = end.kind == "missing"
            if is_missing and end.function not in self.functions:
                return verdict(Outcome.BROKEN, str(end))  # nothing a learner writes
            outcome = Outcome.NOT_ATTEMPTED if is_missing else Outcome.FAILED
            return verdict(outcome, str(end)) | {"ended": end.kind}
        except BaseException as error:
            return verdict(Outcome.BROKEN, f"{type(error).__name__}: {error}")
        statements = [dataclasses.asdict(one) for one in found.statements]
        if any(one["standing"] == outcomes.LATER for one in statements):
            return verdict(Outcome.BROKEN, "The check did not try every statement.")
        return verdict(Outcome(found.outcome), found.headline, found.rows) | {
            "share": found.share,
            "statements": statements,
            "misses_name": "NameError" in self.observer.raised,
        }


def answer(question: dict, functions: Mapping[str, Any]) -> dict:
    return {"answer": json.dumps(responder.reply(question, functions))}


def remembered(
    count_devices: Callable[[dict], int | str], known: dict[tuple, Any]
) -> Callable:
    """Makes a `count_devices` that starts one process for each environment."""

    def count(env: dict) -> int | str:
        # An environment may hold a learner's secrets, and these results are kept.
        text = repr(sorted(env.items(), key=repr))
        key = "count_devices", hashlib.sha256(text.encode()).hexdigest()
        if not isinstance(known.get(key), int):  # what failed may work another time
            known[key] = count_devices(env)
        return known[key]

    return count


def verdict(outcome: Outcome, message: str, details: Iterable = ()) -> dict:
    """Makes a verdict: outcome, first sentence, rows of what was seen and expected."""
    rows = [[name, text] for name, text in details]
    found = {"verdict": outcome.name, "message": message, "details": rows}
    return found | {"share": 0.0, "statements": []}


def main() -> None:
    """Serves one grader, until it closes the connection."""
    programs = ProgramProcess()  # before JAX starts
    requests = Connection(os.dup(sys.stdin.fileno()), writable=False)
    # What checks and libraries print must not get into the messages.
    replies = Connection(os.dup(sys.stdout.fileno()), readable=False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: dict) -> None:
        replies.send_bytes(json.dumps(message).encode())

    def receive() -> dict:
        try:
            return json.loads(requests.recv_bytes())
        except EOFError:
            sys.exit()

    def ask(question: dict) -> dict:
        send({"ask": question})
        return receive()

    judge = Judge(ask, receive(), programs.answer)
    gc.freeze()  # what the lesson has made stays: no collection need look at it
    send({"ready": True})
    while True:
        message = receive()
        if "check" in message:
            programs.wall_s = message["wall_s"]
            send(judge.check(message["check"], message["to_beat"]))
        elif "keeps" in message:
            send({"known": known_results.encode(judge.context.known)})
        else:
            programs.begin_submission()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)  # an ordinary exit would wait for the process of programs
