"""Pushes gradients to a parameter service: in step(), or as soon as a backward pass has computed them."""
import contextlib
import zlib

import numpy as np
import torch

MOST_ELEMENTS = 1 << 32  # of a tensor with sparse gradients: indices have 32 bits


def push(worker, name, parameter):
    """Pushes one parameter's gradient, which C copies. Never waits."""
    gradient = parameter.grad.detach()
    if gradient.layout is torch.strided:
        worker.push({name: gradient.contiguous()}, wait=False)
    elif gradient.layout is torch.sparse_coo:
        worker.push_sparse(name, *_elements_of(gradient), wait=False)
    else:
        raise ValueError(f"hocket: the gradient of {name} is {gradient.layout}: convert it with to_dense()")


def _elements_of(gradient):
    """Returns the indices in the flat tensor, ascending and without duplicates, and the values."""
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


class _Note:
    """Identifies a pushed gradient, and the worker's round in which it was pushed."""

    def __init__(self, round, gradient, is_early):
        """is_early: pushed in the backward pass, so that the program may change it before step(). Not all changes count
        as versions (grad.data has none)."""
        self.round, self.gradient, self.version = round, gradient, gradient._version
        self._sum = _sum_of(gradient) if is_early else None

    def is_of(self, gradient):
        return gradient is self.gradient and gradient._version == self.version and self._sum in (None, _sum_of(gradient))


def _sum_of(gradient):
    """Returns a checksum of its bits."""
    gradient = gradient.detach()
    if gradient.layout is torch.sparse_coo:
        return _sum_of(gradient._indices()), _sum_of(gradient._values())
    return zlib.crc32(gradient.contiguous().reshape(-1).view(torch.uint8).numpy())


class Pushes:
    """Records which gradients of a round were pushed. With watch() each gradient is pushed as soon as it is ready."""

    def __init__(self, worker, parameters):
        """parameters: by name."""
        self._worker, self._parameters = worker, parameters
        self._notes = {}  # by name, of gradients pushed or about to be: the worker knows which of the two
        self._handles, self._nodes, self._is_paused = [], [], False

    def rest(self):
        """Pushes the remaining gradients. A parameter without a gradient counts as zeros."""
        for name, parameter in self._parameters.items():
            if name in self._notes and self._worker._has_pushed(name):
                self._refuse_changed(name)
            elif parameter.grad is not None:
                self._push(name, parameter, False)

    def are_of(self, round):
        """Returns True if the gradients are those that were pushed in that round."""
        noted = {name for name, note in self._notes.items() if note.round == round}
        gradients = {name: parameter.grad for name, parameter in self._parameters.items() if parameter.grad is not None}
        return noted == set(gradients) and all(self._notes[name].is_of(gradient) for name, gradient in gradients.items())

    def has_any(self):
        """Returns True if any gradient was pushed in this round."""
        return any(map(self._worker._has_pushed, self._parameters))

    def forget(self, round):
        """Releases the gradients of rounds up to this one."""
        for name in [name for name, note in self._notes.items() if note.round <= round]:
            del self._notes[name]

    def _push(self, name, parameter, is_early):
        self._notes[name] = _Note(self._worker.stats().round, parameter.grad, is_early)
        push(self._worker, name, parameter)

    def _refuse_changed(self, name):
        if not self._notes[name].is_of(self._parameters[name].grad):
            raise RuntimeError(f"hocket: the gradient of {name} was changed after it was pushed, and is with the servers. With overlap=True nothing may clip, "
                               "scale or zero gradients between backward() and step(); and a step() that was interrupted, or has failed, is called again "
                               "before the next backward pass. optimizer.end_round() ends the round as it is")

    # ---- As soon as they are there

    def watch(self):
        for name, parameter in self._parameters.items():
            if hasattr(parameter, "register_post_accumulate_grad_hook"):  # torch 2.1
                self._handles.append(parameter.register_post_accumulate_grad_hook(_Hook(self, name)))
            else:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # the node that adds to its gradient
                self._nodes.append(node)  # which lives as long as it is referenced
                self._handles.append(node.register_hook(_Hook(self, name)))

    def remove_hooks(self):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()

    def is_there(self, name):
        if self._is_paused:
            return
        if self._worker._has_pushed(name):
            raise RuntimeError(f"hocket: a second backward pass has come to {name} before step(), and its first gradient is with the servers. To add up "
                               "gradients of several passes, run all but the last one within `with optimizer.no_push():`. To skip a step, "
                               "optimizer.end_round() ends the round as it is")
        self._push(name, self._parameters[name], True)

    @contextlib.contextmanager
    def paused(self):
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before


class _Hook:
    """A hook on a parameter, or on the node that adds to its gradient. A copy does nothing."""

    def __init__(self, pushes=None, name=None):
        self._pushes, self._name = pushes, name

    def __call__(self, *_):
        if self._pushes is not None:
            self._pushes.is_there(self._name)

    def __reduce__(self):
        return _Hook, ()
