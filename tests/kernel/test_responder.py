"""Where memory is scarce, a check begins without earlier programs, and judges alike."""

import json

import jax
import numpy as np
import printed
import pytest

from grader.containment.limits import Limits
from grader.kernel.inside import responder
from grader.kernel.inside.responder import free_compiled_programs
from grader.kernel.inside.wire import encode
from grader.kernel.session import Session


def programs() -> int:
    return len(jax.local_devices()[0].client.live_executables())


def test_programs_are_freed_and_still_run(monkeypatch):
    @jax.jit
    def tripled(x):
        return 3 * x

    before = tripled(np.float32(2))
    held = programs()
    monkeypatch.setattr(responder, "ENOUGH_MIB", float("inf"))
    free_compiled_programs()  # there is memory for them
    assert programs() == held
    monkeypatch.setattr(responder, "ENOUGH_MIB", 1)
    free_compiled_programs()
    assert programs() < held
    assert tripled(np.float32(2)) == before


COUNT = "import jax; print(len(jax.local_devices()[0].client.live_executables()))"


@pytest.fixture(scope="module")
def asked(contained_here):
    """A learner's kernel that holds a program, and a way to ask for its calls."""
    with Session(Limits()) as session:
        session.run("import jax\nf = jax.jit(abs)\ng = jax.jit(lambda x: x)")
        session.run("from grader.kernel.inside import responder")
        session.run("responder.ENOUGH_MIB = 1")

        def ask(name, *, begins):
            question = {"ask": "call", "function": name, "axis": None, "id": 1}
            question["arguments"] = encode([np.float32(1)])
            said = session.run(f"responder.answer({json.dumps(question)!r}, {begins=})")
            assert (said.error, len(said.replies)) == ("", 1)
            return json.loads(said.replies[0])["seen"]

        yield ask, lambda: int(printed.run(session, COUNT).text)


def test_a_check_begins_without_the_programs_before(asked):
    ask, count = asked
    first = ask("f", begins=True)
    held = count()
    assert held > 0
    ask("g", begins=False)
    assert count() > held  # the same check still needs them
    ask("g", begins=True)
    assert count() <= held
    assert ask("f", begins=True) == first
