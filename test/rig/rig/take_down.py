"""Takes rigs down: ends their processes, removes their directories. Works in whatever state they are."""

import signal

from rig import places, processes, state

# A `up` that is asked to end cleans up by itself within this time.
_UP_GRACE_S = 10.0
_LOCK_WAIT_S = 30.0


def down(name):
    """Returns whether there was anything to take down."""
    rig = state.Rig(name)
    if not rig.exists():
        with rig.lock():  # says so where the name is taken by somebody else
            return False
    if processes.send(rig.up_pid_file(), signal.SIGTERM) and not processes.wait_gone(rig.up_pid_file(), _UP_GRACE_S):
        processes.kill(rig.up_pid_file())
    with rig.lock(wait_s=_LOCK_WAIT_S) as there:
        if there:
            rig.remove()
    return True


def down_all():
    """Returns the names of the rigs that were taken down."""
    own = [name for name in places.names() if places.is_own(places.directory(name))]
    return [name for name in own if down(name)]
