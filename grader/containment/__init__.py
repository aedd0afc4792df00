"""Runs untrusted code in a box: no network, no files of ours, limited resources."""
