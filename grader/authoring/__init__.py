"""Makes notebooks, translations and the website out of the lessons' sources."""
