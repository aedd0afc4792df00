"""The judge's `observe`: asks about a function that lives in another process."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from coursekit.observation import Observation, describe_call, leaves, plain, same
from grader.judging.exported_program import Program, ProgramError
from grader.judging.observation_reader import decode_observation, loads
from grader.kernel.inside.wire import WireError, decode, encode

MAX_KNOWN = 2**26  # bytes of what programs have computed that a judge keeps


class NoObservation(BaseException):
    """Ends a check that has nothing to check; no `except Exception` in it helps.

    Attributes:
        kind: what happened: "missing", "died", "timed out", "unreadable" or
            "distrusted".
    """

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class Remote:
    """Stands for a learner's function; only its name crosses the line."""

    def __init__(self, name: str):
        self.__name__ = name


class Observer:
    """Makes observations by questions that `ask` carries to the learner's process.

    `ask` takes a question and returns {"answer": text} or {"ended": why}. `running` is
    told when an untrusted program starts and ends in this process.
    """

    def __init__(self, ask: Callable[[dict], dict], running: Callable[[bool], None]):
        self.ask = ask
        self.running = running
        self.known: dict[str, dict[str, Any]] = {}  # what programs have computed

    def observe(
        self,
        function: Remote,
        *arguments: Any,
        traced: bool = False,
        compiled: bool = False,
        axis: str | None = None,
    ) -> Observation:
        """Reports what one call did; see `observe` in lessons/observe.py.

        With `traced` or `compiled`, value and layout come from the exported program,
        which runs here on these arguments; the learner's process exports it before it
        sees them.
        """
        if not isinstance(function, Remote):
            raise TypeError("observe takes a learner's function, by its name")
        name = function.__name__
        call = describe_call(name, arguments, axis)
        traced = traced or compiled
        program = None
        if traced:
            program = self.program(name, list(arguments), axis, compiled)
        reply = self.question("call", name, encode(list(arguments)), axis)
        if "unreadable" in reply:
            raise NoObservation(
                "unreadable", f"{name} returned what cannot be looked at."
            )
        try:
            seen = decode_observation(reply.get("seen"), name, call)
            after = decode({"list": reply.get("after")})
            if len(after) != len(arguments):
                raise WireError("The answer has other arguments.")
        except WireError as error:
            raise NoObservation("distrusted", f"{name}: {error}") from None
        changed = (
            position
            for position, (before, now) in enumerate(zip(arguments, after, strict=True))
            if not same(plain(before), plain(now))
        )
        facts = {**vars(seen), "changed": tuple(changed)}
        if not traced or seen.error is not None:
            return Observation(**facts)
        facts["layout"] = {}
        if program is not None:
            facts |= self.outcome(*program, compiled)
        return Observation(**facts)

    def outcome(
        self, key: str, program: Program | None, result: Any, compiled: bool
    ) -> dict[str, Any]:
        """Returns what a program computes, and facts about it; it runs once.

        In a class many answers make the same program, and a program is a pure function.
        """
        if key in self.known:
            return self.known[key]
        try:
            self.running(True)
            value, layout = program.run(result)
            found = program.compiled_facts() if compiled else program.facts
        except ProgramError as error:
            text = f"The traced program fails: {error}."
            raise NoObservation("unreadable", text) from None
        finally:
            self.running(False)
        self.known[key] = {**found, "value": value, "layout": layout}
        while sum(map(size, self.known.values())) > MAX_KNOWN and len(self.known) > 1:
            del self.known[next(iter(self.known))]
        return self.known[key]

    def program(
        self, name: str, arguments: list, axis: str | None, compiled: bool
    ) -> tuple[str, Program | None, Any] | None:
        """Asks for the traced program and its result's structure; None: no program.

        The first is the key under which `outcome` knows it; where it does, there is no
        need to look at it again.
        """
        asked = encode(arguments, shapes_only=True)
        reply = self.question("program", name, asked, axis)
        if "refused" in reply:
            return None
        try:
            parts = [reply["program"], reply["result"], encode(arguments), compiled]
            key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
            if key in self.known:
                return key, None, None
            result = decode(reply["result"], plain=True)
            if any(isinstance(leaf, np.ndarray) for _, leaf in leaves(result)):
                raise WireError("The answer holds an array that no program computes.")
            self.running(True)
            return key, Program(reply["program"], arguments), result
        except (KeyError, TypeError, ValueError, ProgramError) as error:
            text = f"The program of {name} cannot be trusted: {str(error).rstrip('.')}."
            raise NoObservation("distrusted", text) from None
        finally:
            self.running(False)

    def question(
        self, kind: str, name: str, arguments: Any, axis: str | None
    ) -> dict[str, Any]:
        """Asks one question and reads its answer.

        Raises:
            NoObservation: there is none, or it has a form that ours never has.
        """
        number = secrets.token_hex(8)
        question = {"ask": kind, "function": name, "arguments": arguments}
        question |= {"axis": axis, "id": number}
        outcome = self.ask(question)
        if "ended" in outcome:
            timed_out = outcome["ended"] == "timed out"
            raise NoObservation("timed out" if timed_out else "died", outcome["ended"])
        try:
            reply = loads(outcome["answer"])
            if reply.get("id") != number:
                raise WireError("The answer belongs to another question.")
        except WireError as error:
            raise NoObservation("distrusted", f"{name}: {error}") from None
        if "missing" in reply:
            raise NoObservation("missing", f"{name} is not defined.")
        return reply


def size(facts: dict[str, Any]) -> int:
    """Counts the bytes of the arrays in what a program has computed."""
    arrays = (leaf for _, leaf in leaves(facts["value"]))
    return sum(leaf.nbytes for leaf in arrays if isinstance(leaf, np.ndarray))
