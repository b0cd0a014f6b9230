"""The same run in a job of a SLURM cluster, which submitit submits and queues again."""
