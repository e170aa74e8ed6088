"""What a run will take, and whether this machine can do it: costs by arithmetic, plans of a workflow, a first run with checks."""
