"""The judge's `observe`: asks about a function that lives in another process."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from coursekit.observation import (
    Observation,
    Shard,
    describe_call,
    leaves,
    plain,
    same,
)
from grader.judging.exported_program import ProgramRunner
from grader.judging.observation_reader import (
    Text,
    decode_facts,
    decode_observation,
    fits,
    loads,
    read_changed,
)
from grader.judging.program_process import ProgramEnded
from grader.kernel.inside.wire import WireError, decode, encode, require

MAX_REASON = 1000  # characters


class NoObservation(BaseException):
    """Ends a check that has nothing to check; no `except Exception` in it helps.

    Attributes:
        kind: what happened: "missing", "died", "timed out", "unreadable", "distrusted",
            "program died" or "program timed out".
        function: the name of what is missing.
    """

    def __init__(self, kind: str, message: str, function: str = ""):
        super().__init__(message)
        self.kind, self.function = kind, function


class Remote:
    """Stands for a learner's function; only its name leaves this process."""

    def __init__(self, name: str):
        self.__name__ = name


class Observer:
    """Makes observations by questions to the learner's process.

    `ask` takes a question and returns {"answer": text} or {"ended": why}. `run_program`
    runs a learner's program, by default in this process; see `ProgramRunner`.
    """

    def __init__(
        self,
        ask: Callable[[dict], dict],
        run_program: Callable[[dict], str] | None = None,
    ):
        self.ask, self.run_program = ask, run_program or ProgramRunner().answer
        self.begin_check()

    def begin_check(self) -> None:
        self.exported: dict[str, list[dict[str, Any]]] = {}
        self.raised: set[str] = set()  # the classes of exceptions

    def observe(
        self,
        function: Callable | Remote,
        *arguments: Any,
        traced: bool = False,
        compiled: bool = False,
        axis: str | None = None,
        clean: bool = False,
    ) -> Observation:
        """Reports what one call did; see `observe` in lessons/coursekit/observe.py.

        With `traced` or `compiled`, value and facts come from the exported program,
        which the judge runs on these arguments; the learner's process exports it before
        it sees them. A program does not tell over which devices arrays are sharded, so
        for that the call is believed as far as `believed` says. Under an axis, where
        each device holds its row, what can be exported is not called. Where JAX cannot
        trace the function, value and layout are the call's own, as without `traced`.
        """
        name = function.__name__  # the learner's process knows what it means there
        call = describe_call(name, arguments, axis)
        inputs, program, found = encode(list(arguments)), {"refused": ""}, {}
        if traced or compiled:
            program = self.export(name, arguments, axis)
            question = program | {"arguments": inputs, "compiled": compiled}
            question |= {"axis": axis}
            if axis is not None and "changed" in program:
                found = self.run(name, question)
                return Observation(name, call, changed=program["changed"], **found)
        fails = None
        if "refused" not in program:  # a forged one is found whatever a call does
            try:
                found = self.run(name, question)
            except NoObservation as end:
                if end.kind != "unreadable":
                    raise
                fails = end
        reply = self.question("call", name, inputs, axis, clean)
        seen = self.read_call(reply, name, call, arguments)
        if seen.error is not None:
            self.raised.add(seen.error.kinds[0])
            return seen
        if "refused" in program:
            return dataclasses.replace(seen, refused=program["refused"])
        if fails:
            raise fails
        found |= {"layout": layout(seen, found)}
        return dataclasses.replace(seen, **found)

    def read_call(
        self, reply: dict[str, Any], name: str, call: str, arguments: tuple
    ) -> Observation:
        if "unreadable" in reply:
            problem = f"{name} returned what cannot be looked at."
            raise NoObservation("unreadable", problem)
        try:
            seen = decode_observation(reply.get("seen"), name, call)
            after = decode({"list": reply.get("after")})
            require(len(after) == len(arguments), "other arguments")
        except WireError as error:
            raise NoObservation("distrusted", f"{name}: {error}") from None
        # What the learner's process reports is believed where it costs the learner.
        changed = {*seen.changed} | {
            position
            for position, (before, now) in enumerate(zip(arguments, after, strict=True))
            if not same(plain(before), plain(now))
        }
        return dataclasses.replace(seen, changed=tuple(sorted(changed)))

    def export(self, name: str, arguments: tuple, axis: str | None) -> dict[str, Any]:
        """Asks for the program and its result's structure, or why there is none.

        A function that remembers a call gives another program after the first one. So
        the judge asks until two answers in a row are the same.
        """
        asked = encode(list(arguments), shapes_only=True)
        replies = self.exported.setdefault(json.dumps([name, asked, axis]), [])
        if len(replies) < 2 or replies[-1] != replies[-2]:
            reply = self.question("program", name, asked, axis)
            try:
                replies.append(read_program(reply))
            except WireError as error:
                raise distrusted(name, error) from None
        return replies[-1]

    def run(self, name: str, question: dict[str, Any]) -> dict[str, Any]:
        """Returns what a program computes, and facts about it."""
        try:
            answer = loads(self.run_program(question))
            if "distrusted" in answer:
                raise distrusted(name, answer["distrusted"])
            if "broken" in answer:
                raise RuntimeError(str(answer["broken"])[:MAX_REASON])
            if "fails" not in answer:
                return decode_facts(answer)
            why = str(answer["fails"])
        except ProgramEnded as end:
            raise NoObservation(f"program {end}", "") from None
        except WireError as error:
            why = str(error)
        why = why[:MAX_REASON].rstrip(".")
        raise NoObservation("unreadable", f"The traced program fails: {why}.")

    def question(
        self,
        kind: str,
        name: str,
        arguments: Any,
        axis: str | None,
        clean: bool = False,
    ) -> dict[str, Any]:
        number = secrets.token_hex(8)
        question = {"ask": kind, "function": name, "arguments": arguments}
        question |= {"axis": axis, "id": number, "clean": clean}
        outcome = self.ask(question)
        if "ended" in outcome:
            timed_out = outcome["ended"] == "timed out"
            raise NoObservation("timed out" if timed_out else "died", outcome["ended"])
        try:
            reply = loads(outcome["answer"])
            require(reply.get("id") == number, "the number of another question")
        except WireError as error:
            raise NoObservation("distrusted", f"{name}: {error}") from None
        if "missing" in reply:
            raise NoObservation("missing", f"{name} is not defined.", name)
        return reply


def read_program(reply: dict[str, Any]) -> dict[str, Any]:
    """Keeps what an honest process answers: a program, or why there is none."""
    if "refused" in reply:
        require(fits(reply["refused"], Text(MAX_REASON)), "no reason")
        return {"refused": reply["refused"]}
    require({"program", "result"} <= reply.keys(), "no program")
    found = {part: reply.get(part) for part in ("program", "result")}
    if "changed" in reply:
        found["changed"] = read_changed(reply["changed"])
    return found


def distrusted(name: str, why: object) -> NoObservation:
    why = str(why)[:MAX_REASON].rstrip(".")
    message = f"The program of {name} cannot be trusted: {why}."
    return NoObservation("distrusted", message)


def layout(seen: Observation, found: dict[str, Any]) -> dict[str, tuple[Shard, ...]]:
    """Chooses between the shards that a call claims and those that its program makes.

    An array that the call returned on the host is on no device.
    """
    claimed, computed = dict(leaves(seen.value)), dict(leaves(found["value"]))
    layout = {}
    for path, shards in found["layout"].items():
        if np.shape(claimed.get(path)) != np.shape(computed[path]):
            layout[path] = shards
        elif path in seen.layout:
            layout[path] = believed(seen.layout[path], shards)
    return layout


def believed(
    claimed: tuple[Shard, ...], shards: tuple[Shard, ...]
) -> tuple[Shard, ...]:
    """Chooses a call's claim, unless it has more or smaller shards than its program."""
    no_smaller = all(any(holds(one, shard) for one in claimed) for shard in shards)
    return claimed if len(claimed) <= len(shards) and no_smaller else shards


def holds(shard: Shard, other: Shard) -> bool:
    """Tells whether a shard's part of an array contains another one's."""
    pairs = zip(shard.index, other.index, strict=True)
    return all(
        start <= first and last <= stop for (start, stop), (first, last) in pairs
    )
