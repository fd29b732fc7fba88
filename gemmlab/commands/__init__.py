"""The commands of `python -m gemmlab`, a module for each family of them."""
