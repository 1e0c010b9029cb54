"""A clock that tests own."""


class TickingClock:
    """Every call is a millisecond later than the one before."""

    def __init__(self, start: int = 1_738_713_600_000) -> None:
        self.now = start

    def __call__(self) -> int:
        self.now += 1
        return self.now
