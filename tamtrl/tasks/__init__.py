"""Data sets and generators; each yields :class:`tamtrl.tasks.example.Example`."""
