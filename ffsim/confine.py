"""Landlock: this process and all that it starts may write below some folders and nowhere else.

It is asked of the Linux kernel directly (5.13 and later, no privilege needed, also as root), between fork and exec,
and cannot be taken back. It keeps a run's mistakes to itself; it is no prison for an attacker. Reading is not touched,
nor are modes, owners and times of files, the network, and what a server that the run can reach writes for it.
Standard library only: the warden (`ffsim.warden`) imports it.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys

LINUX = sys.platform == "linux"
PR_SET_NO_NEW_PRIVS = 38  # <linux/prctl.h>
# <linux/landlock.h>; the system calls have these numbers on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION = 1
RULE_PATH_BENEATH = 1
O_PATH = 0o10000000
WRITE_FILE, TRUNCATE, REFER = 1 << 1, 1 << 14, 1 << 13
WRITE_V1 = WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # remove and make of every kind
SCOPE_SIGNAL = 1 << 1
# What Python, torch and their devices open for writing, whatever the run is; missing ones are passed over.
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/nvidia*",
    "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd", "/dev/neuron*",
    "/dev/shm",  # noqa: S108 - where semaphores and shared tensors of Python and torch lie
)  # fmt: skip


class Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class PathBeneath(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def confine(folders: list[str]) -> bool:
    """Let this process and its children write below `folders` and to `DEVICES`, and signal nobody but themselves.

    Parameters
    ----------
    folders
        Folders that exist.

    Returns
    -------
    bool
        False where the kernel has no Landlock; then nothing is confined.

    Raises
    ------
    OSError
        If a folder cannot be opened, or the kernel refuses.
    """
    if not LINUX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), GET_VERSION)
    if version < 1:
        return False
    writes = WRITE_V1 | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rules = Ruleset(writes, 0, SCOPE_SIGNAL if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0))
    found = [path for pattern in DEVICES for path in glob.glob(pattern)]  # noqa: PTH207
    for path in [*folders, *found]:
        handle = os.open(path, O_PATH | os.O_CLOEXEC)
        allowed = writes if os.path.isdir(path) else writes & (WRITE_FILE | TRUNCATE)  # noqa: PTH112
        rule = PathBeneath(allowed, handle)
        _checked(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(handle)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return True


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
