"""The operations of a process group in C++, where they have been built: `python -m hocket.torch.native` builds them.

They need less time between torch and Hocket, and torch's hooks and flight recorder see them. HOCKET_TORCH_NATIVE says
when they are used: "auto" if they have been built for this torch, "on" also builds them, with the first process group,
"off" never. What they lack, and every process without them, takes the operations in Python.
"""
import os
import warnings

from . import build

_MODES = ("auto", "on", "off")
_binding = None        # the module, once it is loaded
_has_failed = False    # which is said once


def is_used():
    """Returns True if the process group that is about to be made is native. The first call may build."""
    global _binding
    mode = os.environ.get("HOCKET_TORCH_NATIVE") or "auto"
    if mode not in _MODES:
        raise ValueError(f"hocket: HOCKET_TORCH_NATIVE is {mode!r}; it is one of {', '.join(_MODES)}")
    if mode == "off" or _has_failed:
        return False
    if _binding is None:
        _binding = _loaded(mode == "on")
    return _binding is not None


def _loaded(may_build):
    global _has_failed
    try:
        path = build.path_of_built(may_build)
        if path is None:
            return None
        from . import binding
        binding.load(path)
        return binding
    except (build.CannotBuild, ImportError, OSError) as error:
        _has_failed = True
        warnings.warn(f"hocket: process groups take their operations in Python, since those in C++ cannot be used: {error}. "
                      "`python -m hocket.torch.native` shows all that the compiler says", stacklevel=2)
        return None


def process_group():
    """Returns the class of process groups. Only if is_used()."""
    return _binding.NativeProcessGroup


def backend_of(communicator, options):
    """Returns a backend for one kind of device. Only if is_used()."""
    return _binding.make_backend(communicator, _binding.Bridge(communicator, options))
