"""Weights of a module that come from a parameter service while the program goes on, and are waited for where they are used.

A group of parameters is pulled by one request. Every module in which the group is used waits for it before its forward pass: also those inside a
layer, which a program may call by themselves, and modules whose parameters the module around them reads (MultiheadAttention's out_proj).
"""
import torch


class Group:
    """Parameters that are pulled together.

    request     of the pull that is on its way, or has failed; None where Ctrl-C came before there was one
    is_old      the weights of that pull are not there
    """

    def __init__(self, worker, parameters):
        self._worker, self._parameters = worker, parameters  # by name
        self._staleness, self._copies = None, {}
        self.request, self.is_old = None, False

    def start(self, staleness=None):
        """After wait(): two pulls must not write to the same memory. staleness None: the job's."""
        self._staleness, self.request, self.is_old = staleness, None, True
        self._start()

    def _start(self):
        out = {}
        for name, parameter in self._parameters.items():
            weights = parameter.detach()
            if not weights.is_contiguous():  # in another order, such as channels_last: it comes in the plain order
                weights = self._copies[name] = torch.empty(weights.shape, dtype=weights.dtype)
            out[name] = weights
            _count_as_changed(parameter)
        self.request = self._worker.pull(out=out, staleness=self._staleness, wait=False)

    def wait(self):
        """Until the weights are there. A pull that has failed, because another worker was late, is made again by the next wait, with a
        deadline of its own."""
        if not self.is_old:
            return
        if self.request is None or self.request.failed():
            self._start()
        self.request.wait()
        with torch.no_grad():
            for name, weights in self._copies.items():
                self._parameters[name].copy_(weights)
        self._copies.clear()
        self.request, self.is_old = None, False


def _count_as_changed(parameter):
    """C writes to it without autograd's knowledge: a backward pass that needs the old weights must fail, as with any optimizer."""
    with torch.no_grad():
        parameter.detach().as_strided((0,), (1,)).zero_()


class _Hook:
    """Of a module. A copy of the module, or what is pickled of it, does not wait."""

    def __init__(self, groups):
        self._groups = groups

    def __call__(self, *_):
        for group in self._groups:
            if group.is_old:
                group.wait()

    def __reduce__(self):
        return _Hook, ((),)


def chain(module):
    """The layers of a module, as far as they can be told from outside: those that a Sequential calls one after another, and nothing else."""
    if type(module).forward is torch.nn.Sequential.forward:
        return [layer for child in module for layer in chain(child)]
    return [module]


class Weights:
    """The groups of all parameters, and the hooks that wait for them."""

    def __init__(self, worker, parameters, module, layers):
        """parameters: by name. module None: nobody waits but wait()."""
        self._handles, self.groups = [], []
        if module is None:
            self.groups = [Group(worker, parameters)]
            return
        self._add_hooks(worker, parameters, module, chain(module) if layers is None else list(layers))

    def _add_hooks(self, worker, parameters, module, layers):
        inside = set(module.modules())
        strangers = [layer for layer in layers if layer not in inside]
        if strangers:
            raise ValueError(f"hocket: layers has {type(strangers[0]).__name__}, which is not in the module")
        names, users = {id(parameter): name for name, parameter in parameters.items()}, {one: [] for one in module.modules()}
        for layer in (*layers, module):  # what is in no layer belongs to the module itself
            here = {names.pop(id(parameter)): parameter for parameter in layer.parameters() if id(parameter) in names}
            if here:
                self._add_group(Group(worker, here), layer, layers, module, users)
        for one, groups in users.items():
            if groups:
                self._handles.append(one.register_forward_pre_hook(_Hook(groups)))
            self._handles.append(one._register_state_dict_hook(_Hook(self.groups)))

    def _add_group(self, group, layer, layers, module, users):
        """Modules that share a parameter of the group wait for it, too; those around layers do not: they have nothing of it by themselves."""
        self.groups.append(group)
        mine = set(map(id, group._parameters.values()))
        within = set(layer.modules()) if layer in layers else set()
        for one in users:
            if one in within or any(id(parameter) in mine for parameter in one.parameters(recurse=False)):
                users[one].append(group)
        if layer is module and group not in users[module]:
            users[module].append(group)
        for other in layers:  # which shares one, perhaps far inside
            if other is not layer and any(id(parameter) in mine for parameter in other.parameters()):
                users[other].append(group)

    def start(self, staleness=None):
        for group in self.groups:
            group.start(staleness)

    def wait(self):
        for group in self.groups:
            group.wait()

    def are_old(self):
        return any(group.is_old for group in self.groups)

    def remove_hooks(self):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
