"""How many compilers may run at once: jobs.py GIB_OF_ONE. As many as this process has cores, and as fit its memory."""

import sys

import psutil

from tamtrl.jobs import control_groups, machine

free, limit = psutil.virtual_memory().available, control_groups.memory()
memory = min(free, limit[0]) if limit else free
print(max(1, min(machine.cores(), int(memory / 2**30 / float(sys.argv[1])))))
