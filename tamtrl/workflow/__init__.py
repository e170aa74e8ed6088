"""What the Snakefile imports: the configuration and the run table resolved, and what Snakemake and its SLURM plugin lack."""
