"""Known wrong answers fail the statements they should; right ones get all points.

Each answer is run in the solved lesson's namespace, then the checks that it can touch,
hidden cases included: by the path of a notebook and, for every fifth answer, by that of
a judge, too. What other classes draw changes nothing. All of this is in one process:
kernels for all answers would take an hour.

By default every eighth wrong answer is tried, and every twelfth right one, which passes
through a whole check; `make test` tries those that take both paths. `ANSWERS=all` tries
all by both paths, and right ones with other hidden cases; `oldest` and `newest` try
fewer. `tests/end_to_end/test_known_answers.py` grades some of them in boxes.
"""

import ast
import collections
import faulthandler
import gc
import os
import re
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache
from known_answers import FOLDER, known_answers
from solved_lesson import EVERY, SLOW, SOURCES, Lesson

from coursekit.i18n import translated
from coursekit.outcomes import FAILS, LATER
from grader.results import Outcome

FILES = sorted(FOLDER.glob("*/*.py"))
RIGHT, WRONG = known_answers(kind="right"), known_answers(kind="wrong")
MUTANTS = 4  # wrong answers made by rules, of each lesson
MUTANT_S = 300  # one that hangs ends the process, and is named
# The first answer that is tried on another version of JAX.
FIRST = {"oldest": 1, "newest": 3}
CHOICE = os.environ.get("ANSWERS")
if EVERY:
    CHOSEN = [*RIGHT, *WRONG]
elif CHOICE in FIRST:
    CHOSEN = [*RIGHT[FIRST[CHOICE] :: 24], *WRONG[FIRST[CHOICE] :: 48]]
else:  # not those of `fit`, whose check takes ten seconds
    CHOSEN = [*[a for a in RIGHT if a.exercise != "fit"][4::12], *WRONG[3::8]]
JUDGED = {*(CHOSEN if EVERY else CHOSEN[::5])}  # by both paths
# In `make test`, which has three minutes.
QUICK = {one for one in CHOSEN[::20] if one.exercise != "fit"}
SEEDS = range(100, 108) if EVERY else ()
# Of classes. Right answers differ from the solution most by the rounding of those in
# ROUNDED.
ROUNDED = [24827953497020452807013752337905280633, 25]
DRAWS = range(150 if EVERY else 24)
# Each of its programs is compiled for several meshes: by default, so many classes draw.
FEWER_DRAWS = {"make_train_step": 6}
DECIDED_BY_DRAW = (  # once: by a distance of 0, by rounding that cancels
    *(
        "pairwise_distances: centred expansion",
        "pairwise_distances: expands the square",
    ),
    *("make_parallel_predict: forgets the bias", "shard_map_step: via sum and count"),
    *("diloco_round: fori loop", "mixed_precision_loss: max in bfloat16"),
)


def pytest_generate_tests(metafunc):
    if "mutant" in metafunc.fixturenames:
        metafunc.parametrize("mutant", range(0 if CHOICE in FIRST else MUTANTS))
    if "drawn" in metafunc.fixturenames:
        tried = [a for a in (*RIGHT, *WRONG) if a.exercise not in SLOW]
        decided = [one for one in tried if str(one) in DECIDED_BY_DRAW]
        sample = dict.fromkeys([*decided, *tried[5::192]])
        chosen = tried if EVERY else [] if CHOICE in FIRST else sample
        metafunc.parametrize(
            "drawn",
            [
                pytest.param(one, marks=() if one in decided else pytest.mark.slow)
                for one in chosen
                if one.lesson == metafunc.cls.path.stem
            ],
            ids=str,
        )
    if "answer" in metafunc.fixturenames:
        metafunc.parametrize(
            "answer",
            [
                pytest.param(one, marks=() if one in QUICK else pytest.mark.slow)
                for one in CHOSEN
                if one.lesson == metafunc.cls.path.stem
            ],
            ids=str,
        )


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

    # First: the right answers would show that a mutant left something behind.
    @pytest.mark.slow
    def test_no_mutant_passes_unless_the_contract_allows_it(
        self, mutant, mutants, lesson
    ):
        from catalog import key, right_by_contract
        from worker import outcome_of

        mutant = mutants[mutant]
        faulthandler.dump_traceback_later(MUTANT_S, exit=True)
        outcome = outcome_of(lesson, mutant.exercise, mutant.source)
        faulthandler.cancel_dump_traceback_later()
        assert outcome != "the check could not run", mutant
        assert outcome != "right" or key(vars(mutant)) in right_by_contract(), mutant

    @pytest.mark.slow
    def test_solutions_pass_their_checks(self, lesson):
        for exercise in {*lesson.exercises} - {*SLOW}:
            verdict = lesson.verdicts(exercise, lesson.solutions[exercise])[exercise]
            assert (verdict.outcome, verdict.share) == (Outcome.PASSED, 1), verdict

    def test_answer_gets_its_points_and_its_learner_is_shown_why(self, answer, lesson):
        given = answer.exercise, answer.source, str(answer)
        verdicts = lesson.verdicts(*given)
        if lesson.judge and answer in JUDGED and answer.exercise not in SLOW:
            assert lesson.verdicts(*given, judged=True) == verdicts
        verdict = verdicts.pop(answer.exercise)
        assert {other.outcome for other in verdicts.values()} <= {Outcome.PASSED}
        assert not any(one.standing == LATER for one in verdict.statements)
        failed = [one for one in verdict.statements if one.standing == FAILS]
        if answer.kind == "right":
            assert (verdict.outcome, verdict.share) == (Outcome.PASSED, 1), failed
            return
        assert verdict.outcome in (Outcome.PARTLY, Outcome.FAILED, Outcome.RAISED)
        assert verdict.share < 1
        assert tuple(one.name for one in failed) == answer.fails
        # A card without points says which essential statement failed.
        assert any(one.is_essential for one in failed) == (verdict.share == 0)
        shown = [one for one in failed if one.rows]  # others say "see above"
        assert answer.cause in [dict(one.rows).get("likely") for one in shown]
        assert not lesson.judge or untranslated(verdict, lesson) == []

    def test_no_draw_of_a_class_decides_about_a_statement(self, drawn, lesson):
        seeds = [*ROUNDED, *DRAWS] if drawn.kind == "right" else [*DRAWS[:24]]
        if not EVERY:
            seeds = seeds[: FEWER_DRAWS.get(drawn.exercise)]
        given = drawn.exercise, drawn.source, seeds, str(drawn)
        failed = {*lesson.failed_by_draw(*given)}
        if drawn.kind == "wrong" and len(failed) > 1:
            # The check's own cases, which no class draws, may decide all the same.
            failed = lesson.failed_in_classes(*given)
        assert failed == {()} if drawn.kind == "right" else len(failed) == 1

    @pytest.mark.parametrize("seed", SEEDS)
    def test_right_answers_are_right_whatever_cases_are_drawn(
        self, seed, lesson, monkeypatch
    ):
        # Each class has one of its own.
        monkeypatch.setattr(lesson.judge.context, "seed", seed)
        for exercise in {*lesson.exercises} - {*SLOW}:
            own = known_answers(self.path.stem, exercise, "right")
            answer = own[seed % len(own)]
            given = exercise, answer.source, str(answer)
            verdict = lesson.verdicts(*given, judged=True)[exercise]
            assert verdict.outcome == Outcome.PASSED, (answer.name, verdict)

    def test_each_exercise_has_answers_and_they_fail_statements_of_its_check(
        self, lesson
    ):
        files = {path.stem for path in (FOLDER / self.path.stem).iterdir()}
        assert files == {*lesson.exercises}
        for exercise in lesson.exercises:
            check = lesson.checks.checks[exercise]
            stated = [*check.essential, *check.others]
            for answer in known_answers(self.path.stem, exercise, "wrong"):
                failed = [one for one in stated if one in answer.fails]
                assert failed and failed == [*answer.fails], answer


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_holds_three_wrong_and_six_right_answers_which_say_what_they_are(path):
    answers = known_answers(path.parent.name, path.stem)
    kinds = collections.Counter(answer.kind for answer in answers)
    assert kinds["wrong"] >= 3 and kinds["right"] >= 6
    assert len({(answer.kind, answer.name) for answer in answers}) == len(answers)
    for answer in answers:
        assert ast.get_docstring(ast.parse(answer.source)), answer
        misspelled = re.findall(r"(?m)^# *(?:%%|cause).*", answer.source)
        assert misspelled == [], answer


def untranslated(verdict, lesson):
    """Lists the English text that a learner of another language would be shown.

    Messages of hidden cases alone are in no catalogue.
    """
    texts = []
    for one in verdict.statements:
        rows = dict(one.rows)
        texts += [one.name, rows.get("likely", "")]
        if not re.match(r"\w+(Error|Exception|Exit|Iteration): ", one.headline):
            texts.append(one.headline)  # else it is what an answer raised
    texts = [
        text for text in texts if not any(p.fullmatch(text) for p in lesson.hidden)
    ]
    return [text for text in texts if " " in text and translated(text, "ko") == text]


for path in SOURCES:
    name = f"Test_{path.stem}"
    globals()[name] = type(name, (Answers,), {"path": path})
