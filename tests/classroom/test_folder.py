"""A class's folder that an earlier version of the course made says what to do."""

import re

import pytest
import tiny
from classes import RIGHT, answered, hand_in, is_trusted, make_class

from grader.__main__ import main
from grader.classroom.course import make_course
from grader.classroom.folder import Classroom
from grader.classroom.grade import grade

NOW = "2026-12-02T03:04:05+00:00"
CHECKS = f"source/{tiny.NAME}/coursekit/checks/{tiny.NAME}.py"


@pytest.fixture
def earlier(tmp_path):
    """A class whose lesson was made when checks stood in its notebook."""
    lesson = make_class(tmp_path)
    hand_in(tmp_path, "ada", answered(lesson, **RIGHT))
    (tmp_path / "class" / CHECKS).unlink()
    (tmp_path / "class" / CHECKS).with_name("cases.py").touch()
    return tmp_path


def test_a_lesson_of_an_earlier_version_names_the_remedy(earlier):
    folder = earlier / "class"
    remedy = f"Renew it: python -m grader course {folder} --update"
    with pytest.raises(ValueError, match=re.escape(remedy)):
        grade(folder, now=NOW)


def test_the_remedy_helps(earlier):
    make_course(earlier / "class", update=True, root=earlier / "course")
    told = []
    options = {"now": NOW, "workers": 1, "trusted": is_trusted()}
    assert grade(earlier / "class", say=told.append, **options) == 0
    assert "GRADED                1" in "\n".join(told)


def test_a_renewed_lesson_has_no_module_that_is_gone(earlier):
    make_course(earlier / "class", update=True, root=earlier / "course")
    found = (earlier / "class" / CHECKS).parent.iterdir()
    assert {path.name for path in found} == {"__init__.py", f"{tiny.NAME}.py"}


def test_a_class_keeps_the_checks_that_it_was_made_with(tmp_path):
    """Its instructor may mend them there."""
    make_class(tmp_path)
    path = tmp_path / "class" / CHECKS
    path.write_text(path.read_text().replace("(negate, 3), -3)", "(negate, 4), -4)"))
    lesson = Classroom(tmp_path / "class").lesson(tiny.NAME)
    assert "expect_close(observe(negate, 4), -4)" in lesson.metadata["checks"]


def test_settings_that_import_what_is_gone_name_the_remedy(tmp_path, capsys):
    make_class(tmp_path)
    config = tmp_path / "class" / "nbgrader_config.py"
    now = "grader.classroom.nbgrader_plugin"
    assert now in config.read_text()
    config.write_text(config.read_text().replace(now, "grader.exporter"))
    assert main(["grade", str(tmp_path / "class")]) == 2
    said = capsys.readouterr().err
    assert f"{config} imports grader.exporter, as an earlier version" in said
    assert "Make a new folder with `python -m grader course`" in said
    assert "Traceback" not in said


def test_settings_that_lack_a_package_are_told_apart(tmp_path, capsys):
    make_class(tmp_path)
    config = tmp_path / "class" / "nbgrader_config.py"
    config.write_text("import no_such_package")
    assert main(["grade", str(tmp_path / "class")]) == 2
    assert "lacks the package no_such_package" in capsys.readouterr().err
