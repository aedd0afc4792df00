"""A class's folder has the lessons and the settings that it was made with."""

import pytest
import tiny
from classes import make_class

from grader.__main__ import main
from grader.classroom.course import make_course
from grader.classroom.folder import SEED, Classroom

CHECKS = f"source/{tiny.NAME}/coursekit/checks/{tiny.NAME}.py"


def test_a_renewed_lesson_has_no_module_that_is_gone(tmp_path):
    make_class(tmp_path)
    folder = (tmp_path / "class" / CHECKS).parent
    (folder / "gone.py").touch()
    make_course(tmp_path / "class", update=True, root=tmp_path / "course")
    found = folder.iterdir()
    assert {path.name for path in found} == {"__init__.py", f"{tiny.NAME}.py"}


def test_a_class_keeps_the_checks_that_it_was_made_with(tmp_path):
    """Its instructor may mend them there."""
    make_class(tmp_path)
    path = tmp_path / "class" / CHECKS
    path.write_text(path.read_text().replace("(negate, 3), -3)", "(negate, 4), -4)"))
    lesson = Classroom(tmp_path / "class").lessons[tiny.NAME]
    assert "expect_close(observe(negate, 4), -4)" in lesson.metadata["checks"]


@pytest.mark.parametrize("name", [CHECKS, SEED])
def test_a_missing_file_is_named_and_an_update_restores_it(tmp_path, name):
    make_class(tmp_path)
    folder = tmp_path / "class"
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name} is missing.* --update"):
        _ = Classroom(folder).lessons
    make_course(folder, update=True, root=tmp_path / "course")
    assert tiny.NAME in Classroom(folder).lessons


def test_an_update_keeps_the_seed_and_a_seed_is_a_number(tmp_path):
    make_class(tmp_path)
    path = tmp_path / "class" / SEED
    before = path.read_text()
    make_course(tmp_path / "class", update=True, root=tmp_path / "course")
    assert path.read_text() == before
    path.write_text("seven")
    with pytest.raises(ValueError, match="'seven': write a whole number"):
        _ = Classroom(tmp_path / "class").lessons


def test_settings_that_lack_a_package_name_it(tmp_path, capsys):
    make_class(tmp_path)
    config = tmp_path / "class" / "nbgrader_config.py"
    config.write_text("import no_such_package")
    assert main(["grade", str(tmp_path / "class")]) == 2
    assert "lacks the package no_such_package" in capsys.readouterr().err
