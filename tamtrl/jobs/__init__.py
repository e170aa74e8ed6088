"""One supervised job of any kind: its processes, checkpoints, step log, time limit, Ray over nodes, environment and machine."""
