"""Untrusted text comes out plain, visible, whole and no longer than asked."""

import pytest

from grader.submissions.clean_text import clean_line, clean_text, quoted

CASES = {
    "colours": ("\x1b[1;31mred\x1b[0m", "red"),
    "colours in C1": ("\x9b31mred\x9b0m", "red"),
    "cursor and screen": ("\x1b[2J\x1b[10;1Hat the top\x1b[K", "at the top"),
    "OSC-8 link": (
        "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\ me",
        "click me",
    ),
    "OSC-8 link, ended by BEL": (
        "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
        "click",
    ),
    "OSC in C1": ("\x9d0;window title\x9cafter", "after"),
    "OSC without an end": ("before\x1b]0;title\nnext line", "before\nnext line"),
    "DCS": ("\x1bP1$r0m\x1b\\after", "after"),
    "charset and keypad": ("\x1b(B\x1b=text", "text"),
    "lone escape": ("a\x1b", "a"),
    "control characters": ("a\x00b\x07c\x08d\x0be\x7ff\x85g", "abcdefg"),
    "tab and newline stay": ("a\tb\nc", "a\tb\nc"),
    "other line ends": ("a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"),
    "bidi overrides": ("\u202egnp.exe\u202c", "gnp.exe"),
    "bidi isolates": ("\u2066a\u2067b\u2068c\u2069", "abc"),
    "direction marks": ("a\u200e\u200f\u061cb", "ab"),
    "without width": ("pass\u200bword\ufeff\u2060\u00ad", "password"),
    "joiner in Persian": ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    "joiner in an emoji": ("\U0001f469\u200d\U0001f52c", "\U0001f469\u200d\U0001f52c"),
    "blank letters": ("a\u3164\u115f\uffa0b", "ab"),
    "tag characters": ("a\U000e0041\U000e0042b", "ab"),
    "lone surrogates": ("a\ud800b\udfffc", "abc"),
    "accents stay": ("Zoe\u0308 Ł 東京 ✓ \U0001f600", "Zoe\u0308 Ł 東京 ✓ \U0001f600"),
    "markup is the page's business": ("<b>&amp;</b>", "<b>&amp;</b>"),
    "empty": ("", ""),
}


@pytest.mark.parametrize("text, shown", CASES.values(), ids=CASES)
def test_only_visible_text_is_left(text, shown):
    assert clean_text(text, 1000) == shown
    assert shown == clean_text(shown, 1000), "cleaning twice changes nothing"


def test_long_text_is_cut_and_says_so():
    assert clean_text("abcdefghij", 10) == "abcdefghij"
    assert clean_text("abcdefghijk", 10) == "abcdef ..."
    assert clean_text("one two three", 11) == "one two ..."


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 5, 100])
@pytest.mark.parametrize(
    "text", ["a" * 5_000_000, "\x1b]8;;" * 1_000_000, "\u200c" * 10**6]
)
def test_result_is_never_longer_than_the_limit(text, limit):
    assert len(clean_text(text, limit)) <= limit


def test_text_hidden_behind_escapes_is_marked_as_cut():
    assert clean_text("\x1b[0m" * 1_000_000 + "end", 100).endswith(" ...")


def test_line_has_single_spaces():
    assert clean_line(" a\n\n b\t\x1b[31mc\r", 100) == "a b c"
    assert clean_line("word " * 100, 20) == "word word word w ..."


def test_name_is_quoted_on_one_visible_line():
    assert quoted("ada\n\x1b[31m\u202e.ipynb") == '"ada .ipynb"'
