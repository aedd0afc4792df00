"""Looks at an untrusted exported program, and runs it; answers in plain JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from coursekit.observation import leaves
from grader.judging.exported_program import Program, ProgramError
from grader.judging.observation_reader import loads
from grader.judging.program_facts import decode_facts, encode_facts
from grader.kernel.inside.wire import WireError, decode


class ProgramRunner:
    """Answers questions about programs, wherever this process may be.

    A question is a JSON object: "program" is its text, "arguments" what it runs on,
    "result" the structure of what it returns, "kept" and "axis" are as in `Program`;
    "compiled" asks for the facts of the compiled program.
    """

    def __init__(self):
        self.known: tuple[tuple, Program] | None = None  # the last one, by its text

    def answer(self, question: dict[str, Any], looks: bool) -> dict[str, Any]:
        """Looks at the program, or else runs it.

        Returns {"distrusted": why} or {"fails": why}; {"broken": what} where the fault
        is ours; else {}, or what `encode_facts` writes of a program that has run.
        """
        try:
            program = self.program(question)
        except (WireError, ProgramError) as error:
            return {"distrusted": str(error)}
        except Exception as error:
            return {"broken": f"{type(error).__name__}: {error}"}
        try:
            return {} if looks else self.run(program, question)
        except WireError:
            return {"fails": "its result is too large"}
        except ProgramError as error:
            return {"fails": str(error)}
        except MemoryError:
            return {"fails": "it needs more memory than it gets"}
        except Exception as error:
            return {"broken": f"{type(error).__name__}: {error}"}

    def program(self, question: dict[str, Any]) -> Program:
        """Reads the program of a question.

        Raises:
            WireError, ProgramError: it cannot be trusted.
        """
        result = decode(question["result"], plain=True)
        if any(isinstance(leaf, np.ndarray) for _, leaf in leaves(result)):
            raise WireError("The answer holds an array that no program computes.")
        arguments = decode(question["arguments"])
        key = text, kept, axis = tuple(question[p] for p in ("program", "kept", "axis"))
        known, program = self.known or (None, None)
        if known != key or not program.takes(arguments):
            program = Program(text, arguments, kept, axis)
        self.known = key, program
        return program

    def run(self, program: Program, question: dict[str, Any]) -> dict[str, Any]:
        """Runs a program and writes what it did."""
        value, layout = program.run(decode(question["result"], plain=True))
        compiled = question["compiled"]
        facts = program.compiled_facts() if compiled else program.facts
        answer = loads(json.dumps(encode_facts(facts, value, layout)))
        decode_facts(answer)  # raises for what the judge would refuse
        return answer
