"""Renders what people read: feedback, class reports, terminal tables."""
