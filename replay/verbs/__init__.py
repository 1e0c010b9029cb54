"""commands: the verbs of the command line. Each asks the inspect layer and prints what it says; none knows anything else."""
