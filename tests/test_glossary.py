"""Each term of the glossary is first met in the lesson that it names."""

import re

import nbformat
import pytest

from grader import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \| [^|]+ \| (\d) \|$", PAGE)


def proses(folder):
    """Reads the text cells of each lesson, by its number."""
    texts = {}
    for path in (ROOT / folder).glob("0*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        texts[path.name[1]] = " ".join(prose.split())
    return dict(sorted(texts.items()))


ENGLISH, KOREAN = proses("lessons"), proses("lessons/ko")


@pytest.mark.parametrize(("term", "korean", "lesson"), TERMS)
def test_a_term_is_first_met_in_its_lesson(term, korean, lesson):
    same = str.lower if term.islower() else str  # ZeRO is not zero
    met = [number for number, text in ENGLISH.items() if term in same(text)]
    assert met[:1] == [lesson]
    assert korean.lower() in KOREAN[lesson].lower()


def test_the_glossary_is_sorted():
    terms = [term.lower() for term, _, _ in TERMS]
    assert terms == sorted(terms) and len(terms) >= 30
