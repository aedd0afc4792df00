"""Releasing hides solutions; lessons are found by number, name and path."""

import ast
import copy

import nbformat
import pytest
import tiny
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3

from grader.lessons.release import (
    STUB,
    checks,
    exercises,
    hidden_source,
    lesson_number,
    lesson_paths,
    names_lesson,
    release,
    title,
    without_grading_facts,
    without_hidden,
)

SOLUTION = "    secret = 2\n    return secret * x\n"
TWO_REGIONS = """\
    secret = 2
    ### END SOLUTION
    if x is None:
        ### BEGIN SOLUTION
        secret = 0
        ### END SOLUTION
    ### BEGIN SOLUTION
    return secret * x
"""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


def sources(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize(
    "hidden", ["secret", "return -x", "(double, -7)", ", -14)", "### "]
)
def test_released_code_holds_neither_solutions_nor_hidden_tests(lesson, hidden):
    assert hidden in "".join(sources(lesson))
    assert hidden not in "".join(sources(release(lesson)))


def test_a_released_check_is_one_line(lesson):
    cells = {cell.id: cell.source for cell in release(lesson).cells}
    assert cells["check-double"] == 'check("double")'
    assert cells["check-negate"] == 'check("negate")'


def test_released_lesson_keeps_its_docstrings(lesson):
    cells = {cell.id: cell.source for cell in release(lesson).cells}
    start = '# exercise: double\ndef double(x):\n    """Returns twice `x`."""\n'
    assert cells["double"] == f"{start}    {STUB}"


def test_what_only_graders_need_is_in_no_file(lesson):
    graded = copy.deepcopy(lesson)
    graded.metadata["seed"] = 7
    assert "checks" in graded.metadata
    for made in (release(graded), without_grading_facts(graded)):
        assert set(made.metadata) == {"kernelspec", "language_info"}


def test_hidden_cases_are_found_in_a_check(lesson):
    found = checks(lesson)
    assert hidden_source(found["negate"]) == ""
    assert "expect_close(observe(double, -7), -14)" in hidden_source(found["double"])
    assert [hidden_source(cell) for cell in checks(release(lesson)).values()] == [
        "",
        "",
    ]


def test_a_lesson_without_hidden_cases_keeps_its_solutions(lesson):
    cells = {cell.id: cell.source for cell in without_hidden(lesson).cells}
    assert cells["check-double"] == 'check("double")'
    assert "    return secret * x\n" in cells["double"]


def test_each_solution_region_becomes_one_stub(tmp_path):
    notebook = tiny.lesson(tmp_path / "course", (SOLUTION, TWO_REGIONS))
    source = exercises(release(notebook))["double"].source
    lines = [line for line in source.splitlines() if "raise" in line]
    assert lines == [f"    {STUB}", f"        {STUB}", f"    {STUB}"]
    assert "    if x is None:" in source


def test_released_lesson_has_no_outputs(lesson):
    executed = copy.deepcopy(lesson)
    for cell in executed.cells:
        if cell.cell_type == "code":
            output = nbformat.v4.new_output("stream", text="old")
            cell.update(outputs=[output], execution_count=1)
    cells = [cell for cell in release(executed).cells if cell.cell_type == "code"]
    assert {(cell.execution_count, len(cell.outputs)) for cell in cells} == {(None, 0)}


def test_releasing_leaves_the_lesson_as_it_was(lesson):
    before = copy.deepcopy(lesson)
    release(lesson)
    assert lesson == before


def test_learners_can_edit_all_cells_but_the_checks(lesson):
    cells = release(lesson).cells
    locked = [cell.id for cell in cells if not cell.metadata.get("editable", True)]
    fixed = [cell.id for cell in cells if not cell.metadata.get("deletable", True)]
    assert locked == ["check-double", "check-negate"]
    assert set(fixed) >= {"check-double", "check-negate", "double", "negate"}


def test_released_lesson_is_a_valid_nbgrader_assignment(lesson):
    released = release(lesson)
    nbformat.validate(released)
    MetadataValidatorV3().validate_nb(released)


def test_released_code_parses(lesson):
    assert all(ast.parse(source).body for source in sources(release(lesson)))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    path = tiny.write_course(tmp_path_factory.mktemp("course") / "course")
    path.with_name("02_more.py").write_text(tiny.SOURCE)
    return path.parents[1]


@pytest.mark.parametrize(
    "name",
    [
        "2",
        "02",
        "02_more",
        "02_more.py",
        "solutions/02_more.py",
        "lessons/02_more.ipynb",
        "/elsewhere/02_more.ipynb",
    ],
)
def test_lesson_is_found_by_number_name_and_path(course, name):
    assert lesson_paths([name], course) == [course / "solutions" / "02_more.py"]


def test_lessons_are_listed_in_order(course):
    assert [path.stem for path in lesson_paths(root=course)] == ["01_tiny", "02_more"]


@pytest.mark.parametrize("name", ["3", "more", "01_tin", "setup_cell", ""])
def test_unknown_lesson_is_answered_with_the_list(course, name):
    message = f'There is no lesson "{name}". The lessons are: 01_tiny, 02_more.'
    with pytest.raises(ValueError, match=message):
        lesson_paths(["01", name], course)


def test_lesson_that_is_named_twice_comes_once(course):
    assert lesson_paths(["1", "01_tiny"], course) == lesson_paths(["1"], course)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("01_tiny", 1),
        ("12_long_name", 12),
        ("tiny", None),
        ("tiny_1", None),
        ("", None),
    ],
)
def test_number_of_a_lesson_is_read_from_its_name(name, number):
    assert lesson_number(name) == number


@pytest.mark.parametrize("text", ["2", "02", "02_more"])
def test_lesson_is_named_by_number_and_by_name(text):
    assert names_lesson(text, "02_more")
    assert not names_lesson(text, "03_more")


@pytest.mark.parametrize("text", ["", "²", "two", "2_more", "12", "20"])
def test_other_texts_name_no_lesson(text):
    assert not names_lesson(text, "02_more")
    assert not names_lesson("1", "tiny")


def test_title_is_the_first_heading(lesson):
    assert title(lesson, "01_tiny") == "Lesson 1. Tiny"
    lesson = copy.deepcopy(lesson)
    lesson.cells = [cell for cell in lesson.cells if cell.cell_type == "code"]
    for cell in lesson.cells:
        cell.source = "x = 1"
    assert title(lesson, "01_tiny") == "01_tiny"
