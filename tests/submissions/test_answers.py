"""Answers travel from a submission into a clean lesson."""

import copy
import time

import nbformat
import pytest
from nbgrader.utils import compute_checksum
from submitted import ANSWERS

from grader.lessons.release import checks, exercises, release
from grader.submissions.answers import (
    Answers,
    extract_answers,
    fill_in,
    is_check,
    why_other_lesson,
)

DOUBLE, NEGATE = ANSWERS.values()


@pytest.fixture
def submitted(answered):
    return nbformat.reads(answered, as_version=4)


def code(source, **metadata):
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def forget(notebook, *, comments=False):
    """Loses all metadata and ids, as some front ends do."""
    notebook.metadata = {}
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"new-{number}"
        if comments:
            cell.source = cell.source.removeprefix("# exercise: double\n")
            cell.source = cell.source.removeprefix("# exercise: negate\n")


def place_of(notebook, cell_id):
    return [cell.id for cell in notebook.cells].index(cell_id)


def sources(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_answers_are_known_by_their_grade_ids(submitted, lesson):
    exercises(submitted)["double"].source = "def twice(x):\n    return x + x"
    found = extract_answers(submitted, lesson)
    assert found.exercises["double"] == "def twice(x):\n    return x + x"
    assert found.exercises["negate"] == NEGATE
    assert found.extras == ()


def test_answers_are_known_by_their_comments_where_metadata_is_lost(submitted, lesson):
    exercises(submitted)["double"].source = "# exercise: double\ntwice = 2"
    forget(submitted)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {
        "double": "# exercise: double\ntwice = 2",
        "negate": NEGATE,
    }


def test_answers_are_known_by_their_functions_where_comments_are_lost_too(
    submitted, lesson
):
    forget(submitted, comments=True)
    assert extract_answers(submitted, lesson).exercises == {
        "double": "def double(x):\n    return x + x",
        "negate": "def negate(x):\n    return 0 - x",
    }


@pytest.mark.parametrize(
    "other",
    [
        "def double_all(xs):\n    return xs",
        "# exercise: double_all\nx = 1",
        "class C:\n    def double(self):\n        pass",
        "y = double(3)",
    ],
)
def test_cell_that_only_resembles_an_answer_is_none(submitted, lesson, other):
    del submitted.cells[place_of(submitted, "double")]
    submitted.cells.insert(0, code(other))
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"negate": NEGATE}
    assert found.extras == (("", other),)


def stub_of(lesson, name):
    return exercises(release(lesson))[name].source


WORSE = DOUBLE.replace("x + x", "0")


@pytest.mark.parametrize(
    "copies, counts",
    {
        "last": ([DOUBLE, WORSE], WORSE),
        "last of three": ([WORSE, DOUBLE, WORSE], WORSE),
        "stub behind": ([DOUBLE, None], DOUBLE),
        "stub between": ([WORSE, None, DOUBLE, None], DOUBLE),
        "blank behind": ([DOUBLE, " \n"], DOUBLE),
        "only the mark behind": ([DOUBLE, "# exercise: double\n"], DOUBLE),
        "other spaces in a stub": ([DOUBLE, "more spaces"], DOUBLE),
    }.values(),
    ids=["last", "of three", "stub", "stub between", "blank", "mark", "spaces"],
)
@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_last_copy_that_was_worked_on_counts(submitted, lesson, copies, counts, lost):
    stub = stub_of(lesson, "double")
    spaced = stub.replace("\n", " \n\n")
    place = place_of(submitted, "double")
    cell = submitted.cells.pop(place)
    for source in reversed(copies):
        source = {None: stub, "more spaces": spaced}.get(source, source)
        second = copy.deepcopy(cell)
        second.source = source
        submitted.cells.insert(place, second)
    if lost:
        forget(submitted)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": counts, "negate": NEGATE}
    assert found.extras == ()
    if not lost:
        number = len(copies)
        note = f"double has {number} cells; the last one that was worked on counts."
        assert found.notes == (note,)


def test_copies_of_the_stub_count_as_the_stub(lesson):
    untouched = release(lesson)
    untouched.cells.append(copy.deepcopy(exercises(untouched)["double"]))
    found = extract_answers(untouched, lesson)
    assert found.exercises["double"] == stub_of(lesson, "double")
    assert found.notes == ("double has 2 cells; none of them was worked on.",)


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_answer_in_a_text_cell_is_taken_as_code(submitted, lesson, kind, lost):
    cell = submitted.cells[place_of(submitted, "double")]
    cell.cell_type = kind
    if lost:
        forget(submitted)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": DOUBLE, "negate": NEGATE}
    note = "The cell of double is a text cell; its text was taken as code."
    assert note in found.notes


def test_old_attempt_kept_as_text_does_not_count(submitted, lesson):
    old = copy.deepcopy(exercises(submitted)["double"])
    old.update(cell_type="raw", source=WORSE)
    submitted.cells.append(old)
    assert extract_answers(submitted, lesson).exercises["double"] == DOUBLE


@pytest.mark.parametrize(
    "first",
    ["", "\n\n", "%%time\n", "import jax\n\n", "# mine\n#exercise : no\n"],
    ids=["first line", "blank", "magic", "import", "comment"],
)
def test_comment_is_found_in_any_of_the_first_lines(submitted, lesson, first):
    source = f"{first}# exercise: double\ntwice = 2"
    exercises(submitted)["double"].source = source
    forget(submitted)
    assert extract_answers(submitted, lesson).exercises["double"] == source


@pytest.mark.parametrize(
    "source",
    [
        "import jax\n\n\ndef double(x):\n    return x + x",
        "async def double(x):\n    return x + x",
        "@jax.jit\ndef  double (x):\n    return x + x",
        "def double[T](x: T) -> T:\n    return x + x",
        "double = jax.pmap(lambda x: x + x)",
        "double: Callable = lambda x: x + x",
    ],
    ids=["function", "async", "decorated", "generic", "value", "annotated value"],
)
def test_answer_without_its_mark_is_known_by_what_it_defines(submitted, lesson, source):
    submitted.cells[place_of(submitted, "double")] = code(source)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": source, "negate": NEGATE}
    assert "of double were known by their comment or function" in found.notes[0]


def test_id_alone_is_enough(submitted, lesson):
    for cell in submitted.cells:
        cell.metadata = {}
    assert extract_answers(submitted, lesson) == Answers(
        {"double": DOUBLE, "negate": NEGATE}
    )


def test_answer_below_an_untouched_stub_counts(submitted, lesson):
    exercises(submitted)["double"].source = stub_of(lesson, "double")
    source = "def double(x):\n    return x + x"
    submitted.cells.append(code(source))
    found = extract_answers(submitted, lesson)
    assert found.exercises["double"] == source
    note = "double has a second definition, in another cell; that one counts."
    assert found.notes == (note,)


def test_second_definition_counts_where_the_check_saw_it(submitted, lesson):
    exercises(submitted)["double"].source = f"import jax\n{WORSE}"
    source = "def double(x):\n    return x + x"
    submitted.cells.insert(place_of(submitted, "check-double"), code(source))
    found = extract_answers(submitted, lesson)
    assert found.exercises["double"] == source
    assert [extra for _, extra in found.extras] == [f"import jax\n{WORSE}"]
    sources_in_order = sources(fill_in(lesson, found))
    assert sources_in_order.index(source) > sources_in_order.index(found.extras[0][1])


def test_later_experiment_does_not_count_and_a_note_says_so(submitted, lesson):
    submitted.cells.append(code("def double(x):\n    return 0"))
    found = extract_answers(submitted, lesson)
    assert found.exercises["double"] == DOUBLE
    assert found.extras == ()
    assert found.left_out == ("def double(x):\n    return 0",)
    note = "A later cell that defines double again was left out."
    assert found.notes == (note,)


def test_wrapping_an_answer_is_a_cell_of_its_own(submitted, lesson):
    wrap = "double = jax.jit(double)"
    submitted.cells.insert(place_of(submitted, "double") + 1, code(wrap))
    found = extract_answers(submitted, lesson)
    assert found == Answers({"double": DOUBLE, "negate": NEGATE}, (("double", wrap),))


def test_both_halves_of_a_split_cell_are_kept(submitted, lesson):
    place = place_of(submitted, "double")
    second = copy.deepcopy(submitted.cells[place])
    submitted.cells[place].source = "# exercise: double\nTWO = 2"
    second.source = "def double(x):\n    return TWO * x"
    submitted.cells.insert(place + 1, second)
    found = extract_answers(submitted, lesson)
    assert found.exercises["double"] == second.source
    cells = sources(fill_in(lesson, found))
    assert cells.index("# exercise: double\nTWO = 2") < cells.index(second.source)


def test_two_answers_in_one_cell_are_both_found(submitted, lesson):
    both = f"{DOUBLE}\n\n\ndef negate(x):\n    return 0 - x"
    exercises(submitted)["double"].source = both
    del submitted.cells[place_of(submitted, "negate")]
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": both, "negate": both}


def test_missing_answer_is_noted(submitted, lesson):
    del submitted.cells[place_of(submitted, "double")]
    found = extract_answers(submitted, lesson)
    assert found == Answers({"negate": NEGATE}, (), ("The cell of double is missing.",))


def changed_check(submitted, change):
    place = place_of(submitted, "check-double")
    check = submitted.cells[place]
    if change == "edited":
        check.source = 'print(7)\ncheck("double", points=1000)'
    elif change == "deleted":
        del submitted.cells[place]
    elif change == "text":
        check.cell_type = "markdown"
    elif change == "copied":
        submitted.cells.append(copy.deepcopy(check))
    elif change == "points":
        check.metadata.nbgrader.points = 1000
    elif change == "points of a weird type":
        check.metadata.nbgrader.points = [1]
    elif change == "spaces":
        check.source = f"  {check.source} \n\n"


CHANGES = ("none", "edited", "deleted", "text", "copied", "points", "spaces")


@pytest.mark.parametrize("change", [*CHANGES, "points of a weird type"])
def test_a_changed_check_does_not_run_and_it_needs_no_note(submitted, lesson, change):
    """The lesson's own checks decide; what was written beside one runs."""
    changed_check(submitted, change)
    found = extract_answers(submitted, lesson)
    changes = (("check-double", "print(7)"),) if change == "edited" else ()
    assert found == Answers({"double": DOUBLE, "negate": NEGATE}, changes=changes)


@pytest.mark.parametrize(
    "call",
    ["check('double')", 'check("double", show=True)', 'check( "double", points=9);'],
)
def test_check_without_metadata_does_not_run(submitted, lesson, call):
    submitted.cells[place_of(submitted, "check-double")].source = call
    forget(submitted)
    assert extract_answers(submitted, lesson).extras == ()


@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_helper_above_a_call_of_the_check_is_kept(submitted, lesson, lost):
    """As learners write who try something out."""
    helper = 'def twice(x):\n    return x + x\n\n\ncheck("double")'
    submitted.cells.insert(place_of(submitted, "double"), code(helper))
    if lost:
        forget(submitted)
    assert [source for _, source in extract_answers(submitted, lesson).extras] == [
        helper
    ]


@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_answer_above_a_call_of_its_check_counts(submitted, lesson, lost):
    source = f'{DOUBLE}\n\n\ncheck("double")'
    exercises(submitted)["double"].source = source
    if lost:
        forget(submitted)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": source, "negate": NEGATE}
    assert found.extras == ()


def test_lesson_with_hidden_cases_needs_no_note(lesson):
    assert extract_answers(lesson, lesson).notes == ()


def test_copy_of_a_demonstration_made_into_something_else_is_kept(submitted, lesson):
    place = next(
        i for i, c in enumerate(submitted.cells) if "a demonstration" in c.source
    )
    second = copy.deepcopy(submitted.cells[place])
    second.source = "def helper(x):\n    return x"
    submitted.cells.insert(place, second)
    found = extract_answers(submitted, lesson)
    assert [source for _, source in found.extras] == [second.source]


@pytest.mark.parametrize(
    "behind", [None, "setup", "double", "check-double", "negate", "scorecard"]
)
def test_extra_cells_keep_their_place(submitted, lesson, behind):
    place = 0 if behind is None else place_of(submitted, behind) + 1
    submitted.cells[place:place] = [code("a = 1"), code("b = a")]
    found = extract_answers(submitted, lesson)
    assert found.extras == ((behind or "", "a = 1"), (behind or "", "b = a"))
    cells = fill_in(lesson, found).cells
    assert [cell.source for cell in cells[place : place + 2]] == ["a = 1", "b = a"]
    rest = cells[:place] + cells[place + 2 :]
    assert [cell.id for cell in rest] == [cell.id for cell in lesson.cells]


def test_extra_cells_keep_their_place_where_metadata_is_lost(submitted, lesson):
    submitted.cells.insert(place_of(submitted, "negate"), code("helper = 1"))
    forget(submitted)
    found = extract_answers(submitted, lesson)
    cells = fill_in(lesson, found).cells
    place = [cell.source for cell in cells].index("helper = 1")
    assert cells[place + 1].id == "negate"


def test_lesson_itself_holds_no_extras_where_metadata_is_lost(submitted, lesson):
    forget(submitted)
    assert extract_answers(submitted, lesson).extras == ()


@pytest.mark.parametrize(
    "cell",
    [code(""), code(" \n\t\n"), nbformat.v4.new_markdown_cell("My notes.")],
    ids=["empty", "blank", "text"],
)
def test_cells_without_code_are_no_extras(submitted, lesson, cell):
    submitted.cells.insert(0, cell)
    assert extract_answers(submitted, lesson).extras == ()


def demonstration(notebook):
    return next(cell for cell in notebook.cells if "a demonstration" in cell.source)


def added_to_a_demonstration(submitted, lesson, source):
    """Returns what runs of a changed demonstration, after the original."""
    demonstration(submitted).source = source
    found = extract_answers(submitted, lesson)
    assert found.extras == ()
    return "\n".join(code for _, code in found.changes)


OWN = 'print("a demonstration")'


@pytest.mark.parametrize(
    "addition",
    [
        "POWER = 2",
        "twice = lambda x: 2 * x",
        "from functools import partial\n\nmore = partial(pow, 2)",
        "if True:\n    POWER = 2",
        "for name in 'ab':\n    globals()[name] = 1",
        "%matplotlib inline\ndef twice(x):\n    return 2 * x",
        "files = !ls\nPOWER = len(files)",
        "twice?\nPOWER = 2",
        "@print\ndef twice(x):\n    return 2 * x",
        "with open('a') as file:\n    # kept\n    %time POWER = 2",
        "POWER += 1",
        "del POWER",
    ],
    ids="constant lambda partial if for magic shell help decorated with augmented "
    "deleted".split(),
)
@pytest.mark.parametrize("place", ["above", "below"])
def test_all_that_a_changed_cell_holds_in_addition_runs(
    submitted, lesson, addition, place
):
    cells = [addition, OWN] if place == "above" else [OWN, addition]
    found = added_to_a_demonstration(submitted, lesson, "\n".join(cells))
    assert found == addition.replace("\n\n", "\n")


def test_a_changed_statement_runs_after_the_original(submitted, lesson):
    changed = OWN.replace("a demonstration", "mine")
    assert added_to_a_demonstration(submitted, lesson, changed) == changed


@pytest.mark.parametrize(
    "source",
    [f"%%time\n{OWN}\nPOWER = 2", f"{OWN}\nPOWER = (2", f"{OWN}\n/print 'a'\nx = 1"],
    ids=["cell magic", "syntax error", "IPython's own syntax"],
)
def test_a_changed_cell_that_cannot_be_compared_runs_whole(submitted, lesson, source):
    assert added_to_a_demonstration(submitted, lesson, source) == source


def test_comments_and_layout_are_no_change(submitted, lesson):
    demonstration(submitted).source = "# Mine.\nprint(  'a demonstration'  )  # nice"
    assert extract_answers(submitted, lesson) == Answers(
        {"double": DOUBLE, "negate": NEGATE}
    )


def test_a_note_quotes_the_cells_that_were_changed(submitted, lesson):
    demonstration(submitted).source += "\nPOWER = 2"
    submitted.cells[place_of(submitted, "setup")].source += "\nimport math"
    found = extract_answers(submitted, lesson)
    assert found.changes[0] == ("setup", "import math")
    assert [source for _, source in found.changes] == ["import math", "POWER = 2"]
    [note] = found.notes
    assert '"import sys", "print("a demonstration")". The originals ran,' in note


@pytest.mark.parametrize("cell", ["setup", "demonstration"])
def test_a_cell_of_an_earlier_release_is_no_change_by_the_learner(
    submitted, lesson, cell
):
    """Its instructor changed the lesson since."""
    one = demonstration(submitted)
    one = submitted.cells[place_of(submitted, "setup")] if cell == "setup" else one
    one.source += "\nEARLIER = 1"
    one.metadata.nbgrader.checksum = compute_checksum(one)
    found = extract_answers(submitted, lesson)
    assert [source for _, source in found.changes] == ["EARLIER = 1"]
    assert found.notes == ()


@pytest.mark.parametrize("call", ["check('double')", "", "1 + 1"])
def test_a_function_in_a_checks_cell_runs(submitted, lesson, call):
    check = submitted.cells[place_of(submitted, "check-double")]
    check.source = f"def twice(x):\n    return 2 * x\n\n{call}"
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": DOUBLE, "negate": NEGATE}
    [(anchor, source)] = found.changes
    assert anchor == "check-double" and source.startswith("def twice(x):\n    return")
    assert "check(" not in source and found.notes == ()


FENCED = "```python\n{}\n```"


@pytest.mark.parametrize(
    "text",
    [
        FENCED.format(DOUBLE),
        f"My answer:\n\n{FENCED.format(DOUBLE)}\n\nIt adds.",
        f"  ~~~\n{DOUBLE}\n  ~~~",
        f"```\n{DOUBLE}",
    ],
    ids=["fence", "text around it", "tildes", "not closed"],
)
@pytest.mark.parametrize("lost", [False, True], ids=["with ids", "metadata lost"])
def test_fences_around_an_answer_in_a_text_cell_are_no_code(
    submitted, lesson, text, lost
):
    submitted.cells[place_of(submitted, "double")].update(
        cell_type="markdown", source=text
    )
    if lost:
        forget(submitted)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": DOUBLE, "negate": NEGATE}
    note = "The cell of double is a text cell; its text was taken as code."
    assert note in found.notes


def test_code_in_two_fences_is_one_answer(submitted, lesson):
    halves = "TWO = 2", "def double(x):\n    return TWO * x"
    text = "\n\nthen\n\n".join(map(FENCED.format, halves))
    submitted.cells[place_of(submitted, "double")].update(
        cell_type="markdown", source=text
    )
    answer = extract_answers(submitted, lesson).exercises["double"]
    assert [line for line in answer.splitlines() if line] == "\n".join(halves).split(
        "\n"
    )


@pytest.mark.parametrize(
    "second",
    [
        "def negate(x):\n    return 0 - x",
        "negate = lambda x: 0 - x",
        "negate: object = abs",
    ],
    ids=["function", "lambda", "annotated"],
)
@pytest.mark.parametrize("where", ["double", "negate"])
def test_two_answers_in_one_cell_are_found_beside_the_others_stub(
    submitted, lesson, second, where
):
    first = "def double(x):\n    return x + x"
    second = second if where == "double" else second.replace("negate", "double")
    cells = exercises(submitted)
    both = f"# exercise: {where}\n{first}\n\n{second}"
    if where == "negate":
        both = f"# exercise: negate\ndef negate(x):\n    return -x\n\n{second}"
    for name in cells:
        cells[name].source = both if name == where else stub_of(lesson, name)
    found = extract_answers(submitted, lesson)
    assert found.exercises == {"double": both, "negate": both}
    other = "negate" if where == "double" else "double"
    note = f"{other} has a second definition, in another cell; that one counts."
    assert found.notes == (note,)


def test_a_variable_of_an_exercises_name_is_no_answer_to_it(submitted, lesson):
    exercises(submitted)["negate"].source = stub_of(lesson, "negate")
    submitted.cells.append(code("negate = -3"))
    found = extract_answers(submitted, lesson)
    assert found.exercises["negate"] == stub_of(lesson, "negate")


def test_earlier_attempts_are_left_out_for_the_time_being(submitted, lesson):
    second = copy.deepcopy(exercises(submitted)["double"])
    submitted.cells.insert(place_of(submitted, "double"), second)
    second.source = f"HELPER = 1\n{WORSE}"
    found = extract_answers(submitted, lesson)
    assert found.left_out == (second.source,) and found.extras == ()


@pytest.mark.parametrize(
    "value",
    ["x", 7, [1], None, {}, *({"grade_id": value} for value in (None, 7, [1], {}))],
    ids=repr,
)
def test_foreign_metadata_loses_no_answer(submitted, lesson, value):
    for cell in submitted.cells:
        cell.metadata = nbformat.from_dict({"nbgrader": value, "tags": "x"})
    found = extract_answers(submitted, lesson)
    assert found == Answers({"double": DOUBLE, "negate": NEGATE})


def test_answers_stand_in_the_lesson(lesson):
    given = Answers({"double": DOUBLE, "negate": NEGATE})
    answered = exercises(fill_in(lesson, given))
    assert [cell.source for cell in answered.values()] == [DOUBLE, NEGATE]


def test_exercise_without_an_answer_gets_its_stub(lesson):
    answered = exercises(fill_in(lesson, Answers({"negate": NEGATE})))
    assert answered["double"].source == exercises(release(lesson))["double"].source
    assert "secret" not in answered["double"].source


@pytest.mark.parametrize("change", ["edited", "deleted", "relabelled", "text"])
def test_checks_are_those_of_the_lesson(submitted, lesson, change):
    place = place_of(submitted, "check-double")
    check = submitted.cells[place]
    if change == "edited":
        check.source = "print('Right: double')"
        check.metadata.nbgrader.points = 1000
    elif change == "deleted":
        del submitted.cells[place]
    elif change == "relabelled":
        check.metadata.nbgrader.update(grade=False, solution=True, locked=False)
    else:
        submitted.cells[place] = nbformat.v4.new_markdown_cell(check.source)
    answered = fill_in(lesson, extract_answers(submitted, lesson))
    assert checks(answered) == checks(lesson)
    assert "-7" in checks(answered)["double"].source


def test_answering_leaves_the_lesson_as_it_was(lesson):
    before = copy.deepcopy(lesson)
    fill_in(lesson, Answers({"double": DOUBLE}, (("setup", "x = 1"),)))
    assert lesson == before


def test_answered_lesson_is_a_valid_notebook(lesson):
    extras = (("", "x = 1"), ("setup", "y = 2"), ("setup", "z = 3"))
    nbformat.validate(fill_in(lesson, Answers({"double": DOUBLE}, extras)))


def notebook_of(*cells):
    cells = [nbformat.v4.new_code_cell(text) for text in cells]
    return nbformat.v4.new_notebook(cells=cells)


def test_this_lesson_is_no_other_one(submitted, lesson):
    for notebook in (submitted, lesson):
        assert why_other_lesson(notebook, lesson, "01_tiny") == ""


@pytest.mark.parametrize(
    "cell",
    ["# exercise: double\nx = 1", "import jax\n\n\ndef negate(x):\n    return x"],
    ids=["comment", "function"],
)
def test_one_exercise_is_enough(lesson, cell):
    assert why_other_lesson(notebook_of(cell), lesson, "01_tiny") == ""


def test_other_lesson_is_named(lesson):
    text = "This is not lesson 01_tiny: none of its exercises are in it."
    remedy = "Submit the notebook that holds double, negate."
    other = notebook_of("def ring_shift(x):\n    return x")
    assert why_other_lesson(other, lesson, "01_tiny") == f"{text} {remedy}"
    for title, said in (
        ("# Lesson 3. Meshes\n\nMore.", ' Its title is "Lesson 3. Meshes".'),
        ("# Lesson 1. Tiny", ""),
    ):
        other.cells.insert(0, nbformat.v4.new_markdown_cell(title))
        found = why_other_lesson(other, lesson, "01_tiny")
        assert found == f"{text}{said} {remedy}"


def test_a_long_line_does_not_keep_the_recognition_of_checks_busy():
    cell = code('check("double"' + " " * 1_000_000 + "\nx")
    begun = time.monotonic()
    assert not is_check(cell, "double")
    assert time.monotonic() - begun < 1
