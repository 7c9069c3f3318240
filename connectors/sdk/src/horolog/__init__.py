"""Horolog."""
