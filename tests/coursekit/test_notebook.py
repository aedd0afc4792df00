"""What a learner sees of a notebook's one line `check("double")`, and of its scorecard.

The lesson here has an exercise with hidden cases, one whose check calls it through a
helper of its own, and a bonus.
"""

import re
import types
from pathlib import Path
from xml.etree import ElementTree

import IPython.display
import jax
import nbclient
import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from coursekit import materials, notebook
from coursekit.card import Score
from coursekit.context import Context, current_context, within
from coursekit.notebook import check, checklist, example, scorecard

LESSONS = Path(notebook.__file__).resolve().parents[1]
VISIBLE = '''\
"""Checks of a lesson."""

import numpy as np

from coursekit.checks import hidden, visible
from coursekit.expect import expect, expect_close
from coursekit.hidden_cases import Case
from coursekit.learner import double, factor, negate, root
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import FACTS, expect_like_solution

X = np.float32([1, 2])


def twice(x):
    return negate(negate(x))


@visible("double", points=3, essential=["twice"], others=["host", "any size"])
def examples_of_double():
    seen = observe(double, X)
    with statement("twice"):
        expect_close(seen, factor() * X)
    with statement("host"):
        expect(seen, not seen.layout, "The result is on a device.")


@visible("negate", points=1, essential=["negative", "of itself"])
def examples_of_negate():
    with statement("negative"):
        expect_close(observe(negate, 3), -3)
    with statement("of itself"):
        expect_close(observe(twice, 4, axis=None), 4)


@visible("root", points=2, bonus=True, essential=["root"])
def examples_of_root():
    with statement("root"):
        expect_close(observe(root, 4.0), 2.0)
'''
HIDDEN = """\
@hidden("double")
def cases_of_double():
    def cases(rng):
        for size in (1, 5):
            yield Case(np.float32(rng.normal(size=size)))

    free = {" ".join(fact for fact in FACTS if fact != "value"): "nothing is said"}
    expect_like_solution(double, cases, value=("twice", "any size"), free=free)
"""
SOLUTION = """\
# %% setup=true

# %%
def factor():
    return 2

# %% exercise="double" minutes=3 difficulty=1
def double(x):
    ### BEGIN SOLUTION
    return factor() * x  # <ours>
    ### END SOLUTION

# %% check="double"

# %% exercise="negate" minutes=3 difficulty=1
def negate(x):
    return -x

# %% exercise="root" minutes=3 difficulty=1
def root(x):
    return x**0.5
"""
GIVEN = "def factor():\n    return 2\n"
DOUBLE = "def double(x):\n    return 2 * x\n"
FOR_TWO = "def double(x):\n    return 2 * x if len(x) == 2 else x\n"
RIGHT = (DOUBLE, "def negate(x):\n    return -x\n", "def root(x):\n    return x**0.5\n")


@pytest.fixture
def shell(monkeypatch, tmp_path):
    """A shell in this process, which runs cells as a notebook's kernel does."""
    folder = tmp_path / "solutions"
    (folder / "checks").mkdir(parents=True)
    (folder / "01_tiny.py").write_text(SOLUTION)
    (folder / "checks" / "01_tiny.py").write_text(f"{VISIBLE}\n\n{HIDDEN}")
    monkeypatch.setattr(materials, "solutions_folder", lambda: folder)
    settings = Config({"HistoryManager": {"enabled": False}})
    module = types.ModuleType("notebook")
    shell = InteractiveShell.instance(config=settings, user_module=module)
    shell.user_ns |= {name: getattr(notebook, name) for name in notebook.__all__}
    with within(Context("01_tiny")):
        run(shell, GIVEN)
        yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def class_release(monkeypatch):
    """As in a class's release: no solutions, and checks without hidden cases."""
    monkeypatch.setattr(materials, "solutions_folder", lambda: None)
    monkeypatch.setattr(materials, "checks_of", lambda lesson: (VISIBLE, False))


def run(shell, *cells):
    """Runs cells, none of which raises; returns the value of the last one."""
    for source in cells:
        result = shell.run_cell(source)
        result.raise_error()
    return result.result


def told(shell, *cells, exercise="double"):
    """Runs cells, then the check; returns its score and all texts of its card."""
    score = run(shell, *cells, f'check("{exercise}")')
    assert isinstance(score, Score)
    card = score._repr_html_().replace("<br>", "<br/>")
    return score, [*ElementTree.fromstring(card).itertext()]


def row(texts, label):
    """Returns the first text that stands behind a label of the card."""
    return texts[texts.index(label) + 1]


def test_a_right_answer_gets_its_points_and_sees_our_solution(shell, capsys):
    score, texts = told(shell, DOUBLE)
    assert repr(score) == "3"
    assert texts[:3] == ["double", "right", "3 of 3 points"]
    assert "Our solution" in texts and "# <ours>" in texts[-1]
    assert "SOLUTION" not in texts[-1]
    first, *statements = capsys.readouterr().out.splitlines()[:4]  # in a terminal
    assert first.split("  ")[:2] == ["double", "right"]
    assert [line[0] for line in statements] == ["✓", "✓", "✓"]


def test_a_part_of_it_gets_a_part_of_the_points_and_no_solution(shell):
    source = "import jax.numpy as jnp\ndef double(x):\n    return 2 * jnp.asarray(x)\n"
    score, texts = told(shell, source)
    assert texts[:3] == ["double", "partly right", "2.25 of 3 points"]
    assert repr(score) == "2.25"
    assert "The result is on a device." in texts
    assert "Our solution" not in texts


COUNTED = SOLUTION.replace(
    "    return factor() * x", "    calls.append(1); return 2 * x"
)
CALLING = "def factor():\n    return negate(-2)\n"  # a learner's function


def test_what_solutions_do_is_found_out_once(shell):
    """A check that is repeated calls none, also of another answer."""
    (materials.solutions_folder() / "01_tiny.py").write_text(COUNTED)
    run(shell, "calls = []")
    told(shell, DOUBLE)
    context, calls = current_context(), shell.user_ns["calls"]
    kept = context.module, context.solved, len(calls)
    assert told(shell, "def double(x):\n    return x + x\n")[1][1] == "right"
    assert (context.module, context.solved, len(calls)) == kept
    run(shell, "calls = []")  # another list, which the solution of before does not know
    told(shell, DOUBLE)
    assert len(shell.user_ns["calls"]) == kept[2]


def test_an_answer_that_a_solution_calls_through_the_lesson_is_that_of_now(shell):
    run(shell, CALLING, RIGHT[1])
    assert told(shell, DOUBLE)[1][1] == "right"
    times_three = "def double(x):\n    return 3 * x\n"
    score, _ = told(
        shell, times_three, "def negate(x):\n    return 3 if x == -2 else x"
    )
    assert repr(score) == "3"


def test_two_lessons_live_in_one_process(shell):
    told(shell, DOUBLE)
    other = Context("02_other", language="ko")
    folder = materials.solutions_folder()
    (folder / "checks" / "02_other.py").write_text(VISIBLE.replace("factor()", "5"))
    with within(other):
        score, texts = told(shell, "def double(x):\n    return 5 * x\n")
    assert (repr(score), texts[1]) == ("3", "맞음")
    assert [*other.results] == [*current_context().results] == ["double"]
    score, texts = told(shell, DOUBLE)
    assert (repr(score), texts[1]) == ("3", "right")


AT_WORK = """\
@needs("double", "negate")
def _():
    print("at work:", negate(double(np.float32(3))))
"""


def test_a_cell_runs_the_learners_functions_once_their_checks_pass(shell, capsys):
    def printed():
        run(shell, "import numpy as np", AT_WORK)
        return capsys.readouterr().out

    waits = "This cell runs your own code. First solve: {}.\n"
    assert printed() == waits.format("double, negate")
    told(shell, RIGHT[1], exercise="negate")
    told(shell, FOR_TWO)  # it fails an essential statement
    capsys.readouterr()
    assert printed() == waits.format("double")
    told(
        shell, "import jax.numpy as jnp\ndef double(x):\n    return 2 * jnp.asarray(x)"
    )
    capsys.readouterr()  # partly right: it lacks a side statement
    assert printed() == "at work: -6.0\n"


def test_predictions_are_compared_kept_and_counted(shell, capsys):
    run(shell, 'prediction("bytes", 8, None)', "scorecard()")
    assert "redict" not in capsys.readouterr().out  # none was made
    run(shell, 'prediction("bytes", 8, 4)', 'prediction("shape", (8, 2), "(8,2)")')
    run(shell, 'prediction("seconds", 0.41, 0.4)', 'prediction("devices", 0, 3)')
    assert capsys.readouterr().out.splitlines() == [
        "bytes: you predicted 4, and it is 8.",
        "shape: (8, 2), as you predicted.",
        "seconds: 0.41, as you predicted.",
        "devices: you predicted 3, and it is 0.",
    ]
    run(shell, "scorecard()")
    assert capsys.readouterr().out.endswith("Predictions: 2 of 4 right.\n")
    run(shell, 'prediction("devices", 8, 2)', "scorecard()")  # a second try counts
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.endswith("2 of 4 right, the others off by a factor of 4 (the median).")


def test_a_class_may_ask_for_all_or_nothing(shell):
    current_context().partial_credit = False
    source = "import jax.numpy as jnp\ndef double(x):\n    return 2 * jnp.asarray(x)\n"
    score, texts = told(shell, source)
    assert texts[:3] == ["double", "wrong", "0 of 3 points"]
    assert repr(score) == "0"
    assert repr(told(shell, DOUBLE)[0]) == "3"


def test_points_may_be_others_than_the_lesson_says(shell):
    assert repr(run(shell, DOUBLE, 'check("double", points=10)')) == "10"


def test_what_only_hidden_cases_show_is_shown_like_the_rest(shell):
    score, texts = told(shell, FOR_TWO)
    assert repr(score) == "0" and texts[1] == "wrong"
    assert row(texts, "called") == "double(f32[1])"
    assert row(texts, "expected") == "what the solution gives here, up to rounding"


def test_the_line_again_repeats_a_failed_call(shell):
    _, texts = told(shell, FOR_TWO)
    line = row(texts, "again")
    assert line == "observe(double, *example(1))"
    seen = run(shell, line)
    assert seen.call == row(texts, "called")
    [x] = run(shell, "example(1)")
    np.testing.assert_array_equal(seen.value, x)  # the wrong answer gives x


def test_a_call_by_the_checks_own_helper_can_be_repeated(shell):
    _, texts = told(shell, "def negate(x):\n    return 3 - 2 * x\n", exercise="negate")
    lines = [texts[k + 1] for k, text in enumerate(texts) if text == "again"]
    assert lines == ["observe(example(1).function, *example(1))"]
    seen = run(shell, *lines)
    assert seen.call == row(texts, "called") == "twice(4)"
    assert seen.value == 3 - 2 * (3 - 2 * 4)


def test_how_a_call_was_observed_is_repeated_too(shell, monkeypatch):
    source = VISIBLE.replace("observe(double, X)", 'observe(double, X, axis="i")')
    monkeypatch.setattr(materials, "checks_of", lambda lesson: (source, False))
    _, texts = told(shell, "def double(x):\n    return x\n")
    assert row(texts, "again") == "observe(double, *example(1), axis='i')"
    assert run(shell, row(texts, "again")).layout[""][1].device == 1


def test_examples_count_the_failed_calls_of_the_last_check(shell):
    with pytest.raises(notebook.NoExample) as error:
        run(shell, "example(1)")
    assert str(error.value).startswith("There is no example 1: the last check showed 0")
    told(shell, FOR_TWO)
    assert run(shell, "example(1)") is example(1)
    with pytest.raises(notebook.NoExample, match="no example 2"):
        example(2)
    told(shell, DOUBLE)
    with pytest.raises(notebook.NoExample):
        example(1)


def test_a_misspelt_name_lists_the_names(shell, capsys):
    score, texts = told(shell, exercise="duoble")
    assert repr(score) == "0"
    assert any("double, negate, root" in text for text in texts)
    assert "double, negate, root" in capsys.readouterr().out


def test_before_the_set_up_cell_has_run_a_check_asks_for_it(shell):
    current_context().lesson = ""
    score, texts = told(shell, DOUBLE)
    assert repr(score) == "0"
    assert any("run the set-up cell first" in text for text in texts)


def test_an_exercise_whose_cell_was_not_run_was_not_attempted(shell):
    score, texts = told(shell)
    assert repr(score) == "0"
    assert texts[1] == "not attempted yet"
    assert any(text.startswith("double is not defined") for text in texts)


def test_a_stub_was_not_attempted(shell):
    stub = 'def double(x):\n    raise NotImplementedError("not written yet")\n'
    score, texts = told(shell, stub)
    assert repr(score) == "0"
    assert texts[1] == "not attempted yet"
    assert "double still holds its stub." in texts


def test_a_function_of_the_lesson_that_is_missing_is_named(shell):
    score, texts = told(shell, DOUBLE, "del factor")
    assert repr(score) == "0"
    assert texts[1] == "not attempted yet"
    assert "factor is not defined." in texts


def test_a_solution_whose_own_names_are_missing_raises_nothing(shell):
    """A learner may skip the cell of a function that a solution is decorated with."""
    path = materials.solutions_folder() / "01_tiny.py"
    path.write_text(SOLUTION.replace("def negate", "@of_a_cell\ndef negate"))
    assert told(shell, DOUBLE)[1][1] == "right"
    score, texts = told(shell, RIGHT[1], exercise="negate")
    assert (repr(score), texts[1]) == ("0", "not attempted yet")
    assert any(text.startswith("of_a_cell is not defined") for text in texts)
    path.write_text(SOLUTION.replace("def negate", "1 / 0\ndef negate"))
    score, texts = told(shell, DOUBLE)
    assert (repr(score), texts[1]) == ("0", "the check could not run")


def test_an_error_shows_the_learners_own_lines(shell):
    source = "def part(x):\n    return 1 / 0\n\ndef double(x):\n    return part(x)\n"
    score, texts = told(shell, source)
    assert repr(score) == "0"
    assert texts[1] == "your code raised"
    assert "ZeroDivisionError: division by zero" in texts
    place = texts.index("where")
    assert texts[place + 1 : place + 3] == [
        "in double, line 5: return part(x)",
        "in part, line 2: return 1 / 0",
    ]


def test_an_error_under_a_helper_of_the_check_shows_the_learners_line(shell):
    source = "def negate(x):\n    return -3 if x == 3 else 1 / 0\n"
    _, texts = told(shell, source, exercise="negate")
    assert row(texts, "called") == "twice(4)"
    assert row(texts, "where").startswith("in negate, line 2: return -3 if x == 3")


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_broken_check_is_the_courses_fault(shell, monkeypatch, is_hidden):
    source = f"{VISIBLE}\n\n{HIDDEN}"
    broken = "    def cases(rng):" if is_hidden else "    seen = observe(double, X)"
    source = source.replace(broken, f"    1 / 0\n{broken}")
    monkeypatch.setattr(materials, "checks_of", lambda lesson: (source, True))
    score, texts = told(shell, DOUBLE)
    assert repr(score) == "0"
    assert texts[1] == "the check could not run"
    assert "ZeroDivisionError: division by zero" in texts


KINDS = {
    "class": """
class Doubled:
    def __new__(cls, x):
        return ANSWER

double = Doubled
""",
    "object": """
class Doubled:
    def __call__(self, x):
        return ANSWER

double = Doubled()
""",
    "partial": """
import functools
def of_some(factor, x):
    return ANSWER

double = functools.partial(of_some, 2)
""",
    "lambda": "double = lambda x: ANSWER",
    "another name": "def mine(x):\n    return ANSWER\ndouble = mine",
    "decorated": """
def counted(function):
    def inner(*arguments):
        return function(*arguments)
    return inner

@counted
def double(x):
    return ANSWER
""",
}


@pytest.mark.parametrize("source", KINDS.values(), ids=KINDS.keys())
def test_an_answer_need_be_no_function_of_its_name(shell, source):
    score, texts = told(shell, source.replace("ANSWER", "2 * x"))
    assert (repr(score), texts[1]) == ("3", "right")
    _, texts = told(shell, source.replace("ANSWER", "3 * x"))
    assert texts[1] == "wrong"
    seen = run(shell, row(texts, "again"))
    np.testing.assert_array_equal(seen.value, [3, 6])
    # What hidden cases alone show: they compare with our solution, not with itself.
    _, texts = told(shell, source.replace("ANSWER", "2 * x if len(x) == 2 else x"))
    assert texts[1] == "wrong"
    [x] = run(shell, "example(1)")
    np.testing.assert_array_equal(run(shell, row(texts, "again")).value, x)


def test_the_visible_examples_can_be_read(shell, capsys):
    shown = run(shell, DOUBLE, 'check("double", show=True)')
    assert repr(shown) == "3"
    out = capsys.readouterr().out
    assert out.startswith("def examples_of_double():\n    seen = observe(double, X)\n")
    assert "cases" not in out


def test_a_learner_may_take_every_name_that_the_notebook_brings(shell):
    taken = [name for name in notebook.__all__ if name != "check"]
    taken += ["statement", "visible", "hidden", "expect_close", "expect", "np", "Case"]
    source = "\n".join(f"{name} = 'mine'" for name in taken)
    score, texts = told(shell, source, RIGHT[0])
    assert (repr(score), texts[1]) == ("3", "right")
    assert run(shell, "observe") == "mine"
    score, texts = told(shell, FOR_TWO)
    assert (repr(score), texts[1]) == ("0", "wrong")
    for one in ("X = None", "def twice(x):\n    return 'mine'\n", RIGHT[1]):
        run(shell, one)
    assert told(shell, exercise="negate")[1][1] == "right"


def test_a_check_leaves_no_names_in_the_notebook(shell):
    run(shell, *RIGHT)
    before = dict(shell.user_ns)
    for exercise in ("double", "negate", "root"):
        told(shell, exercise=exercise)
    changed = {n for n, value in shell.user_ns.items() if before.get(n) is not value}
    assert all(name.startswith("_") for name in changed)  # IPython's own
    assert before.keys() <= shell.user_ns.keys()


def test_a_class_release_never_says_that_all_is_right(shell, class_release, capsys):
    score, texts = told(shell, DOUBLE)
    assert repr(score) == "3"
    assert texts[:3] == [
        "double",
        "right on the examples",
        "up to 3 of 3 points so far",
    ]
    later = "One more statement is tried when your work is graded."
    assert later in texts
    assert "Our solution" not in texts
    score, texts = told(shell, RIGHT[1], exercise="negate")
    assert texts[1] == "right on the examples"
    assert "Other cases are tried when your work is graded." in texts
    score, texts = told(shell, FOR_TWO)  # what the examples do not show
    assert texts[1] == "right on the examples"
    run(shell, "scorecard()", 'checklist({"it doubles": "double"})')
    assert not re.search("right(?! on the examples)", capsys.readouterr().out)


def test_on_fewer_devices_than_hidden_cases_use_the_examples_decide(shell, monkeypatch):
    monkeypatch.setattr(notebook, "MOST_DEVICES", 16)
    score, texts = told(shell, FOR_TWO)
    assert (repr(score), texts[1]) == ("3", "right on the examples")


def test_a_check_leaves_jaxs_settings_as_they_were(shell):
    before = dict(jax.config.values)
    told(shell, DOUBLE)
    told(shell, "def double(x):\n    return 1 / 0\n")
    assert jax.config.values == before


@pytest.mark.parametrize("somebody_watches", [True, False])
def test_a_line_counts_the_calls_where_somebody_watches(
    shell, monkeypatch, somebody_watches
):
    shown = []
    line = types.SimpleNamespace(update=lambda html: shown.append(html.data))
    monkeypatch.setattr(IPython.display, "display", lambda _, display_id: line)
    # A front end that executes a whole notebook lets no cell ask for input.
    shell.kernel = types.SimpleNamespace(_allow_stdin=somebody_watches)
    assert told(shell, DOUBLE)[1][1] == "right"
    assert bool(shown) == somebody_watches
    if shown:
        assert "double: call 1 of the check ..." in shown[0]
        assert "double: call 2 of the check ..." in shown[1]
        assert shown[-1] == ""


def test_hidden_cases_in_a_cell_are_tried_as_nbgrader_puts_them_back(
    shell, class_release
):
    solved = re.search(r"(?s)def double.*?\n\n", SOLUTION)[0]
    cell = (
        f"from coursekit.checks import hidden, solution\nsolution('''{solved}''')\n\n"
        f'{HIDDEN}\n\ncheck("double")'
    )
    assert repr(run(shell, FOR_TWO, cell)) == "0"
    assert repr(run(shell, DOUBLE, cell)) == "3"
    assert "right on the examples" in told(shell, RIGHT[1], exercise="negate")[1]


def test_a_bonus_is_worth_0_to_nbgrader_and_its_points_to_the_learner(shell):
    score, texts = told(shell, *RIGHT, exercise="root")
    assert repr(score) == "0"
    assert texts[:3] == ["root", "right", "2 of 2 bonus points"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_stays_one_and_leaves_no_outcome(shell, capsys, kind):
    told(shell, DOUBLE)
    run(shell, f"def factor():\n    raise {kind.__name__}\n")
    with pytest.raises(kind):
        check("double")
    capsys.readouterr()
    scorecard()
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "double  0 of 3  check not run yet"


def card(shell, capsys):
    capsys.readouterr()
    run(shell, "scorecard()")
    return capsys.readouterr().out.splitlines()


def test_the_scorecard_lists_the_latest_outcomes(shell, capsys):
    assert card(shell, capsys) == [
        "double  0 of 3  check not run yet",
        "negate  0 of 1  check not run yet",
        "root    0 bonus points  check not run yet",
        "total   0 of 4",
    ]
    told(shell, *RIGHT)
    assert card(shell, capsys)[-2:] == [
        "tried so far  3 of 3",
        "total         3 of 4",
    ]
    told(shell, exercise="root")
    told(shell, "def negate(x):\n    return x\n", exercise="negate")
    assert card(shell, capsys) == [
        "double  3 of 3  right",
        "negate  0 of 1  wrong",
        "root    2 bonus points  right",
        "total   3 of 4 and 2 bonus points",
    ]
    told(shell, RIGHT[1], exercise="negate")
    told(shell, "def double(x):\n    return 1 / 0\n")
    assert card(shell, capsys)[:2] == [
        "double  0 of 3  your code raised",
        "negate  1 of 1  right",
    ]
    told(shell, "import jax\ndef double(x):\n    return jax.numpy.multiply(2, x)\n")
    assert card(shell, capsys)[0] == "double  2.25 of 3  partly right"


def test_a_checklist_ticks_what_has_passed(shell, capsys):
    told(shell, *RIGHT)
    told(shell, "def negate(x):\n    return x\n", exercise="negate")
    capsys.readouterr()
    checklist({"one sync": "double", "no copy": "negate", "a log": "root"})
    assert capsys.readouterr().out.splitlines() == [
        "[x] one sync (double)",
        "[ ] no copy (negate)",
        "[ ] a log (root)",
    ]


NOISY = """
import sys, warnings
def double(x):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    warnings.warn("careful")
    return 2 * x
"""


def test_a_kernel_shows_cards_writes_no_errors_and_runs_on(tmp_path):
    """What nbgrader reads: a number as text, nothing on stderr, whatever an answer."""
    (tmp_path / "solutions" / "checks").mkdir(parents=True)
    (tmp_path / "solutions" / "01_tiny.py").write_text(SOLUTION)
    text = f"{VISIBLE}\n\n{HIDDEN}"
    (tmp_path / "solutions" / "checks" / "01_tiny.py").write_text(text)
    setup = (
        f"import sys; sys.path.insert(0, {str(LESSONS)!r})\n"
        "from coursekit import materials, setup\n"
        'setup.with_devices(8, lesson="01_tiny")\n'
        "from pathlib import Path\n"
        f"materials.solutions_folder = lambda: Path({str(tmp_path / 'solutions')!r})\n"
        "from coursekit.notebook import check, example, observe, scorecard\n"
    )
    sources = [
        *(setup, GIVEN, 'check("double")', 'check("duoble")'),
        *(NOISY, 'check("double")', "double = None", 'check("double")'),
        *(RIGHT[2], 'check("root")', FOR_TWO, 'check("double")'),
        *("observe(double, *example(1)).call", "scorecard()"),
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(cells=cells), kernel_name="python3"
    )
    client.execute()  # raises where a cell does
    outputs = [one for cell in cells for one in cell.outputs]
    streams = [one.name for one in outputs if one.output_type == "stream"]
    assert {*streams} == {"stdout"}
    values = {
        number: one.data
        for number, cell in enumerate(cells)
        for one in cell.outputs
        if one.output_type == "execute_result"
    }
    numbers = {
        place: values[place]["text/plain"]
        for place, source in enumerate(sources)
        if source.startswith("check(")
    }
    assert numbers == {2: "0", 3: "0", 5: "3", 7: "0", 9: "0", 11: "0"}
    words = {
        2: "not attempted yet",
        3: "double, negate, root",
        5: "Our solution",
        7: "your code raised",
        9: "2 of 2 bonus points",
        11: "observe(double, *example(1))",
    }
    for place, text in words.items():
        assert text in values[place]["text/html"]
    assert values[12]["text/plain"] == "'double(f32[1])'"
    assert (
        cells[-1].outputs[0].text.endswith("total         0 of 4 and 2 bonus points\n")
    )
