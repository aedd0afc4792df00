"""Searches the course's modules, as its own process holds them, for hidden cases."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

LEAKED = """
import linecache

from coursekit import checks, learner, materials, reference_checks


def leaked():
    found = [checks._hidden, checks._solutions, linecache.cache]
    found += [reference_checks.solutions, materials.solutions_of(learner.lesson)]
    responder = sys.modules.get("grader.kernel.inside.responder")
    for module in getattr(responder, "checks", []):
        found += [module.source, module.hidden, module.namespace]
    try:
        found += [materials.checks_of(learner.lesson)]
    except OSError:
        pass
    return NEEDLE.decode() in repr(found)
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
