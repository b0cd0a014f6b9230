"""A recorder for machines without a GPU."""


class PlainRecorder:
    """Replays by doing the work again on the same memory, as a graph does.

    A graph keeps every number that Python knew when it was recorded. So, given the state, a replay happens
    at the step of the recording, and nobody may ask for a rate or a seed meanwhile.
    """

    def __init__(self, state=None):
        self.runs, self.recordings, self.replays, self.replaying = 0, 0, 0, False
        self._state = state

    def run(self, work):
        self.runs += 1
        return work()

    def record(self, work, generators):
        self.recordings += 1
        self.generators = list(generators)
        step = None if self._state is None else self._state.step

        def replay():
            self.replays += 1
            if self._state is not None:
                self._state.step = step
            self.replaying = True
            try:
                return work()
            finally:
                self.replaying = False

        return replay

    def guarded(self, function):
        """A function that a replay must not call."""

        def call(*arguments, **options):
            if self.replaying:
                raise AssertionError("a graph would not have called this again")
            return function(*arguments, **options)

        return call
