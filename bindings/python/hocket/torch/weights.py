"""Pulls a module's weights from a parameter service while the program continues, and waits for them where they are used.

A group of parameters is pulled by one request. Every module in which the group is used waits for it before its forward
pass: also those inside a layer, which a program may call directly, and modules whose parameters the module around
them reads (MultiheadAttention's out_proj).
"""
import torch


class Group:
    """Parameters that are pulled together.

    request     of the pull that is pending or has failed; None if there is none yet
    is_old      the weights of that pull have not arrived
    _round      the worker's round when the pull was started
    """

    def __init__(self, worker, parameters):
        self._worker, self._parameters = worker, parameters  # by name
        self._staleness, self._copies = None, {}
        self.request, self.is_old = None, False
        self._round = -1

    def mark(self, staleness=None):
        """Marks the weights as old: the first use starts their pull, if start() has not. Waits for a pending pull,
        because two must not write to the same memory. staleness None: the job's."""
        if self.request is not None:
            self.wait()
        self._staleness, self.is_old = staleness, True

    def start(self, round):
        """Starts the pull, unless one was started in this round or later, or the weights have arrived."""
        if self._round < round:
            self.mark(self._staleness)
        if self.is_old and self.request is None:
            self._start()

    def _start(self):
        out = {}
        for name, parameter in self._parameters.items():
            weights = parameter.detach()
            if not weights.is_contiguous():  # not contiguous, such as channels_last: the weights come in the plain order
                weights = self._copies[name] = torch.empty(weights.shape, dtype=weights.dtype)
            out[name] = weights
            _count_as_changed(parameter)
        self._round = self._worker.stats().round
        self.request = self._worker.pull(out=out, staleness=self._staleness, wait=False)

    def wait(self):
        """Waits until the weights have arrived. A pull that has failed because another worker was late is repeated by
        the next wait, with a new deadline."""
        if not self.is_old:
            return
        if self.request is None or self.request.failed():
            self._start()
        self.request.wait()
        with torch.no_grad():
            for name, weights in self._copies.items():
                self._parameters[name].copy_(weights)
        self._copies.clear()
        self.request = None  # first: if Ctrl-C comes in between, they are pulled again
        self.is_old = False


def _count_as_changed(parameter):
    """C writes to the tensor without autograd's knowledge: a backward pass that needs the old weights must fail, as
    with any optimizer."""
    with torch.no_grad():
        parameter.detach().as_strided((0,), (1,)).zero_()


class _Hook:
    """A module's hook. A copy of the module, or a pickled one, does not wait."""

    def __init__(self, groups):
        self._groups = groups

    def __call__(self, *_):
        for group in self._groups:
            if group.is_old:
                group.wait()

    def __reduce__(self):
        return _Hook, ((),)


def chain(module):
    """Returns the layers of a module as far as they can be determined: those that a Sequential calls one after another,
    and nothing else."""
    if type(module).forward is torch.nn.Sequential.forward:
        return [layer for child in module for layer in chain(child)]
    return [module]


def layers_of(module, layers):
    """Returns the program's layers, or else those that can be determined."""
    if layers is None:
        return chain(module)
    layers, inside = list(layers), set(module.modules())
    strangers = [layer for layer in layers if layer not in inside]
    if strangers:
        raise ValueError(f"hocket: layers has {type(strangers[0]).__name__}, which is not in the module")
    return layers


class Weights:
    """The groups of all parameters, and the hooks that wait for them."""

    def __init__(self, worker, parameters, module, layers):
        """parameters: by name. module: None if only wait() waits. layers: see layers_of()."""
        self._handles, self.groups = [], []
        if module is None:
            self.groups = [Group(worker, parameters)]
            return
        self._add_hooks(worker, parameters, module, layers)

    def _add_hooks(self, worker, parameters, module, layers):
        names, users = {id(parameter): name for name, parameter in parameters.items()}, {one: [] for one in module.modules()}
        for layer in (*layers, module):  # parameters outside all layers belong to the module itself
            here = {names.pop(id(parameter)): parameter for parameter in layer.parameters() if id(parameter) in names}
            if here:
                self._add_group(Group(worker, here), layer, layers, module, users)
        for one, groups in users.items():
            if groups:
                handle = one.register_forward_pre_hook(_Hook(groups))
                one._forward_pre_hooks.move_to_end(handle.id, last=False)  # other hooks read weights (weight_norm, spectral_norm, prune)
                self._handles.append(handle)
            self._handles.append(one._register_state_dict_hook(_Hook(self.groups)))

    def _add_group(self, group, layer, layers, module, users):
        """Modules that share a parameter of the group wait for it, too; modules around layers do not: they have no
        parameter of the group themselves."""
        self.groups.append(group)
        mine = set(map(id, group._parameters.values()))
        within = set(layer.modules()) if layer in layers else set()
        for one in users:
            if one in within or any(id(parameter) in mine for parameter in one.parameters(recurse=False)):
                users[one].append(group)
        if layer is module and group not in users[module]:
            users[module].append(group)
        for other in layers:  # one that shares a parameter, perhaps deep inside
            if other is not layer and any(id(parameter) in mine for parameter in other.parameters()):
                users[other].append(group)

    def finish(self):
        """Waits for pending pulls."""
        for group in self.groups:
            if group.request is not None:
                group.wait()

    def mark(self, staleness=None):
        """Marks all groups before a pull starts: if that is interrupted, none may keep old weights."""
        for group in self.groups:
            group.mark(staleness)

    def start(self, round):
        for group in self.groups:
            group.start(round)

    def wait(self):
        for group in self.groups:
            group.wait()

    def are_old(self):
        return any(group.is_old for group in self.groups)

    def remove_hooks(self):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
