"""Figures, and the controls that make them anew. Only notebooks and the command line import from here."""
