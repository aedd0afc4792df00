"""Known wrong answers fail what they should; other right ones get all points.

A wrong answer's docstring says what its check must find out. `Told:` is the likely
cause that a learner reads, or "none"; `Fails:` are the statements that do not hold.

Each answer is set into the solved lesson's namespace, and the checks that it can touch
are run, hidden cases included, as a notebook runs them, and for some of them as a judge
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

from coursekit import reference_checks
from coursekit.i18n import translated
from coursekit.outcomes import FAILS, LATER
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
        verdicts = lesson.verdicts(answer, exercise)
        if lesson.judge and exercise not in SLOW and is_graded(answer):
            assert lesson.verdicts(answer, exercise, by="grader") == verdicts
        verdict = verdicts.pop(exercise)
        assert {other.outcome for other in verdicts.values()} <= {Outcome.PASSED}
        assert not any(one.standing == LATER for one in verdict.statements)
        failed = [one for one in verdict.statements if one.standing == FAILS]
        if kind == "right":
            assert (verdict.outcome, verdict.share) == (Outcome.PASSED, 1), failed
            return
        assert verdict.outcome in (Outcome.PARTLY, Outcome.FAILED, Outcome.RAISED)
        assert verdict.share < 1
        assert [one.name for one in failed] == said(answer, "Fails").split("; ")
        shown = [one for one in failed if one.rows]  # others say "see above"
        causes = [dict(one.rows).get("likely", "none") for one in shown]
        assert said(answer, "Told") in causes
        assert not lesson.judge or untranslated(verdict, lesson) == []

    @pytest.mark.skipif(not EVERY, reason="with ANSWERS=all")
    @pytest.mark.parametrize("seed", range(100, 108))
    def test_right_answers_are_right_whatever_cases_are_drawn(
        self, seed, lesson, monkeypatch
    ):
        # Each class has one of its own.
        monkeypatch.setattr(reference_checks, "seed", seed)
        for exercise in {*lesson.exercises} - {*SLOW}:
            own = [path for path in RIGHT if path.parent.name == self.path.stem]
            own = [path for path in own if path.stem.startswith(f"{exercise}__")]
            answer = own[seed % len(own)]
            verdict = lesson.verdicts(answer, exercise, by="grader")[exercise]
            assert verdict.outcome == Outcome.PASSED, (answer.stem, verdict)

    def test_answer_says_what_it_stands_for(self, answer):
        assert re.fullmatch(r"\w+?__(wrong|right)__\w+", answer.stem)
        assert ast.get_docstring(ast.parse(answer.read_text()))

    def test_each_wrong_answer_says_what_fails_and_what_is_told(self, lesson):
        own = [path for path in WRONG if path.parent.name == self.path.stem]
        for path in own:
            exercise = path.stem.split("__")[0]
            check = lesson.checks.checks[exercise]
            failed = said(path, "Fails").split("; ")
            stated = [*check.essential, *check.others]
            assert failed == [one for one in stated if one in failed], path.stem
            assert said(path, "Told"), path.stem

    def test_each_exercise_has_three_wrong_and_six_right_answers(self, lesson):
        every = (*RIGHT, *WRONG)
        own = [path.stem for path in every if path.parent.name == self.path.stem]
        for exercise in lesson.exercises:
            assert sum(name.startswith(f"{exercise}__wrong__") for name in own) >= 3
            assert sum(name.startswith(f"{exercise}__right__") for name in own) >= 6


def is_graded(answer):
    """Tells whether the judge is asked, too: a fifth, with `ANSWERS=all` all."""
    return EVERY or zlib.crc32(answer.stem.encode()) % 5 == 0


def said(answer, label):
    """Reads what stands behind a label at the end of a wrong answer's docstring."""
    text = ast.get_docstring(ast.parse(answer.read_text()))
    found = re.search(rf"\n{label}: (.+?)(?=\n[A-Z][a-z]+: |\Z)", text, re.DOTALL)
    return " ".join(found[1].split()) if found else f"a line with {label}: is missing"


def untranslated(verdict, lesson):
    """Lists what a learner who reads another language is told in English.

    What hidden cases alone say is in no catalogue.
    """
    told = []
    for one in verdict.statements:
        rows = dict(one.rows)
        told += [one.name, rows.get("likely", "")]
        if not re.match(r"\w+(Error|Exception|Exit): ", one.headline):
            told.append(one.headline)  # else it is what an answer raised
    told = [text for text in told if not any(p.fullmatch(text) for p in lesson.hidden)]
    return [text for text in told if " " in text and translated(text, "ko") == text]


for path in SOURCES:
    name = f"Test_{path.stem}"
    globals()[name] = type(name, (Answers,), {"path": path})
