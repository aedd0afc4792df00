"""What all else reads of a lesson: its cells, its release, its package, its process."""
