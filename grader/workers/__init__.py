"""Grades many submissions side by side, on this machine or on a Dask cluster."""
