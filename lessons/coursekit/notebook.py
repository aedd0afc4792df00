"""What the set-up cell brings into a notebook: checks, pictures and observations."""

from .check import check, scorecard
from .draw import *  # noqa: F403
from .draw import __all__ as _pictures
from .expect import *  # noqa: F403
from .expect import __all__ as _expectations
from .expect_program import *  # noqa: F403
from .expect_program import __all__ as _expectations_of_programs
from .observe import observe
from .references import *  # noqa: F403
from .references import __all__ as _references
from .tracing import collectives

__all__ = ["check", "collectives", "observe", "scorecard"]
__all__ += [*_pictures, *_expectations, *_expectations_of_programs, *_references]
