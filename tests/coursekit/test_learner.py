"""The names that a check module imports mean what its notebook defines."""

import functools

import pytest

from coursekit import learner
from coursekit.context import current_context
from coursekit.learner import Missing, NotDefined, bind, imported, namespaces_of

SOURCE = """
from coursekit.learner import double, negate
from coursekit.observe import observe

def helper():
    from coursekit.learner import later
"""


def test_the_names_are_those_that_the_module_imports_from_here():
    assert imported(SOURCE) == ["double", "negate", "later"]


def test_a_check_module_imports_whatever_name_it_needs():
    from coursekit.learner import train_step  # nobody has defined it

    assert train_step.__name__ == "train_step"
    with pytest.raises(NotDefined) as error:
        train_step(1, x=2)
    assert error.value.name == "train_step"
    with pytest.raises(AttributeError):
        learner.__path__  # noqa: B018 - what Python asks a module for is not made up


def test_names_get_the_notebooks_meaning_and_the_rest_is_missing():
    module = {"double": 1, "observe": "ours", "own": 3}
    notebook = {"double": abs, "observe": "the learner's", "own": "the learner's"}
    bind(module, ["double", "negate"], notebook)
    assert module["double"] is abs
    assert isinstance(module["negate"], Missing)
    assert (module["observe"], module["own"]) == ("ours", 3)


def test_binding_again_follows_the_notebook():
    module = {}
    bind(module, ["double"], {"double": abs})
    bind(module, ["double"], {})
    with pytest.raises(NotDefined):
        module["double"](1)


def test_a_missing_name_is_a_name_error():
    assert issubclass(NotDefined, NameError)


def test_a_functions_own_namespace_comes_first(monkeypatch):
    notebook, other = {}, {}
    monkeypatch.setattr(current_context(), "namespaces", [notebook, other])
    exec("def f():\n    pass", other)
    assert [id(names) for names in namespaces_of(other["f"])] == [
        id(other),
        id(notebook),
    ]

    @functools.wraps(other["f"])
    def wrapped():
        pass

    assert namespaces_of(wrapped)[0] is other
    assert namespaces_of(len)[0] is notebook
