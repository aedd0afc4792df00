"""Keeps a class: its folder, results, scores and exports."""
