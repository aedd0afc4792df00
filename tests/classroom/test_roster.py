"""The roster joins ids with names; what an instructor wrote into it stays."""

import pytest
import tiny
from classes import make_class

from grader.classroom.grade import grade
from grader.classroom.roster import add_names, read_names, remove_name


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "grading" / "people.csv"
    path.parent.mkdir()
    path.write_text("id,name,group\n123,Ada King,A\n7,Old One,B\n", encoding="utf-8")
    return path


def test_names_are_added_to_those_known(path):
    add_names(path, {"123": "lovelaceada", "9": "bob"})
    assert read_names(path) == {"123": "Ada King", "7": "Old One", "9": "bob"}
    assert "123,Ada King,A\n" in path.read_text(encoding="utf-8")


def test_a_roster_that_is_not_there_is_made(tmp_path):
    path = tmp_path / "grading" / "people.csv"
    assert read_names(path) == {}
    add_names(path, {})
    assert not path.exists()
    add_names(path, {"9": "bob"})
    assert path.read_text(encoding="utf-8-sig") == "id,name\n9,bob\n"


def test_a_roster_of_ours_is_read_by_excel_and_is_never_a_formula(tmp_path):
    path = tmp_path / "people.csv"
    add_names(path, {"9": "=HYPERLINK(1)", "8": "\u0141ukasz"})
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_names(path) == {"9": "'=HYPERLINK(1)", "8": "\u0141ukasz"}


def test_a_roster_that_excel_saved_with_semicolons_is_read_and_stays_so(path):
    path.write_text("id;name;group\n123;Ada King;A\n", encoding="utf-8-sig")
    add_names(path, {"9": "bob"})
    text = path.read_text(encoding="utf-8-sig")
    assert text == "id;name;group\n123;Ada King;A\n9;bob;\n"


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "x" * 5000, "\u202eada"])
def test_names_are_one_visible_line_of_bounded_length(path, name):
    add_names(path, {"1": name})
    kept = read_names(path)["1"]
    assert kept.isprintable() and len(kept) <= 200


def test_a_learner_is_removed(path):
    remove_name(path, "7")
    remove_name(path, "nobody")
    assert read_names(path) == {"123": "Ada King"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"who;what\n1;2\n", 'needs the columns "id" and "name"'),
        (b"id,name\n1,a,b\n", "line 2, has another number of columns"),
        (b"id,name\n1,\xe9\n", "is not UTF-8"),
    ],
)
def test_a_damaged_roster_is_named_before_any_file_is_placed(tmp_path, content, said):
    make_class(tmp_path)
    path = tmp_path / "class" / "grading" / "people.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    given = tmp_path / f"ada_{tiny.NAME}.ipynb"
    given.write_bytes(b"x")
    with pytest.raises(ValueError, match=r"people\.csv") as problem:
        grade(tmp_path / "class", [given])
    assert said in str(problem.value)
    assert not (tmp_path / "class" / "submitted").exists()
