"""Can this machine train, how fast, and what would several of them cost?"""
