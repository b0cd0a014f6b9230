"""LARS and the schedules."""
