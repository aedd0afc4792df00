"""What the set-up cell brings into a notebook: checks, pictures and observations."""

from .cases import Case
from .check import check, checklist, scorecard, statement
from .draw import *  # noqa: F403
from .draw import __all__ as _pictures
from .expect import *  # noqa: F403
from .expect import __all__ as _expectations
from .expect_program import *  # noqa: F403
from .expect_program import __all__ as _expectations_of_programs
from .likeness import expect_like_solution
from .observe import observe
from .references import *  # noqa: F403
from .references import __all__ as _references
from .tracing import collectives

__all__ = ["Case", "check", "collectives", "expect_like_solution", "observe"]
__all__ += ["checklist", "scorecard", "statement"]
__all__ += [*_pictures, *_expectations, *_expectations_of_programs, *_references]
