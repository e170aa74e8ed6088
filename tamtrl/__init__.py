"""TAMTRL: teacher-aligned reward reshaping for multi-turn RL in long-context compression (arXiv 2603.21663)."""

__version__ = "0.2.0"
