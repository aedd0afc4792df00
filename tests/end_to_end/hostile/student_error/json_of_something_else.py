"""A settings file that was picked by mistake."""

POINTS = {}


def submission(lesson):
    return b'{"name": "ada", "theme": "dark", "cells": "none"}'
