"""Takes a learner's answers out of a submission and sets them into a clean lesson."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from grader.authoring.release import (
    CHECK_PREFIX,
    exercises,
    nbgrader_metadata,
    release,
)
from grader.submissions.cell_recognition import (
    choose,
    claimed,
    code_of,
    defines,
    ids,
    is_check,
    is_code,
)
from grader.submissions.definitions import added_definitions, defined


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a learner wrote.

    Attributes:
        exercises: source of each exercise's cell, by exercise.
        extras: code cells the learner added: (id of the lesson's cell before, source).
        notes: what had to be guessed or put back, in plain words.
    """

    exercises: dict[str, str]
    extras: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def extract_answers(submitted: NotebookNode, lesson: NotebookNode) -> Answers:
    """Takes a learner's answers to `lesson` out of their notebook.

    An exercise's cell is known by its id, else by the comment in its first lines, else
    by the function that it defines.
    """
    released, cells = release(lesson), list(submitted.cells)
    stubs = {name: cell.source for name, cell in exercises(released).items()}
    claims = [claimed(cell, stubs) for cell in cells]
    choices = {n: choose(n, cells, claims, stub) for n, stub in stubs.items()}
    taken = {i: "" for choice in choices.values() for i in choice.dropped}
    taken |= {choice.cell: name for name, choice in choices.items()}
    notes = [choice.note for choice in choices.values() if choice.note]
    lost = [name for name, choice in choices.items() if choice.lost_id]
    if lost:
        how = "were known by their comment or function, as their ids were lost"
        notes.append(f"The cells of {', '.join(lost)} {how}.")
    extras = []
    for anchor, source, changed in extras_of(cells, lesson, released, taken):
        extras.append((anchor, source))
        if changed:
            said = f"The lesson's own cell {anchor} was changed; the original ran,"
            notes.append(f"{said} and then what was defined in it beside.")
    return Answers(
        {name: cells[c.cell].source for name, c in choices.items() if c.cell >= 0},
        tuple(extras),
        tuple(notes),
    )


def extras_of(
    cells: list[NotebookNode],
    lesson: NotebookNode,
    released: NotebookNode,
    taken: dict[int, str],
) -> Iterator[tuple[str, str, bool]]:
    """Finds the code that learners added.

    Yields the lesson's cell before it, the code, and whether it was written into that
    cell. `taken` names the answers by their position; "" stands for a copy to leave
    out.
    """
    known = [*lesson.cells, *released.cells]
    ours = {
        cell.id: cell.source
        for cell in lesson.cells
        if is_code(cell) and not is_answer_or_check(cell)
    }
    names = {name for source in ours.values() for name in defined(source)}
    order = {cell.id: place for place, cell in reversed([*enumerate(known)])}
    originals = {
        code_of(c): c.id
        for c in reversed(known)
        if not nbgrader_metadata(c).get("solution")
    }
    whole = {originals.get(code_of(cell), "") for cell in cells}
    anchor = ""
    for position, cell in enumerate(cells):
        name = taken.get(position, anchor_of(cell, originals, whole))
        whole.add(name)
        if name and order[name] >= order.get(anchor, 0):
            anchor = name
        if name in ours and code_of(cell) not in originals:
            added = added_definitions(cell.source, ours[name], names)
            if added:
                yield name, added, True
        if not name and position not in taken and is_code(cell):
            if cell.source.strip():
                yield anchor, cell.source, False


def is_answer_or_check(cell: NotebookNode) -> bool:
    """Tells the cells of exercises and checks from a lesson's others."""
    return any(nbgrader_metadata(cell).get(mark) for mark in ("solution", "grade"))


def anchor_of(cell: NotebookNode, originals: dict[str, str], whole: set[str]) -> str:
    """Names the lesson's cell that a submitted cell is, or "" for a learner's own.

    `originals` names the lesson's cells by their code. A cell that has the id of one of
    those in `whole`, but other code, is a copy that the learner made something else of.
    """
    named = [name for name in ids(cell) if name in originals.values()]
    if code_of(cell) in originals:
        return named[0] if named else originals[code_of(cell)]
    for name in originals.values():
        exercise = name.removeprefix(CHECK_PREFIX)
        if exercise != name and is_check(cell, exercise):
            return name
    return next((name for name in named if name not in whole), "")


def is_other_lesson(submitted: NotebookNode, lesson: NotebookNode) -> bool:
    """Tells whether none of a lesson's exercises can be found in a notebook."""
    names = list(exercises(lesson))
    return not any(
        claimed(cell, names) or any(defines(cell, name) for name in names)
        for cell in submitted.cells
    )


def fill_in(lesson: NotebookNode, answers: Answers) -> NotebookNode:
    """Sets answers into a clean lesson, whose checks then hold their hidden tests.

    An exercise without an answer gets its stub.
    """
    clean = copy.deepcopy(lesson)
    stubs = exercises(release(lesson))
    for name, cell in exercises(clean).items():
        cell.source = answers.exercises.get(name, stubs[name].source)
    cells = list(extra_cells(answers, ""))
    for cell in clean.cells:
        cells += [cell, *extra_cells(answers, cell.id)]
    clean.cells = cells
    return clean


def extra_cells(answers: Answers, anchor: str) -> Iterable[NotebookNode]:
    """Makes cells of what a learner added behind the lesson's cell `anchor`."""
    for position, (before, source) in enumerate(answers.extras):
        if before == anchor:
            yield NotebookNode(
                cell_type="code",
                id=f"extra-{position}",
                metadata={},
                execution_count=None,
                outputs=[],
                source=source,
            )
