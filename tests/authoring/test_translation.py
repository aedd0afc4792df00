"""One source, two languages: the same code, and every sentence accounted for."""

import re

import nbformat
import pytest
import tiny

from grader import ROOT, CourseError
from grader.authoring.build import build, read, stale
from grader.authoring.translation import (
    COMMON,
    all_texts,
    catalogue_path,
    languages,
    messages,
    read_catalogue,
    rewritten,
    translations,
)
from grader.lessons.release import exercises, lesson_paths, release
from grader.submissions.answers import extract_answers

CATALOGUES = [
    pytest.param(language, path, id=f"{language}-{path.stem}")
    for language in languages()
    for path in sorted(catalogue_path(language, "x").parent.glob("*.po"))
]
LESSONS = [
    pytest.param(language, path.stem, id=f"{language}-{path.stem}")
    for language in languages()
    for path in lesson_paths()
]


def spans(pattern, text):
    return sorted(re.findall(pattern, text))


@pytest.mark.parametrize(("language", "path"), CATALOGUES)
def test_translation_keeps_code_links_and_emphasis(language, path):
    for text, said in translations(read_catalogue(path, language)).items():
        assert spans(r"`[^`]+`", text) == spans(r"`[^`]+`", said), text
        assert spans(r"\]\(([^)]+)\)", text) == spans(r"\]\(([^)]+)\)", said), text
        assert text.count("**") == said.count("**"), text


@pytest.mark.parametrize(("language", "name"), LESSONS)
def test_notebooks_differ_in_prose_alone(language, name):
    english = nbformat.read(ROOT / f"lessons/{name}.ipynb", as_version=4)
    translated = nbformat.read(ROOT / f"lessons/{language}/{name}.ipynb", as_version=4)
    assert translated.metadata == english.metadata
    assert [cell.id for cell in translated.cells] == [cell.id for cell in english.cells]
    for cell, other in zip(english.cells, translated.cells, strict=True):
        if cell.cell_type == "code":
            assert other == cell
        else:
            assert other.cell_type == "markdown"
            marks = r"</?details>|</?summary>|^#+ |^\|"
            assert spans(marks, cell.source) == spans(marks, other.source)


@pytest.mark.parametrize(("language", "name"), LESSONS)
def test_a_submission_in_another_language_holds_the_same_answers(language, name):
    lesson = read(ROOT / f"solutions/{name}.py", ROOT)
    found = []
    for folder in (ROOT / "lessons", ROOT / "lessons" / language):
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        for exercise, cell in exercises(notebook).items():
            cell.source = exercises(lesson)[exercise].source
        found.append(extract_answers(notebook, lesson))
    assert found[0] == found[1]
    assert found[1].notes == found[1].extras == ()


PROSE = """\
# A heading

One paragraph
in two lines.

- first;
- second, which
  goes on.

| a table | its head |
|---|---|
| **a bold one** | `a \\| b` says **more** |

[![Open in Colab](https://a/b.svg)](https://c/blob/main/lessons/01_tiny.ipynb)

```
some code stays
```

<details><summary>Hint 1</summary>

Unfold it.

</details>"""


def test_prose_is_taken_by_paragraph_item_and_table_cell():
    found = []
    assert rewritten(PROSE, lambda text: found.append(text) or text) == PROSE
    assert found == [
        "A heading",
        "One paragraph in two lines.",
        "first;",
        "second, which goes on.",
        "a table",
        "its head",
        "a bold one",
        "`a \\| b` says **more**",
        "Hint 1",
        "Unfold it.",
    ]


def test_what_surrounds_a_text_stays():
    lines = rewritten(PROSE, str.upper).splitlines()
    assert lines[:2] == ["# A HEADING", ""]
    assert lines[2] == "ONE PARAGRAPH IN TWO LINES."
    assert "- SECOND, WHICH GOES ON." in lines
    assert "|---|---|" in lines
    assert "| **A BOLD ONE** | `A \\| B` SAYS **MORE** |" in lines
    assert "some code stays" in lines
    assert "<details><summary>HINT 1</summary>" in lines


def test_messages_are_found_with_their_values_numbered():
    source = (
        '"""A module of messages."""\n\n\n'
        'def f(x, seen):\n    """Says something."""\n'
        '    expect(seen, x, f"{x!r} of {len(seen):,} rows are "\n'
        '           f"{0} here", likely="a cause of it")\n'
        '    return re.search(r"a pattern \\d|b", "--a flag"), "word"\n'
    )
    assert messages(source) == ["{1} of {2} rows are {3} here", "a cause of it"]


def test_a_lessons_texts_are_its_prose_its_checks_messages_and_their_statements(course):
    checks = course / "solutions/checks/01_tiny.py"
    said = 'observe(double, 3), 6, mistakes={"the square": 9}'
    more = 'observe(double, -7), -14, mistakes={"a hidden cause": 49}'
    text = tiny.changed(
        tiny.CHECKS,
        ("observe(double, 3), 6", said),
        ("observe(double, -7), -14", more),
    )
    checks.write_text(text)
    lesson = read(course / "solutions/01_tiny.py", course)
    found = all_texts({tiny.NAME: release(lesson)}, course)[tiny.NAME]
    assert found[:2] == ["Lesson 1. Tiny", "A demonstration."]
    # A statement's name is one word here, which looks like a name in code.
    assert {"the square", "twice", "negative"} <= {*found}
    assert "a hidden cause" not in found


def test_what_a_feedback_page_says_is_to_be_translated():
    words = {*all_texts({}, ROOT)[COMMON]}
    assert {"Feedback for {1}", "Partly right", "Your code, {1} lines"} <= words
    assert "It was stopped at a limit of the grader: {1}." in words
    assert "no score until you decide" not in words  # an instructor's


def test_what_a_card_says_in_one_word_is_to_be_translated():
    words = {*all_texts({}, ROOT)[COMMON]}
    labels = {"called", "seen", "expected", "likely", "where", "again"}
    assert labels | {"right", "wrong", "essential", "holds", "fails", "later"} <= words


CATALOGUE = {
    "Lesson 1. Tiny": "1강. 작은 강의",
    "A demonstration.": "시연입니다.",
    "{1} of {2}": "{2} 중 {1}",
}


@pytest.fixture
def course(tmp_path):
    root = tiny.write_course(tmp_path, setup=tiny.SETUP_WITHOUT_JAX).parents[1]
    (root / "solutions/locales/ko/LC_MESSAGES").mkdir(parents=True)
    (root / "lessons/ko").mkdir()
    return root


def fill(root, words):
    for name in ("common", tiny.NAME):
        path = catalogue_path("ko", name, root)
        text = path.read_text()
        for english, korean in words.items():
            text = text.replace(
                f'msgid "{english}"\nmsgstr ""', f'msgid "{english}"\nmsgstr "{korean}"'
            )
        path.write_text(text)


def test_build_carries_translations_into_notebooks_and_messages(course):
    build(root=course)
    fill(course, CATALOGUE)
    build(root=course)
    notebook = nbformat.read(course / "lessons/ko/01_tiny.ipynb", as_version=4)
    head = notebook.cells[0].source
    assert head.startswith("# 1강. 작은 강의\n\n[![Open in Colab]")
    assert "/blob/main/lessons/ko/01_tiny.ipynb" in head
    assert "%env COURSE_LANGUAGE=ko" in head
    assert [c.source for c in notebook.cells if "시연" in c.source] == ["시연입니다."]
    said = {}
    exec((course / "lessons/coursekit/messages_ko.py").read_text(), said)
    # Pages of results have the lesson's title, too.
    titled = {"Lesson 1. Tiny": "1강. 작은 강의"}
    assert said["MESSAGES"] == titled | {"{1} of {2}": "{2} 중 {1}"}


def test_missing_and_stale_sentences_are_named(course):
    build(root=course)
    fill(course, CATALOGUE)
    build(root=course)
    path = catalogue_path("ko", tiny.NAME, course)
    missing = stale(root=course)[path]
    assert "\n  Multiply `x`." in missing
    assert "A demonstration." not in missing
    source = course / "solutions/01_tiny.py"
    source.write_text(source.read_text().replace("A demonstration.", "A demonstratio."))
    build(root=course)
    assert "\n  A demonstratio." in stale(root=course)[path]
    assert '#, fuzzy\nmsgid "A demonstratio."\nmsgstr "시연입니다."' in path.read_text()
    text = (course / "lessons/ko/01_tiny.ipynb").read_text()
    assert "A demonstratio." in text
    assert "시연" not in text


def test_hand_made_change_to_a_translated_notebook_is_named(course):
    build(root=course)
    path = course / "lessons/ko/01_tiny.ipynb"
    path.write_text(path.read_text().replace("A demonstration", "Another"))
    assert path in stale(root=course)


def test_building_twice_changes_nothing(course):
    build(root=course)
    fill(course, CATALOGUE)
    build(root=course)
    assert build(root=course) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            'msgid "{1} of {2}"\nmsgstr "{1} 중"\n',
            "must hold the same values: {1}, {2}",
        ),
        ("no catalogue at all", "is no catalogue"),
    ],
)
def test_damaged_catalogue_is_named(course, text, fault):
    path = catalogue_path("ko", "common", course)
    path.write_text(f'msgid ""\nmsgstr ""\n\n{text}')
    with pytest.raises(CourseError, match=re.escape(fault)) as caught:
        build(root=course)
    assert str(path) in str(caught.value)
