"""The pages' figures are those that were measured last."""

import json

import pytest

from grader.lessons.release import lesson_paths
from tools.benchmarks import figures

MEASURED = json.loads(figures.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.stem)
def test_a_page_states_the_figures_of_the_file(page):
    text = page.read_text(encoding="utf-8")
    assert figures.filled(text, MEASURED) == text


def test_each_part_is_measured_and_stated_on_one_page():
    texts = [page.read_text(encoding="utf-8") for page in figures.PAGES]
    stated = [found[2] for text in texts for found in figures.BLOCK.finditer(text)]
    assert sorted(stated) == sorted(figures.PARTS) == sorted(MEASURED)


def test_each_lesson_is_measured():
    assert [*MEASURED["lessons"]["each"]] == [path.stem for path in lesson_paths()]


def test_another_figure_is_noticed():
    page = figures.PAGES[0].read_text(encoding="utf-8")
    other = json.loads(json.dumps(MEASURED))
    other["class"]["ours"]["s"] += 1
    assert figures.filled(page, other) != page
