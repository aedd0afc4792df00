"""A notebook whose cells are an object, not a list."""

POINTS = {}


def submission(lesson):
    cells = b'{"0": {"cell_type": "code"}}'
    return b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": %s}' % cells
