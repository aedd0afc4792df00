"""Known wrong answers lose the points of their check alone; other right ones get all.

Each answer is set into the solved lesson's namespace, and the checks that it can touch
are run, hidden tests included, as a notebook runs them, and for some of them as a judge
does, too, in this process: a kernel for each of hundreds of answers would take an hour.

`ANSWERS=all` takes all answers, by both roads, and right ones with other hidden cases.
By default every eighth wrong answer is tried, and every twelfth right one, which runs
through a whole check (none of `fit`, whose check takes ten seconds);
`tests/end_to_end/test_known_answers.py` grades the first ones of half of the exercises.
`oldest` and `newest` take fewer.
"""

import ast
import faulthandler
import gc
import os
import re
import zlib
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from solved_lesson import EVERY, ROOT, SLOW, SOURCES, Lesson

from coursekit import likeness
from coursekit.i18n import translated
from grader.results import Outcome

RIGHT = sorted((ROOT / "solutions" / "answers").glob("*/*__right__*.py"))
WRONG = sorted((ROOT / "solutions" / "answers").glob("*/*__wrong__*.py"))
MUTANTS = 4  # wrong answers made by rules, of each lesson
MUTANT_S = 300  # one that hangs ends the process, and is named
# Which answer is the first that is tried beside another version of JAX.
FIRST = {"oldest": 1, "newest": 3}


def pytest_generate_tests(metafunc):
    choice = os.environ.get("ANSWERS")
    if "mutant" in metafunc.fixturenames:
        metafunc.parametrize("mutant", range(0 if choice in FIRST else MUTANTS))
    if "answer" in metafunc.fixturenames:
        quick = [path for path in RIGHT if not path.stem.startswith("fit__")]
        known = (*RIGHT, *WRONG) if EVERY else (*quick[4::12], *WRONG[3::8])
        if choice in FIRST:
            known = (*RIGHT[FIRST[choice] :: 24], *WRONG[FIRST[choice] :: 48])
        own = [path for path in known if path.parent.name == metafunc.cls.path.stem]
        metafunc.parametrize("answer", own, ids=lambda path: path.stem)


class Answers:
    """The tests of one lesson's known answers, which stay in one process."""

    path: Path

    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, programs):
        # Checks compile their small programs anew for each answer; most are the same.
        kept = programs(cls.path.stem, writes=True)
        with (
            # Learners' kernels run with JAX's usual promotion,
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
            # and their scripts with a kernel's flags.
            pytest.MonkeyPatch.context() as patch,
        ):
            for name, value in kept.items():
                patch.setenv(name, value)  # for scripts
                is_number = value.lstrip("-").isdigit()
                jax.config.update(name.lower(), int(value) if is_number else value)
            # A process keeps to the folder that it compiled into first.
            compilation_cache.reset_cache()
            lesson = Lesson(cls.path)
            gc.freeze()  # what the lesson has made stays, as in a judge
            yield lesson
            folder = Path(kept["JAX_COMPILATION_CACHE_DIR"])
            lesson.write_known(folder.with_suffix(".pickle"))
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
        assert any(folder.iterdir()), "no program was kept for kernels to read"

    @pytest.fixture(scope="class")
    @classmethod
    def mutants(cls):
        """A sample of the mutants of the lesson's solutions."""
        from catalog import read_mutants, sampled

        return sampled({cls.path: read_mutants(cls.path)}, MUTANTS)[cls.path]

    # First: of a mutant that leaves something behind, the right answers would tell.
    def test_no_mutant_lives_unless_the_contract_allows_it(
        self, mutant, mutants, lesson
    ):
        from catalog import key, right_by_contract
        from outcome import outcome_of

        mutant = mutants[mutant]
        faulthandler.dump_traceback_later(MUTANT_S, exit=True)
        outcome = outcome_of(lesson, mutant.exercise, mutant.source)
        faulthandler.cancel_dump_traceback_later()
        assert outcome != "the check could not run", mutant
        assert outcome != "right" or key(vars(mutant)) in right_by_contract(), mutant

    def test_answer_gets_the_points_it_deserves_and_is_told_why(self, answer, lesson):
        exercise, kind, _ = answer.stem.split("__")
        told = lesson.outcomes(answer, exercise)
        if lesson.judge and exercise not in SLOW and is_graded(answer):
            assert lesson.outcomes(answer, exercise, by="grader") == told
        outcome, headline, rows = told.pop(exercise)
        assert outcome in (
            ("right",)
            if kind == "right"
            else (Outcome.FAILED.value, Outcome.RAISED.value)
        )
        assert {one for one, _, _ in told.values()} <= {"right"}
        if kind == "wrong":
            assert rows.get("likely", "none") == cause(answer)
            assert not lesson.judge or not untranslated(outcome, headline, rows, lesson)

    @pytest.mark.skipif(not EVERY, reason="with ANSWERS=all")
    @pytest.mark.parametrize("seed", range(100, 108))
    def test_right_answers_are_right_whatever_cases_are_drawn(
        self, seed, lesson, monkeypatch
    ):
        monkeypatch.setattr(likeness, "seed", seed)  # each class has one of its own
        for exercise in {*lesson.exercises} - {*SLOW}:
            own = [path for path in RIGHT if path.parent.name == self.path.stem]
            own = [path for path in own if path.stem.startswith(f"{exercise}__")]
            answer = own[seed % len(own)]
            told = lesson.outcomes(answer, exercise, by="grader")[exercise]
            assert told[0] == "right", (answer.stem, told)

    def test_answer_says_what_it_stands_for(self, answer):
        assert re.fullmatch(r"\w+?__(wrong|right)__\w+", answer.stem)
        assert ast.get_docstring(ast.parse(answer.read_text()))

    def test_each_exercise_has_three_wrong_and_six_right_answers(self, lesson):
        every = (*RIGHT, *WRONG)
        own = [path.stem for path in every if path.parent.name == self.path.stem]
        for exercise in lesson.exercises:
            assert sum(name.startswith(f"{exercise}__wrong__") for name in own) >= 3
            assert sum(name.startswith(f"{exercise}__right__") for name in own) >= 6


def is_graded(answer):
    """Tells whether the judge is asked, too: a fifth, with `ANSWERS=all` all."""
    return EVERY or zlib.crc32(answer.stem.encode()) % 5 == 0


def cause(answer):
    """Reads the cause that a wrong answer must be told: its docstring's last line."""
    text = ast.get_docstring(ast.parse(answer.read_text()))
    found = re.search(r"\nTold: (.+)\Z", text, re.DOTALL)
    return " ".join(found[1].split()) if found else "a line with Told: is missing"


def untranslated(outcome, headline, rows, lesson):
    """Lists what a learner who reads another language is told in English.

    What hidden tests say is told in feedback alone, and in no learner's module.
    """
    told = [rows[name] for name in ("likely",) if name in rows]
    if outcome == Outcome.FAILED.value:  # else it is what the learner's code raised
        told.append(headline)
    for name in ("holds", "fails", "untested"):
        told += rows.get(name, "").split("; ")
    told = [text for text in told if not any(p.fullmatch(text) for p in lesson.hidden)]
    return [text for text in told if " " in text and translated(text, "ko") == text]


for path in SOURCES:
    name = f"Test_{path.stem}"
    globals()[name] = type(name, (Answers,), {"path": path})
