"""Become another program that the kernel kills when the process that wanted it dies.

``python die_with_parent.py PARENT_PID PROGRAM ARGUMENT...``; the process id stays.
A test run that is killed then leaves nothing behind, which no ``finally`` can promise.
Without Linux the program is merely started.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606 - to start it is the purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
