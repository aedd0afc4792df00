"""Attacks on the checking are seen, under imported names; honest code is not."""

from pathlib import Path

import pytest

from grader.judging.tampering import MAX_SOURCE, signs

ROOT = Path(__file__).resolve().parents[2]
COURSES_OWN = sorted(
    path
    for folder in ("solutions", "lessons")
    for path in (ROOT / folder).rglob("*.py")
)

FRAMES = [
    "import sys\nsys._getframe()",
    "import sys as s\ns._getframe(1).f_back",
    "from sys import _getframe as g\ndef f():\n    return g()",
    "import inspect\ninspect.stack()",
    "from inspect import currentframe\ncurrentframe()",
    "import threading as t\nt.setprofile(print)",
    "import gc\n[x for x in gc.get_objects() if type(x) is dict]",
]
REPLACED = [
    "from coursekit import observation\ndelattr(observation, 'same')",
    "from coursekit import observation\ndel observation.same",
    "from coursekit import observation as anything\nanything.same = f",
    "from coursekit import expect\na = b = expect\nexpect.difference: object = f",
    "from coursekit.outcomes import Run\nRun.verdict = f",
    "from coursekit import outcomes as o\no.ESSENTIAL_SHARE = 1",
    "from coursekit.checks import CheckModule\nCheckModule.run = f",
    "from coursekit.card import Score\nScore.__repr__ = f",
    "from coursekit import context\ncontext._contexts[0].results['double'] = f",
    "from coursekit import context as c\nc._contexts[0].partial_credit = f",
    "from coursekit import learner\nlearner.IS_CHECKS += f",
    "from coursekit import reference_checks as r\nr.COMPARE = {}",
    "import sys\nsys.modules['coursekit.observe'].plain = f",
    "import sys\nsys.modules['coursekit'].observe.plain = f",
    "from sys import modules as m\nm['coursekit.observation'].same = f",
    "from coursekit import observation\nfor observation.same in [f]: pass",
    "from coursekit import observation\nwith f() as observation.same: pass",
    "def patch():\n    from coursekit import observation\n    observation.same = f",
    "%matplotlib inline\nfiles = !ls\nfrom coursekit import expect\nexpect.same = f",
    "%%time\nfrom coursekit import observation\nobservation.same = f",
    "\n%%capture out\n%%time\nimport coursekit.expect as e\ne.difference = f",
    "import coursekit\ncoursekit.observation.same = f",
    "import coursekit as c\nc.observation.same = f",
    "import coursekit.observe\ncoursekit.observe.plain = f",
    "import coursekit.observe\ndef f(coursekit): pass\ncoursekit.observe.plain = f",
    "import coursekit.observe as o\no.plain = f",
    "from coursekit.notebook import check as c\nc.__code__ = f.__code__",
    "from coursekit import notebook\nnotebook.observe.__globals__['plain'] = f",
    "from grader.kernel.inside import responder\nresponder.call = f",
    "import grader.kernel.inside.wire as w\nw.encode = f",
    "import sys\nsys.modules['grader.kernel.inside.responder'].call = f",
]
MODULES = [
    "import sys\nsys.modules['coursekit.observation'] = x",
    "import sys\nsys.modules['coursekit'] = x",
    "import sys as s\ns.modules['grader.kernel.inside.responder'] = x",
    "from sys import modules\nmodules['coursekit.observe'] = x",
]
SHELL = [
    "get_ipython().run_cell = f",
    "get_ipython().ast_transformers.append(f)",
    "get_ipython().kernel.do_execute = f",
    "shell = get_ipython()\nshell.showtraceback = f",
    "from IPython import get_ipython\nget_ipython().set_custom_exc((Exception,), f)",
    "import IPython\nIPython.get_ipython().input_transformers_cleanup.append(f)",
    "import IPython as ip\nip.get_ipython().input_transformers_post.append(f)",
    "from IPython import get_ipython as g\ng().display_pub.publish = f",
    "type(get_ipython()).run_cell = f",
    "get_ipython().__class__.run_cell_async = f",
    "from IPython.core.interactiveshell import InteractiveShell as S\nS.run_cell = f",
    "from ipykernel.ipkernel import IPythonKernel\nIPythonKernel.do_execute = f",
]


def only(sources, beginning):
    [told] = signs(sources)
    assert told.startswith(beginning)


@pytest.mark.parametrize("source", FRAMES)
def test_a_look_into_frames_is_seen(source):
    assert any("looks into other code's frames" in text for text in signs([source]))


@pytest.mark.parametrize("source", REPLACED)
def test_replacing_what_checks_answers_is_seen(source):
    assert any("The code replaces " in text for text in signs([source]))


@pytest.mark.parametrize("source", MODULES)
def test_replacing_a_module_of_the_course_is_seen(source):
    only([source], "The code replaces sys.modules.")


@pytest.mark.parametrize("source", SHELL)
def test_changing_how_cells_are_run_is_seen(source):
    only([source], "The code changes how cells are run (")


@pytest.mark.parametrize(
    "source",
    [
        "import builtins\nbuiltins.all = f",
        "import builtins as b\nsetattr(b, 'any', f)",
    ],
)
def test_replacing_a_builtin_is_seen(source):
    only([source], "The code replaces builtins.")


@pytest.mark.parametrize(
    "source",
    [
        "import ctypes",
        "import ctypes.util as u",
        "from ctypes import memmove",
        "!true\nimport ctypes",
    ],
)
def test_ctypes_is_seen(source):
    only([source], "The code uses ctypes")


@pytest.mark.parametrize(
    "source",
    [
        "import grader.kernel.inside.responder",
        "import grader.kernel.inside.responder as r",
        "from grader.kernel.inside import responder",
        "from grader.kernel.inside.responder import answer",
    ],
)
def test_the_graders_half_is_seen(source):
    assert "The code uses grader, which no exercise needs." in signs([source])


def test_a_name_is_followed_from_cell_to_cell():
    only(
        ["import sys as s", "def f():\n    return s._getframe()"],
        "The code uses sys._get",
    )
    cells = ["from coursekit import observation as o", "x = 1", "o.same = f"]
    only(cells, "The code replaces coursekit.observation.same")


def test_each_finding_is_told_once():
    source = "import ctypes\nimport ctypes.util\nimport sys\nsys._getframe()\n"
    assert len(signs([source, source])) == 2


HONEST = {
    "plain answer": "def double(x):\n    return 2 * x",
    "own variable setup": 'setup = {}\nsetup["a"] = 1\nsetup["a.b"] = 2',
    "time": "start = time.perf_counter()\nprint(time.time() - start)",
    "own list observation": "observation = []\nobservation.append(1)\n"
    "observation[0] = 2",
    "own object check": "import types\ncheck = types.SimpleNamespace()\ncheck.rows = 1",
    "own object setup": "class S: pass\nsetup = S()\nsetup.count = 0",
    "own object grader": "class G: pass\ngrader = G()\ngrader.count = 0",
    "own object coursekit": "class G: pass\ncoursekit = G()\ncoursekit.count = 0",
    "own helper observe": "def observe(x):\n    return x\nobserve.calls = 0",
    "own counter": "collectives = {}\ncollectives['psum'] = collectives.get('psum', 0)",
    "own class": "class expect:\n    size = 1\nexpect.size = 2",
    "argument": "def f(setup, check):\n    setup.x = check.y = 1",
    "loop": "for scorecard in cards:\n    scorecard.length = 3",
    "names alike": "import coursekitchen, graders\ncoursekitchen.x = graders.y = 1",
    "class attributes": "class A:\n  def __init__(self): self.setup = 1\nA.n = 1",
    "reading the shell": "ip = get_ipython()\nprint(ip, ip.history_length)",
    "line magic by name": "get_ipython().run_line_magic('matplotlib', 'inline')",
    "imported shell": "from IPython import get_ipython\nget_ipython().system('ls')",
    "magics": "%matplotlib inline\n!pip install einops\n%timeit f(3)\nprint?\n?print",
    "cell magic": "%%timeit\nsum(range(10))",
    "other languages": "%%bash\necho $HOME; sys.settrace",
    "inspect": "import inspect\ninspect.signature(f)\ninspect.getsource(f)",
    "gc": "import gc\ngc.collect()",
    "atexit": "import atexit\natexit.register(print, 'bye')",
    "subclass": "class Mine(dict):\n    def __missing__(self, key): return 0",
    "modules": "import sys\nsys.path.append('.')\nprint('jax' in sys.modules)",
    "reload": "import sys\ndel sys.modules['mine']\nsys.modules['mine2'] = None",
    "threading": "import threading\nthreading.Thread(target=print).start()",
    "our functions": "from coursekit.observe import observe\nobserve(f, 3).value",
    "our pictures": "from coursekit.draw import canvas as c\nc.COLORS = ['red']\n"
    "import coursekit.draw.array as a\na.WIDTH = 3\ndraw_array.calls = 0\n"
    "from coursekit.notebook import draw_mesh\ndraw_mesh.calls = 0",
    "our set-up": "from coursekit import setup\nsetup.with_devices(8)",
    "settings": "jax.config.update('jax_enable_x64', True)\nplt.rcParams['a.b'] = 1",
    "setattr": "setattr(model, 'w', 1)\nsetattr(*pair)\ngetattr(model, name)(1)",
    "display": "from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))",
    "word in text": "print('sys._getframe(), import ctypes')  # sys.settrace",
    "invalid escape": r"path = 'C:\data'",
    "syntax error": "def f(:\n    sys._getframe()",
    "conflict": "<<<<<<< HEAD\nx = 1\n=======\n",
    "empty": "",
}


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST.keys())
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_honest_code_is_not_suspected(source):
    assert signs([source]) == ()


def test_honest_cells_do_not_incriminate_each_other():
    others = [name for name in HONEST if not name.startswith(("our", "invalid"))]
    assert signs([HONEST[name] for name in others]) == ()


@pytest.mark.parametrize(
    "path", COURSES_OWN, ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_courses_own_code_is_not_suspected(path):
    assert signs([path.read_text(encoding="utf-8")]) == ()


@pytest.mark.parametrize(
    "source",
    [
        "x" + ".a" * 100_000,
        "-" * 100_000 + "1",
        "(" * 100_000,
        "[" * 5000 + "]" * 5000,
        "lambda: " * 30_000 + "1",
        "x" + "[0]" * 90_000,
        "\0",
        "'\ud800'",
        " " * MAX_SOURCE,
        "a " * (MAX_SOURCE // 2),
        "%" * MAX_SOURCE,
    ],
    ids="attributes minus open lists lambdas items null surrogate blanks words "
    "percent".split(),
)
def test_code_that_no_parser_likes_does_no_harm(source):
    assert isinstance(signs([source]), tuple)


@pytest.mark.parametrize("link", [".a", "[0]", ".a['b']"])
def test_a_long_chain_hides_no_sign(link):
    chains = ["x" + link * 900] * 20
    only(["\n".join([*chains, "import ctypes"])], "The code uses ctypes")


def test_more_code_than_can_be_searched_is_noted():
    only(["x = 1\n" * 100_000], "The 600000 characters of code are too many")
    assert signs(["pass\n" * 10_000] * 4) == ()
