"""Finds a learner's answers in a submission and fills them into a clean lesson.

An exercise's cell is recognised by its id, else by the comment in its first lines, else
by the function that it defines: front ends lose ids and metadata.
"""

from __future__ import annotations

import collections
import copy
import functools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from grader.lessons.release import (
    CHECK_PREFIX,
    exercises,
    nbgrader_metadata,
    release,
    title,
)
from grader.submissions.clean_text import quoted
from grader.submissions.definitions import additions

FIRST_LINES = 10  # of a cell, in which the comment with its exercise may be
MAX_NAMED = 5  # cells or packages in one note


@dataclass(frozen=True)
class Answers:
    """What a learner wrote.

    Attributes:
        exercises: source of each exercise's cell, by exercise.
        extras: code cells the learner added: (id of the lesson's cell before, source).
        notes: what had to be guessed or restored, in plain words.
        changes: what the lesson's own cells hold in addition: (id of the cell, source).
        left_out: code cells that do not count, such as earlier attempts.
    """

    exercises: dict[str, str]
    extras: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """All code that may run."""
        placed = (source for _, source in (*self.changes, *self.extras))
        return [*self.exercises.values(), *placed, *self.left_out]


def extract_answers(submitted: NotebookNode, lesson: NotebookNode) -> Answers:
    """Extracts a learner's answers to `lesson` from their notebook."""
    released, cells = release(lesson), list(submitted.cells)
    stubs = {name: cell.source for name, cell in exercises(released).items()}
    marked = [marked_exercise(cell, stubs) for cell in cells]
    for place, cell in enumerate(cells):
        if marked[place] and not is_code(cell):
            cells[place] = copy.copy(cell)
            cells[place].source = unfenced(cell.source)
    found = {n: find_answer(n, cells, marked, stub) for n, stub in stubs.items()}
    notes = [one.note for one in found.values() if one.note]
    places = {n: one.place for n, one in found.items() if one.place is not None}
    known = {name for cell in cells for name in ids(cell)}
    if lost := [name for name in places if name not in known]:
        notes.append(
            f"The cells of {', '.join(lost)} were known by their comment or function, "
            "as their ids were lost."
        )
    roles = {place: "" for one in found.values() for place in one.dropped}
    roles |= {place: name for name, place in places.items()}
    for name, one in found.items():
        if any(not roles[place] and not marked[place] for place in one.dropped):
            notes.append(f"A later cell that defines {name} again was left out.")
    code, changed = collections.defaultdict(list), []
    own = {cell.id: cell for cell in released.cells}
    for kind, anchor, cell, source in added_code(cells, lesson, released, roles):
        code[kind].append((anchor, source))
        if kind == "change" and is_changed(cell, own[anchor]):
            changed.append(first_line(cell.source))
    if changed:
        text = f"Changed cells of the lesson: {', '.join(changed[:MAX_NAMED])}"
        text += f" and {len(changed) - MAX_NAMED} more" * (len(changed) > MAX_NAMED)
        notes.append(f"{text}. The originals ran, and then what was added to them.")
    return Answers(
        {name: cells[place].source for name, place in places.items()},
        tuple(code["extra"]),
        tuple(notes),
        tuple(code["change"]),
        tuple(source for _, source in code["left-out"]),
    )


def fill_in(lesson: NotebookNode, answers: Answers) -> NotebookNode:
    """Fills answers into a copy of the lesson, whose checks keep their hidden tests.

    An exercise without an answer gets its stub.
    """
    clean = copy.deepcopy(lesson)
    stubs = exercises(release(lesson))
    for name, cell in exercises(clean).items():
        cell.source = answers.exercises.get(name, stubs[name].source)
    added = collections.defaultdict(list)  # by the lesson's cell before them
    for kind, pairs in (("change", answers.changes), ("extra", answers.extras)):
        for number, (anchor, source) in enumerate(pairs):
            cell = nbformat.v4.new_code_cell(source, id=f"{kind}-{number}")
            added[anchor].append(cell)
    cells = added[""]
    for cell in clean.cells:
        cells += [cell, *added[cell.id]]
    clean.cells = cells
    return clean


def why_other_lesson(submitted: NotebookNode, lesson: NotebookNode, name: str) -> str:
    """Says that a notebook has none of a lesson's exercises, or ""."""
    names = [*exercises(lesson)]
    for cell in submitted.cells:
        if marked_exercise(cell, names) or any(defines(cell, name) for name in names):
            return ""
    said = [f"This is not lesson {name}: none of its exercises are in it."]
    heading = title(submitted, "")
    if heading and heading != title(lesson, ""):
        said.append(f"Its title is {quoted(heading)}.")
    said.append(f"Submit the notebook that holds {', '.join(names[:3])}.")
    return " ".join(said)


def ids(cell: NotebookNode) -> list[str]:
    """Lists a cell's names: its grade id, then its id."""
    names = (nbgrader_metadata(cell).get("grade_id"), cell.get("id"))
    return [name for name in names if isinstance(name, str)]


def code_of(source: str) -> str:
    """Returns a cell's text without spaces and line ends, to compare cells by."""
    return "".join(source.split())


def marked_exercise(cell: NotebookNode, names: Collection[str]) -> str:
    """Names the exercise that a cell answers by its ids or its comment, or ""."""
    for name in ids(cell):
        if name in names:
            return name
    lines = cell.source.split("\n", FIRST_LINES)[:FIRST_LINES]
    comments = (re.fullmatch(r"\s*#\s*exercise:\s*(\w+)\s*", line) for line in lines)
    return next((c[1] for c in comments if c and c[1] in names), "")


def first_line(source: str) -> str:
    """Quotes a cell's first line, by which a note names the cell."""
    return quoted(source.strip().partition("\n")[0], 40)


def is_code(cell: NotebookNode) -> bool:
    return cell.get("cell_type") == "code"


def defines(cell: NotebookNode, name: str) -> bool:
    return has_line(cell, name, rf"(?:async[ \t]+)?def[ \t]+{name}[ \t]*[(\[]")


def assigns(cell: NotebookNode, name: str) -> bool:
    """Tells whether a code cell assigns to the name, as in `f = jax.pmap(g)`."""
    return has_line(cell, name, rf"{name}[ \t]*(?::[^=\n]+)?=(?!=)")


def has_line(cell: NotebookNode, name: str, pattern: str) -> bool:
    likely = is_code(cell) and name in cell.source  # which is fast
    return likely and bool(re.search(f"(?m)^{pattern}", cell.source))


def is_check(cell: NotebookNode, name: str) -> bool:
    """Tells whether a cell is an exercise's check, in its original form or changed.

    A cell in which a learner calls the check below other code is not.
    """
    call = re.fullmatch(rf"check\(\s*[\"']{name}[\"'].*", cell.source.strip())
    return CHECK_PREFIX + name in ids(cell) or bool(call)


@dataclass(frozen=True)
class AnswerCell:
    """The cell of a submission that answers one exercise.

    Attributes:
        place: its position; None: there is none.
        dropped: positions of other cells for the exercise, which are not to run.
        note: what had to be guessed, or "".
    """

    place: int | None
    dropped: Collection[int] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A cell that may answer an exercise.

    Attributes:
        place: its position.
        cell: itself.
        mark: the exercise that the cell's id or comment names, or "".
        name: the exercise.
        stubs: the code of cells that nobody has worked on.
    """

    place: int
    cell: NotebookNode
    mark: str
    name: str
    stubs: Collection[str]

    @property
    def is_own(self) -> bool:
        return self.mark == self.name

    @functools.cached_property
    def is_worked_on(self) -> bool:
        return code_of(self.cell.source) not in self.stubs

    @functools.cached_property
    def defines(self) -> bool:
        return defines(self.cell, self.name)

    @functools.cached_property
    def assigns(self) -> bool:
        return assigns(self.cell, self.name)

    @property
    def is_whole(self) -> bool:
        """Tells whether it is a worked-on cell of the exercise that defines it."""
        is_answer = self.is_own and self.is_worked_on and is_code(self.cell)
        return is_answer and (self.defines or self.assigns)


def find_answer(
    name: str, cells: list[NotebookNode], marked: list[str], stub: str
) -> AnswerCell:
    """Finds the cell that answers an exercise; `marked` names each cell's exercise.

    Of several that carry its id or comment the last one that was worked on counts. A
    cell that only defines the function counts if none of those was worked on, or if it
    is between them and the check, which then checked it; the cell of another exercise,
    if there is nothing else.
    """
    stubs = {code_of(text) for text in ("", f"# exercise: {name}", stub)}
    given = zip(range(len(cells)), cells, marked, strict=True)
    candidates = [Candidate(*cell, name, stubs) for cell in given]
    own = [cell for cell in candidates if cell.is_own]
    # Cells of other exercises are looked at only where this one has none.
    loose = [cell for cell in candidates if cell.defines and not (own and cell.mark)]
    last = candidates[::-1]
    whole = next((cell.place for cell in last if cell.is_whole), len(cells))
    check = next((i for i, cell in enumerate(cells) if is_check(cell, name)), -1)
    by_preference: list[Callable[[Candidate], bool]] = [
        lambda cell: cell in loose and whole < cell.place < check,
        lambda cell: cell.is_whole,
        lambda cell: cell in loose,
        lambda cell: cell.is_own and is_code(cell.cell),
        lambda cell: cell.is_own,
        lambda cell: own and cell.mark and (cell.defines or cell.assigns),
        lambda cell: not (own or loose) and cell.assigns,
    ]
    fitting = (cell for fits in by_preference for cell in last if fits(cell))
    worked_on = (cell for cell in fitting if cell.is_worked_on)
    counts = next(worked_on, (*own, *loose, None)[0])
    if counts is None:
        return AnswerCell(None, note=f"The cell of {name} is missing.")

    def is_left_out(cell: Candidate) -> bool:
        if cell.is_own:
            # What was split off an answer stays, and what a nearer one may build on.
            is_part = cell.is_worked_on and is_code(cell.cell)
            return not is_part or (cell.is_whole and counts.is_own)
        is_below = cell.place > min(found.place for found in (*own, counts))
        is_again = cell in loose and not cell.mark and not is_check(cell.cell, name)
        return is_below and is_again

    dropped = {cell.place for cell in candidates if is_left_out(cell)} - {counts.place}
    note = ""
    if own and not counts.is_own:
        note = f"{name} has a second definition, in another cell; that one counts."
    elif len(own) > 1 and any(cell.is_worked_on for cell in own):
        note = f"{name} has {len(own)} cells; the last one that was worked on counts."
    elif len(own) > 1:
        note = f"{name} has {len(own)} cells; none of them was worked on."
    elif not is_code(counts.cell):
        note = f"The cell of {name} is a text cell; its text was taken as code."
    return AnswerCell(counts.place, dropped, note)


def added_code(
    cells: list[NotebookNode],
    lesson: NotebookNode,
    released: NotebookNode,
    roles: dict[int, str],
) -> Iterator[tuple[str, str, NotebookNode, str]]:
    """Finds the code that a learner wrote outside of the answers.

    Yields its kind ("extra", "change" or "left-out"), the lesson's cell before it, the
    cell that it is from, and the code. `roles` names the exercise that the cell at a
    position answers; "" stands for a cell to leave out.
    """
    order = {cell.id: place for place, cell in enumerate(lesson.cells)}
    both = [*lesson.cells, *released.cells]
    is_answer = exercises(lesson)
    originals = {code_of(c.source): c.id for c in both[::-1] if c.id not in is_answer}
    stubs = {code_of(cell.source) for cell in exercises(released).values()}
    own = {c.id: c.source for c in lesson.cells if is_code(c) and c.id not in is_answer}
    present = {originals.get(code_of(cell.source), "") for cell in cells}
    anchor = ""
    for place, cell in enumerate(cells):
        name = roles.get(place, lesson_cell(cell, originals, present))
        code = code_of(cell.source)
        present.add(name)
        if name and order[name] >= order.get(anchor, 0):
            anchor = name
        if not is_code(cell) or not code:
            continue
        if place in roles and not name and code not in stubs:
            yield "left-out", anchor, cell, cell.source
        elif place not in roles and not name:
            yield "extra", anchor, cell, cell.source
        elif name in own and code not in originals:
            if beyond := additions(cell.source, own[name]):
                yield "change", name, cell, beyond


def is_changed(cell: NotebookNode, own: NotebookNode) -> bool:
    """Tells whether the learner changed a cell that differs from the lesson's `own`.

    A cell of an earlier release is known by nbgrader's checksum. A change to a check
    does not matter.
    """
    released = copy.copy(own)
    released.source = cell.source
    is_earlier = compute_checksum(released) == nbgrader_metadata(cell).get("checksum")
    return not is_earlier and not own.id.startswith(CHECK_PREFIX)


def unfenced(text: str) -> str:
    """Returns the code between a text's fences, or all of it where there are none."""
    parts = re.split(r"(?m)^[ \t]*(?:```|~~~).*$", text)
    return "\n".join(parts[1::2]).strip("\n") or text


def lesson_cell(
    cell: NotebookNode, originals: dict[str, str], present: set[str]
) -> str:
    """Names the lesson's cell that a submitted cell is, or "" for a learner's own.

    `originals` names the lesson's cells by their code. A cell with the id of one of
    those `present` elsewhere, but other code, is a copy that the learner made something
    else of.
    """
    named = [name for name in ids(cell) if name in originals.values()]
    code = code_of(cell.source)
    if code in originals:
        return named[0] if named else originals[code]
    for name in originals.values():
        exercise = name.removeprefix(CHECK_PREFIX)
        if exercise != name and is_check(cell, exercise):
            return name
    return next((name for name in named if name not in present), "")
