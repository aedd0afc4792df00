"""The judge's `observe`: asks about a function that lives in another process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from facts import Observation, describe_call, leaves, plain, same
from grader.observed import decode_observation, loads
from grader.programs import Program, ProgramError
from grader.wire import WireError, decode, encode


class Verdict(BaseException):
    """Ends a check from inside `observe`; no `except Exception` of a check holds it.

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
    told when a stranger's program starts and ends in this process.
    """

    def __init__(self, ask: Callable[[dict], dict], running: Callable[[bool], None]):
        self.ask = ask
        self.running = running

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
        program = self.program(name, list(arguments), axis) if traced else None
        reply = self.question("call", name, encode(list(arguments)), axis)
        if "unreadable" in reply:
            raise Verdict("unreadable", f"{name} returned what cannot be looked at.")
        try:
            seen = decode_observation(reply.get("seen"), name, call)
            after = decode({"list": reply.get("after")})
            if len(after) != len(arguments):
                raise WireError("The answer has other arguments.")
        except WireError as error:
            raise Verdict("distrusted", f"{name}: {error}") from None
        changed = (
            position
            for position, (before, now) in enumerate(zip(arguments, after, strict=True))
            if not same(plain(before), plain(now))
        )
        facts = {**vars(seen), "changed": tuple(changed)}
        if not traced or seen.error is not None:
            return Observation(**facts)
        facts["layout"] = {}
        if program is None:
            return Observation(**facts)
        try:
            self.running(True)
            facts["value"], facts["layout"] = program[0].run(program[1])
            facts |= program[0].compiled_facts() if compiled else program[0].facts
        except ProgramError as error:
            text = f"The traced program fails: {error}."
            raise Verdict("unreadable", text) from None
        finally:
            self.running(False)
        return Observation(**facts)

    def program(
        self, name: str, arguments: list, axis: str | None
    ) -> tuple[Program, Any] | None:
        """Asks for the traced program and its result's structure; None: no program."""
        reply = self.question(
            "program", name, encode(arguments, shapes_only=True), axis
        )
        if "refused" in reply:
            return None
        try:
            result = decode(reply["result"], plain=True)
            if any(isinstance(leaf, np.ndarray) for _, leaf in leaves(result)):
                raise WireError("The answer holds an array that no program computes.")
            self.running(True)
            return Program(reply["program"], arguments), result
        except (KeyError, TypeError, ValueError, ProgramError) as error:
            text = f"The program of {name} cannot be trusted: {str(error).rstrip('.')}."
            raise Verdict("distrusted", text) from None
        finally:
            self.running(False)

    def question(
        self, kind: str, name: str, arguments: Any, axis: str | None
    ) -> dict[str, Any]:
        """Asks one question and reads its answer.

        Raises:
            Verdict: there is none, or it has a form that ours never has.
        """
        number = secrets.token_hex(8)
        question = {"ask": kind, "function": name, "arguments": arguments}
        question |= {"axis": axis, "id": number}
        outcome = self.ask(question)
        if "ended" in outcome:
            timed_out = outcome["ended"] == "timed out"
            raise Verdict("timed out" if timed_out else "died", outcome["ended"])
        try:
            reply = loads(outcome["answer"])
            if reply.get("id") != number:
                raise WireError("The answer belongs to another question.")
        except WireError as error:
            raise Verdict("distrusted", f"{name}: {error}") from None
        if "missing" in reply:
            raise Verdict("missing", f"{name} is not defined.")
        return reply
