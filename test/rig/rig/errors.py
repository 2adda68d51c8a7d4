"""What a rig command says when it cannot go on: what is wrong, and what to do about it."""

FAILURE = 1
USAGE = 2
ALREADY_RUNNING = 3


class RigError(Exception):
    """A failure whose reason and way out are known. `code` becomes the exit code of the command."""

    def __init__(self, message, remedy=None, code=FAILURE):
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code
