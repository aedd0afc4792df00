"""Recognises a lesson's cells in a submission without ids, metadata or types."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from nbformat import NotebookNode

from grader.authoring.release import CHECK_PREFIX, nbgrader_metadata

FIRST_LINES = 10


def ids(cell: NotebookNode) -> list[str]:
    """Lists what a cell is called: its grade id, then its id."""
    names = (nbgrader_metadata(cell).get("grade_id"), cell.get("id"))
    return [name for name in names if isinstance(name, str)]


def code_of(cell: NotebookNode | str) -> str:
    """Returns a cell's text without spaces and line ends, by which cells compare."""
    return "".join((cell if isinstance(cell, str) else cell.source).split())


def claimed(cell: NotebookNode, names: Collection[str]) -> str:
    """Names the exercise that a cell says it answers, by id or by comment; or ""."""
    for name in ids(cell):
        if name in names:
            return name
    lines = cell.source.split("\n", FIRST_LINES)[:FIRST_LINES]
    comments = (re.fullmatch(r"\s*#\s*exercise:\s*(\w+)\s*", line) for line in lines)
    return next((c[1] for c in comments if c and c[1] in names), "")


def defines(cell: NotebookNode, name: str) -> bool:
    """Tells whether a code cell defines a function of that name."""
    pattern = rf"(?m)^(?:async[ \t]+)?def[ \t]+{name}[ \t]*[(\[]"
    return is_code(cell, name) and bool(re.search(pattern, cell.source))


def assigns(cell: NotebookNode, name: str) -> bool:
    """Tells whether a code cell gives the name a value, as in `f = jax.pmap(g)`."""
    pattern = rf"(?m)^{name}[ \t]*(?::[^=\n]+)?=(?!=)"
    return is_code(cell, name) and bool(re.search(pattern, cell.source))


def is_code(cell: NotebookNode, name: str = "") -> bool:
    """Tells whether a cell is a code cell in which `name` stands."""
    return cell.get("cell_type") == "code" and name in cell.source


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which cell of a submission answers one exercise.

    Attributes:
        cell: its position; -1: there is none.
        dropped: positions of other cells for it, which are not to run.
        note: what had to be guessed, or "".
        lost_id: whether no cell has the exercise's id any more.
    """

    cell: int
    dropped: tuple[int, ...] = ()
    note: str = ""
    lost_id: bool = False


def choose(
    name: str, cells: list[NotebookNode], claims: list[str], stub: str
) -> Choice:
    """Chooses the cell that answers an exercise; `claims` is what `claimed` says.

    Of several that carry its id or comment it is the last one that was worked on. A
    cell that only defines the function counts where none of those was, or where it
    stands between them and the check: there it was what the check saw.
    """
    own = [i for i, claim in enumerate(claims) if claim == name]
    free = [i for i, claim in enumerate(claims) if not claim or not own]
    loose = [i for i in free if defines(cells[i], name)]
    weak = [i for i in free if assigns(cells[i], name) and not own]
    code = [i for i in own if is_code(cells[i])]

    def worked_on(places: list[int]) -> list[int]:
        unworked = ("", code_of(f"# exercise: {name}"), code_of(stub))
        return [i for i in places if code_of(cells[i]) not in unworked]

    whole = [i for i in code if defines(cells[i], name) or assigns(cells[i], name)]
    whole = worked_on(whole)
    check = next((i for i, c in enumerate(cells) if is_check(c, name)), -1)
    nearer = [i for i in worked_on(loose) if whole and whole[-1] < i < check]
    kinds = (nearer, whole, worked_on(loose), worked_on(code), worked_on(own))
    kinds += (own[:1], loose[:1], worked_on(weak))
    cell = next((places[-1] for places in kinds if places), -1)
    if cell < 0:
        return Choice(cell, note=f"The cell of {name} is missing.")
    # What was split off an answer stays, and what a nearer definition may build on.
    kept = [i for i in worked_on(code) if i not in whole or cell not in own]
    first = min([*own, cell])
    again = [i for i in loose if i > first and not claims[i]]
    dropped = {i for i in own if i not in kept} | set(again)
    lost_id = not any(name in ids(cells[i]) for i in (*own, cell))
    note = note_on(name, len(own), bool(worked_on(own)))
    if cell in own and cell not in code:
        note = note or f"The cell of {name} is a text cell; its text was taken as code."
    elif own and cell not in own:
        note = f"{name} has a second definition, in another cell; that one counts."
    return Choice(cell, tuple(sorted(dropped - {cell})), note, lost_id)


def note_on(name: str, copies: int, worked_on: bool) -> str:
    """Says which of several cells for one exercise counts; "" for a single one."""
    counts = "the last one that was worked on counts"
    if not worked_on:
        counts = "none of them was worked on"
    return f"{name} has {copies} cells; {counts}." if copies > 1 else ""


def is_check(cell: NotebookNode, name: str) -> bool:
    """Tells whether a cell is an exercise's check, as it was or changed.

    A cell in which a learner calls the check below code of their own is none.
    """
    call = re.fullmatch(rf"\s*check\(\s*[\"']{name}[\"'].*\s*", cell.source)
    return CHECK_PREFIX + name in ids(cell) or bool(call)
