"""Makes notebooks and translations out of the lessons' sources."""
