"""A bookmark in memory."""

from semppl.evaluate.bookmark import Bookmark, Place


class Stopped(Exception):
    """A training was stopped after a step."""


class Memory:
    """Remembers the state after the step of `stop`, where the training ends by an exception, and of the last
    step that was done.
    """

    def __init__(self, stop=None, place=None):
        self.stop, self.place, self.steps = stop, place, []

    def bookmark(self, **beside):
        return Bookmark(lambda: self.place, self.passed, beside)

    def passed(self, step, state):
        self.steps.append(step)
        self.place = Place(step, state())
        if step == self.stop:
            raise Stopped


def flat(value, prefix=""):
    """All tensors of a state by their names."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {name: each for key, part in value.items() for name, each in flat(part, f"{prefix}/{key}").items()}
