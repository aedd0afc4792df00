"""Checks and set-up speak the learner's language; what it lacks stays English."""

import sys
import types

import pytest

from coursekit import setup
from coursekit.card import text_card
from coursekit.context import current_context
from coursekit.i18n import columns, language, translated, wrapped
from coursekit.notice import Notice
from coursekit.outcomes import FAILS, StatementResult, Verdict

MESSAGES = {
    "{1} has shape {2}.": "{1}의 모양은 {2}입니다.",
    "{1}, not {2}": "{2}이 아니라 {1}",
    "The result": "결과",
    "{1} is {2}, not {3}.": "{1}은(는) {3}이 아니라 {2}입니다.",
    "{1} of {2}": "{2} 중 {1}",
    "{1} of {2} point{3}": "{2}점 중 {1}점",
    "wrong": "틀림",
    "seen": "결과",
    "COURSE_LANGUAGE={1}, but it has none.": "COURSE_LANGUAGE={1}: 없음.",
}


@pytest.fixture(autouse=True)
def small_catalogue(monkeypatch, tmp_path):
    """A language of the test's own, spoken in a folder of its name."""
    name = "coursekit.messages_xx"
    module = types.ModuleType(name)
    module.MESSAGES = MESSAGES
    module.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("COURSE_LANGUAGE", raising=False)
    folder = tmp_path / "xx"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_folder_chooses_the_language_and_the_environment_overrules_it(monkeypatch):
    assert language() == "xx"
    monkeypatch.setenv("COURSE_LANGUAGE", "en")
    assert language() == "en"
    assert translated("wrong") == "wrong"


@pytest.mark.parametrize("name", ["lessons", "my.class 2", "en", "한국어"])
def test_other_folders_speak_english(small_catalogue, monkeypatch, name):
    folder = small_catalogue / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert language() == "en"


def test_values_go_to_their_places_and_are_translated_themselves():
    seen = translated("The result has shape [8, 2], not [8].")
    assert seen == "결과의 모양은 [8]이 아니라 [8, 2]입니다."


def test_message_without_a_translation_stays():
    text = "Devices 0-3 hold { a brace } and \\1."
    assert translated(text) == text


def test_values_that_look_like_patterns_stay_as_they_are():
    said = translated(r"The result has shape {2} \1 (.*).")
    assert said == r"결과의 모양은 {2} \1 (.*)입니다."


def test_message_of_hardly_a_word_matches_no_sentence():
    text = "a number of the rows"
    assert translated(text) == text
    assert translated("2 of 3") == "3 중 2"


def test_a_language_that_was_chosen_overrules_folder_and_environment(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "xx")
    monkeypatch.setattr(current_context(), "language", "en")
    assert language() == "en"
    assert translated("wrong") == "wrong"


def test_an_english_plural_leaves_nothing_behind():
    assert translated("1 of 1 point") == "1점 중 1점"
    assert translated("1.5 of 3 points") == "3점 중 1.5점"


@pytest.mark.parametrize("name", ["s", "seen", "right", "total"])
def test_a_learners_name_stays_whatever_it_is(name):
    said = translated(f"{name} is not defined.", "ko")
    assert said == f"정의되지 않은 이름입니다: {name}."
    said = translated(f'The result has no entry "{name}".', "ko")
    assert f'"{name}"' in said and not said.isascii()


def test_a_notice_and_a_card_are_translated():
    assert str(Notice("COURSE_LANGUAGE=yy, but it has none.")) == (
        "COURSE_LANGUAGE=yy: 없음."
    )
    rows = ("seen", "1 of 2"), ("expected", "f32[2]")
    failed = StatementResult("sum", True, 0, FAILS, "The result has shape [1].", rows)
    verdict = Verdict("shard", "wrong", 0, (failed,))
    first, _, *told = text_card(verdict, points=2).splitlines()
    assert first.split("  ")[:2] == ["shard", "틀림"] and first.endswith("2점 중 0점")
    assert told == [
        "    결과의 모양은 [1]입니다.",
        "    결과        2 중 1",
        "    expected    f32[2]",
    ]


def test_long_text_is_broken_by_its_columns():
    lines = wrapped("가나다라 " * 30, 40, "  ")
    assert max(map(columns, lines)) <= 40
    assert all(line.startswith("  가") for line in lines[1:])
    assert " ".join(map(str.strip, lines)) == ("가나다라 " * 30).strip()


def test_unknown_language_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "yy")
    with pytest.raises(setup.SetupError, match=r"COURSE_LANGUAGE=yy.*Unset"):
        setup.check_language(language())
