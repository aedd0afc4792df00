"""Serves the learner: opens JupyterLab, checks their own work, shows progress."""
