"""CONTRIBUTING's map names files that exist, and every package."""

import re

import pytest

from grader import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"(?m)^\| ((?!I want)[^|]+) \| ([^|]*`[^|]+) \|$", TEXT.split("\n## ")[1]
)
PATH = re.compile(
    r"`((?:grader|lessons|solutions|tests|tools|docs)/[\w./-]*|pyproject\.toml)`"
)
PACKAGES = [path.parent for path in (ROOT / "grader").glob("*/__init__.py")]


def test_the_map_answers_twenty_questions_at_least():
    assert len(ROWS) >= 20
    assert len({question for question, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_each_answer_names_files_that_exist(row):
    paths = PATH.findall(row[1])
    assert paths
    for path in paths:
        assert "NN_name" in path or (ROOT / path).exists(), path


def test_each_file_that_the_page_names_elsewhere_exists():
    named = [p for p in PATH.findall(TEXT) if not re.search(r"NN_name|VERSION|xx", p)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_each_package_is_named_and_says_what_it_is_for(package):
    assert f"`grader/{package.name}/" in TEXT
    said = (package / "__init__.py").read_text(encoding="utf-8").strip()
    assert re.fullmatch(r'"""[A-Z][^.]+\."""', said)
