"""Searches the course's modules, as its own process holds them, for hidden cases."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

LEAKED = """
import linecache

from coursekit import materials
from coursekit.context import current_context


def leaked():
    context = current_context()
    found = [vars(context), linecache.cache, materials.solutions_of(context.lesson)]
    responder = sys.modules.get("grader.kernel.inside.responder")
    for module in getattr(responder, "checks", []):
        found += [module.source, module.hidden, module.namespace]
    try:
        found += [materials.checks_of(context.lesson)]
    except OSError:
        pass
    return NEEDLE.decode() in repr(found)
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
