"""Makes torch.compile take Hocket's functions for what Gloo's are, functions of C: calls that end a graph.

Dynamo would trace them, as they are Python, and fail at the first call of C. torch.compiler.disable says the same, but
imports all of Dynamo, which takes seconds, and wraps each function, which takes microseconds in each call.
"""
import inspect
import sys
import types

import torch

# Neither Dynamo nor its part in C exists in torch 1.13.
_frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)


def _skip(code):
    """Tells torch's hook of frames to run this code, and what it calls, as they are."""
    if hasattr(_frames, "set_code_exec_strategy"):
        skip = _frames._FrameAction.SKIP
        _frames.set_code_exec_strategy(code, _frames._FrameExecStrategy(skip, skip))
    elif hasattr(_frames, "skip_code"):  # before torch 2.7, and not for what it calls
        _frames.skip_code(code)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                _skip(inner)


def _functions_of(space):
    """All functions that are defined in a module or class of Hocket."""
    for attribute in list(vars(space).values()):
        if isinstance(attribute, property):
            yield from (function for function in (attribute.fget, attribute.fset) if function)
            continue
        value = getattr(attribute, "__func__", attribute)  # of static methods, and those of classes
        if getattr(value, "__module__", None) != getattr(space, "__module__", space.__name__):
            continue  # another module's, which is looked at by itself
        if isinstance(value, types.FunctionType):
            yield value
        elif inspect.isclass(value) and value is not space:
            yield from _functions_of(value)


def make_opaque():
    """To be called when all modules of Hocket that a step may use are imported."""
    if _frames is None:
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "hocket" and isinstance(module, types.ModuleType):
            for function in _functions_of(module):
                _skip(function.__code__)
                function._torchdynamo_disable = True
                function._torchdynamo_disable_msg = "Hocket's functions call C, as Gloo's do"
