"""The judge's `observe`: asks about a function that lives in another process."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import ChainMap
from collections.abc import Callable, Mapping
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
from grader.judging.observation_reader import (
    decode_observation,
    loads,
    read_changed,
    text,
)
from grader.judging.program_children import ChildEnded
from grader.judging.program_facts import decode_facts
from grader.judging.program_runner import ProgramRunner
from grader.kernel.inside.wire import WireError, decode, encode

MAX_KNOWN = 2**26  # bytes of what programs have computed that a judge keeps
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


def distrusted(name: str, why: object) -> NoObservation:
    """Says that the program of a function is none that honest code makes."""
    text = str(why)[:MAX_REASON].rstrip(".")
    return NoObservation(
        "distrusted", f"The program of {name} cannot be trusted: {text}."
    )


class Remote:
    """Stands for a learner's function; only its name crosses the line."""

    def __init__(self, name: str):
        self.__name__ = name


class Observer:
    """Makes observations by questions that `ask` carries to the learner's process.

    `ask` takes a question and returns {"answer": text} or {"ended": why}. `running` is
    told when a program starts and ends. `run_program` looks at one, or runs it: by
    default in this process; see `ProgramRunner`. What programs of our own have computed
    is in `trusted`, which is read and not written.
    """

    def __init__(
        self,
        ask: Callable[[dict], dict],
        running: Callable[[bool], None],
        run_program: Callable[[dict, bool], dict] | None = None,
        trusted: Mapping[str, dict[str, Any]] | None = None,
    ):
        self.ask = ask
        self.running = running
        self.run_program = run_program or ProgramRunner().answer
        self.own: dict[str, dict[str, Any]] = {}  # what programs have computed
        self.known = ChainMap(self.own, {} if trusted is None else trusted)
        self.exported: dict[str, list[dict[str, Any]]] = {}  # since a check began

    def observe(
        self,
        function: Callable | Remote,
        *arguments: Any,
        traced: bool = False,
        compiled: bool = False,
        axis: str | None = None,
    ) -> Observation:
        """Reports what one call did; see `observe` in lessons/coursekit/observe.py.

        With `traced` or `compiled`, the value and the facts of the program come from
        the exported program, which runs here on these arguments; the learner's process
        exports it before it sees them. The program also tells into which pieces arrays
        are cut. Which devices hold them only the call can tell: an exported program
        knows devices by their number alone. So the call's own layout is believed where
        it claims no more and no smaller pieces than the program makes. Under an axis
        the layout is `pmap`'s, and a call of what can be exported is not made.

        Where JAX cannot trace the function, nothing is known of a program, and value
        and layout are the call's own, as without `traced`: a check for which that is
        too little asks for a fact of the program.
        """
        name = function.__name__  # what it means there, the learner's process knows
        call = describe_call(name, arguments, axis)
        traced = traced or compiled
        program = None
        if traced:
            program, changed = self.program(name, list(arguments), axis, compiled)
            if changed is not None:
                found = self.outcome(*program)
                return Observation(name, call, changed=changed, **found)
        reply = self.question("call", name, encode(list(arguments)), axis)
        if "uncounted" in reply:
            raise NoObservation(
                "distrusted", f"{name}: JAX's count of compiled programs was changed."
            )
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
        # What the learner's process reports is believed where it costs the learner.
        changed = {*seen.changed} | {
            position
            for position, (before, now) in enumerate(zip(arguments, after, strict=True))
            if not same(plain(before), plain(now))
        }
        facts = {**vars(seen), "changed": tuple(sorted(changed))}
        if program is None or seen.error is not None:
            return Observation(**facts)
        if isinstance(program, str):
            return Observation(**facts | {"refused": program})
        found = self.outcome(*program)
        return Observation(**facts | found | {"layout": layout(seen, found)})

    def outcome(self, key: str, question: dict | None) -> dict[str, Any]:
        """Returns what a program computes, and facts about it; it runs once.

        In a class many answers make the same program, and a program is a pure function.
        """
        if key in self.known:
            return self.known[key]
        answer = self.answer(question, looks=False)
        if "fails" in answer:
            problem = f"The traced program fails: {answer['fails']}."
            raise NoObservation("unreadable", problem)
        try:
            self.own[key] = decode_facts(answer)
        except WireError as error:
            raise distrusted(question["function"], error) from None
        while sum(map(size, self.own.values())) > MAX_KNOWN and len(self.own) > 1:
            del self.own[next(iter(self.own))]
        return self.known[key]

    def program(
        self, name: str, arguments: list, axis: str | None, compiled: bool
    ) -> tuple[tuple[str, dict | None] | str, tuple[int, ...] | None]:
        """Asks for the traced program and its result's structure, or why there is none.

        Returns the key under which `outcome` knows it, and the question to run it;
        where it is known, there is no need to look at it again. Also which arguments
        tracing has changed, where a call would tell no more.
        """
        asked = encode(arguments, shapes_only=True)
        reply = self.export(name, asked, axis)
        try:
            if "refused" in reply:
                return text(reply["refused"], MAX_REASON), None
            question = {part: reply[part] for part in ("program", "result")}
            changed = None
            if axis is not None and "changed" in reply:
                changed = read_changed(reply["changed"])
        except (KeyError, WireError) as error:
            raise distrusted(name, error) from None
        question |= {"kept": reply.get("kept"), "arguments": encode(arguments)}
        question |= {"compiled": compiled, "axis": axis}
        key = hashlib.sha256(json.dumps(question).encode()).hexdigest()
        if key in self.known:
            return (key, None), changed
        question["function"] = name
        self.answer(question, looks=True)
        return (key, question), changed

    def export(self, name: str, asked: Any, axis: str | None) -> dict[str, Any]:
        """Asks for a program, until two answers in a row were the same.

        A function that remembers a call gives another program after the first one.
        """
        replies = self.exported.setdefault(json.dumps([name, asked, axis]), [])
        if len(replies) < 2 or replies[-1] != replies[-2]:
            reply = self.question("program", name, asked, axis)
            replies.append({key: reply[key] for key in reply if key != "id"})
        return replies[-1]

    def answer(self, question: dict[str, Any], looks: bool) -> dict[str, Any]:
        """Lets a program be looked at, or run."""
        name = question["function"]
        try:
            self.running(True)
            answer = self.run_program(question, looks)
        except ChildEnded as end:
            raise NoObservation(f"program {end}", "") from None
        except WireError as error:
            raise distrusted(name, error) from None
        finally:
            self.running(False)
        if "distrusted" in answer:
            raise distrusted(name, answer["distrusted"])
        if "broken" in answer:
            raise RuntimeError(str(answer["broken"])[:MAX_REASON])
        return answer

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
            raise NoObservation("missing", f"{name} is not defined.", name)
        return reply


def layout(seen: Observation, found: dict[str, Any]) -> dict[str, tuple[Shard, ...]]:
    """Tells where arrays lie: as a call claims, as far as its program bears it out.

    An array that the call returned on the host lies on no device.
    """
    claimed, computed = dict(leaves(seen.value)), dict(leaves(found["value"]))
    layout = {}
    for path, pieces in found["layout"].items():
        if np.shape(claimed.get(path)) != np.shape(computed[path]):
            layout[path] = pieces
        elif path in seen.layout:
            layout[path] = believed(seen.layout[path], pieces)
    return layout


def believed(
    claimed: tuple[Shard, ...], pieces: tuple[Shard, ...]
) -> tuple[Shard, ...]:
    """Chooses a call's claim, unless it has more or smaller pieces than its program."""
    no_smaller = all(any(holds(one, piece) for one in claimed) for piece in pieces)
    return claimed if len(claimed) <= len(pieces) and no_smaller else pieces


def holds(shard: Shard, other: Shard) -> bool:
    """Tells whether a shard's part of an array contains another one's."""
    pairs = zip(shard.index, other.index, strict=True)
    return all(
        start <= first and last <= stop for (start, stop), (first, last) in pairs
    )


def size(facts: dict[str, Any]) -> int:
    """Counts the bytes of the arrays in what a program has computed."""
    arrays = (leaf for _, leaf in leaves(facts["value"]))
    return sum(leaf.nbytes for leaf in arrays if isinstance(leaf, np.ndarray))
