"""`course --update` keeps what an instructor changed, and says what it does."""

import shutil

import nbformat
import pytest
import tiny
from classes import make_class

from grader.__main__ import main
from grader.atomic_files import write
from grader.classroom import course
from grader.classroom.course import make_course

NAME = tiny.NAME
SECOND = "02_second"


@pytest.fixture
def folder(tmp_path):
    """A class of two lessons, of which the course has a new version."""
    make_class(tmp_path)
    sources = tmp_path / "course" / "solutions"
    for place in (sources, sources / "checks"):
        text = (place / f"{NAME}.py").read_text()
        (place / f"{SECOND}.py").write_text(text.replace("Lesson 1", "Lesson 2"))
    make_course(tmp_path / "all", root=tmp_path / "course")
    for name in (NAME, SECOND):
        path = sources / f"{name}.py"
        text = tiny.changed(path.read_text(), ("A demonstration.", "A new text."))
        path.write_text(text)
    return tmp_path / "all"


def update(folder, **options):
    root = folder.parent / "course"
    return make_course(folder, update=True, root=root, **options)


def paths(folder, name=NAME):
    place = folder / "source" / name
    return place / f"{name}.ipynb", place / "coursekit" / "checks" / f"{name}.py"


def edit(folder, *changes, name=NAME):
    path, _ = paths(folder, name)
    path.write_text(tiny.changed(path.read_text(), *changes))


POINTS = (
    '"grade_id": "check-double",\n     "locked": true,\n     "points": 1',
    '"grade_id": "check-double",\n     "locked": true,\n     "points": 4',
)


SIBLINGS = """
[[double]]
name = "triple"
replace = [["secret = 2", "secret = 3"], ["double, 3), 6", "double, 3), 9"]]
[[double]]
name = "quadruple"
replace = [["secret = 2", "secret = 4"], ["double, 3), 6", "double, 3), 12"]]
"""


def test_a_class_keeps_the_siblings_that_its_seed_drew(folder):
    root = folder.parent / "course"
    write(root / "solutions" / "siblings" / f"{NAME}.toml", SIBLINGS)
    own = folder.parent / "own"
    done = make_course(own, root=root, siblings=True)
    said = ", with a sibling of double"
    none = "written, but no exercise has a sibling"
    assert done == {NAME: f"written{said}", SECOND: none}
    notebook, checks = paths(own)
    before = notebook.read_text(), checks.read_text()
    assert "secret = 2" not in before[0] and "observe(double, 3), 6" not in before[1]
    assert update(own) == {NAME: f"renewed{said}", SECOND: "renewed"}
    assert (notebook.read_text(), checks.read_text()) == before
    assert "secret = 2" in paths(own, SECOND)[0].read_text()


def test_an_old_class_gets_siblings_for_the_lessons_that_are_named(folder):
    root = folder.parent / "course"
    write(root / "solutions" / "siblings" / f"{NAME}.toml", SIBLINGS)
    with pytest.raises(ValueError, match="Name the lessons that get them"):
        update(folder, siblings=True)
    done = update(folder, siblings=True, lessons=["01"])
    assert done[NAME] == "renewed, with a sibling of double"


def test_a_lesson_that_nobody_changed_is_renewed(folder):
    assert update(folder) == {NAME: "renewed", SECOND: "renewed"}
    for name in (NAME, SECOND):
        assert "A new text." in paths(folder, name)[0].read_text()
    assert update(folder) == {NAME: "renewed", SECOND: "renewed"}


def test_points_that_were_changed_stay_and_are_named(folder):
    edit(folder, POINTS, ('check(\\"double\\")', 'check(\\"double\\", points=4)'))
    before = [path.read_bytes() for path in paths(folder)]
    said = "kept: you changed the cell check-double"
    for _ in range(2):
        assert update(folder) == {NAME: said, SECOND: "renewed"}
        assert [path.read_bytes() for path in paths(folder)] == before


def test_a_mended_check_and_a_changed_cell_stay_and_are_named(folder):
    path = paths(folder, SECOND)[1]
    path.write_text(tiny.changed(path.read_text(), ("observe(negate, 3), -3", "4, 4")))
    edit(folder, ("A demonstration.", "My own text."))
    done = update(folder)
    assert done[NAME].startswith("kept: you changed the cell ")
    assert done[SECOND] == "kept: you changed its checks"
    assert "4, 4" in path.read_text()
    assert "My own text." in paths(folder)[0].read_text()


def test_a_notebook_that_was_only_run_and_saved_is_renewed(folder):
    path, _ = paths(folder)
    notebook = nbformat.read(path, 4)
    cell = next(one for one in notebook.cells if one.cell_type == "code")
    cell.outputs = [nbformat.v4.new_output("stream", text="ran")]
    cell.metadata["collapsed"] = True
    nbformat.write(notebook, path)
    assert update(folder)[NAME] == "renewed"


def test_a_lesson_that_was_removed_stays_away_until_it_is_asked_for(folder):
    shutil.rmtree(folder / "source" / SECOND)
    assert update(folder)[SECOND] == "left out: it is not in source/"
    assert not (folder / "source" / SECOND).exists()
    assert update(folder, lessons=["2"]) == {SECOND: "written"}
    assert paths(folder, SECOND)[0].exists()


def test_a_lesson_that_is_asked_for_is_as_in_the_course(folder):
    edit(folder, ("A demonstration.", "My own text."))
    assert update(folder, lessons=["01"]) == {NAME: "renewed"}
    assert "A new text." in paths(folder)[0].read_text()
    assert "A new text." not in paths(folder, SECOND)[0].read_text()
    assert update(folder)[NAME] == "renewed"


def test_a_lesson_that_cannot_be_compared_is_kept(folder):
    shutil.rmtree(folder / "grading" / "source")
    said = update(folder)[NAME]
    assert said.startswith("kept: you changed the notebook, or it cannot be read (")
    assert (
        "grading/source" in said and "A new text." not in paths(folder)[0].read_text()
    )


def test_a_class_takes_only_the_lessons_that_are_named(folder):
    fresh, root = folder.parent / "fresh", folder.parent / "course"
    assert make_course(fresh, lessons=["02"], root=root) == {SECOND: "written"}
    assert [path.name for path in (fresh / "source").iterdir()] == [SECOND]
    with pytest.raises(ValueError, match='no lesson "7"'):
        make_course(folder.parent / "other", lessons=["7"], root=root)
    assert not (folder.parent / "other").exists()


def test_all_or_nothing_reaches_a_lesson_that_is_kept_and_one_that_is_added(folder):
    edit(folder, POINTS)
    shutil.rmtree(folder / "source" / SECOND)
    done = update(folder, all_or_nothing=True)
    assert "the cell check-double" in done[NAME]
    assert course.gives_no_part(paths(folder)[0])
    update(folder, lessons=[SECOND])
    assert course.gives_no_part(paths(folder, SECOND)[0])
    assert "the cell check-double" in update(folder, all_or_nothing=False)[NAME]
    assert not course.gives_no_part(paths(folder)[0])


def test_the_command_says_what_it_did(folder, monkeypatch, capsys):
    edit(folder, POINTS)
    monkeypatch.setattr(course, "ROOT", folder.parent / "course")
    make = course.make_course
    monkeypatch.setitem(make.__kwdefaults__, "root", folder.parent / "course")
    assert main(["course", str(folder), "--update"]) == 0
    said = capsys.readouterr().out
    assert f"{NAME}: kept: you changed the cell check-double" in said
    assert f"{SECOND}: renewed" in said and "--update --lessons 01" in said


@pytest.mark.parametrize("name", ["a[1]", "a*", "what?"])
def test_a_path_that_nbgrader_cannot_use_is_named(tmp_path, name):
    with pytest.raises(ValueError, match="nbgrader's own commands do not work"):
        make_course(tmp_path / name)
    assert not (tmp_path / name).exists()
