"""How a scenario says that something does not hold."""


class Failed(Exception):
    """A promise that was broken, in words that name the object, the expected and the seen."""


def require(condition, message):
    if not condition:
        raise Failed(message)


def require_equal(seen, expected, what):
    require(seen == expected, f"{what}: expected {expected!r}, seen {seen!r}")
