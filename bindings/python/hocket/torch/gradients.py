"""Gradients that are pushed to a parameter service: by step(), or as soon as a backward pass has them."""
import contextlib

import numpy as np
import torch

MOST_ELEMENTS = 1 << 32  # of a tensor whose gradients are sparse: indices are of 32 bits


def push(worker, name, parameter):
    """One parameter's gradient; what it is copied to is C's. Never waits."""
    gradient = parameter.grad.detach()
    if gradient.layout is torch.strided:
        worker.push({name: gradient.contiguous()}, wait=False)
    elif gradient.layout is torch.sparse_coo:
        worker.push_sparse(name, *_elements_of(gradient), wait=False)
    else:
        raise ValueError(f"hocket: the gradient of {name} is {gradient.layout}: convert it with to_dense()")


def _elements_of(gradient):
    """The indices, ascending and each once, of the flat tensor, and the values."""
    gradient = gradient.coalesce()
    if gradient.numel() > MOST_ELEMENTS:
        raise ValueError(f"hocket: a tensor with sparse gradients has {MOST_ELEMENTS} elements at most, and not {gradient.numel()}")
    places = torch.zeros(gradient._nnz(), dtype=torch.int64)
    for size, indices in zip(gradient.shape, gradient.indices()):
        places = places * size + indices
    values = gradient.values()
    row = values[0].numel() if len(values) else 1
    indices = (places[:, None] * row + torch.arange(row)).flatten()
    return indices.numpy().astype(np.uint32), values.reshape(-1).contiguous()


class Pushes:
    """What of this round was pushed. With watch() each gradient is as soon as it is there."""

    def __init__(self, worker, parameters):
        """parameters: by name."""
        self._worker, self._parameters = worker, parameters
        self._pushed = {}  # name: the gradient, and its version then
        self._last = None  # the same of the last round, as long as its step() has not returned
        self._handles, self._nodes, self._is_paused = [], [], False

    def rest(self):
        """Pushes what was not yet. A parameter without a gradient counts as zeros."""
        for name, parameter in self._parameters.items():
            if name in self._pushed:
                self._refuse_changed(name)
            elif parameter.grad is not None:
                self._push(name, parameter)

    def begin_round(self, keeps_last):
        self._last, self._pushed = self._pushed if keeps_last else None, {}

    def are_of_the_last_round(self):
        """Whether the gradients are those that were pushed in the round before, so that step() is called once more for it."""
        gradients = {name for name, parameter in self._parameters.items() if parameter.grad is not None}
        return self._last is not None and gradients == set(self._last) and all(self._is_as_pushed(name, self._last) for name in gradients)

    def forget_the_last_round(self):
        self._last = None

    def _push(self, name, parameter):
        gradient = parameter.grad
        push(self._worker, name, parameter)
        self._pushed[name] = gradient, gradient._version

    def _is_as_pushed(self, name, pushed):
        gradient, version = pushed[name]
        return self._parameters[name].grad is gradient and gradient._version == version

    def _refuse_changed(self, name):
        if not self._is_as_pushed(name, self._pushed):
            raise RuntimeError(f"hocket: the gradient of {name} was changed after it was pushed, and is with the servers. With overlap=True nothing may clip, "
                               "scale or zero gradients between backward() and step(); and a step() that was interrupted, or has failed, is called again "
                               "before the next backward pass")

    # ---- As soon as they are there

    def watch(self):
        for name, parameter in self._parameters.items():
            if hasattr(parameter, "register_post_accumulate_grad_hook"):  # torch 2.1
                self._handles.append(parameter.register_post_accumulate_grad_hook(_Hook(self, name)))
            else:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # what adds to its gradient
                self._nodes.append(node)  # which lives as long as somebody has it
                self._handles.append(node.register_hook(_Hook(self, name)))

    def remove_hooks(self):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()

    def is_there(self, name):
        if self._is_paused:
            return
        if name in self._pushed:
            raise RuntimeError(f"hocket: a second backward pass has come to {name} before step(), and its first gradient is with the servers. To add up "
                               "gradients of several passes, run all but the last one within `with optimizer.no_push():`")
        self._push(name, self._parameters[name])

    @contextlib.contextmanager
    def paused(self):
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before


class _Hook:
    """Of a parameter, or of the node that adds to its gradient. A copy does nothing."""

    def __init__(self, pushes=None, name=None):
        self._pushes, self._name = pushes, name

    def __call__(self, *_):
        if self._pushes is not None:
            self._pushes.is_there(self._name)

    def __reduce__(self):
        return _Hook, ()
