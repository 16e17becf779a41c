"""An optimizer whose steps are computed by the servers of a parameter service.

    optimizer = hocket.torch.ParamsOptimizer(model, address="10.0.0.4:7000", update="sgd(0.1)", workers=4)
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    optimizer.close()
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch

import hocket.params

from .gradients import Pushes
from .weights import Weights, layers_of


class _Step:
    """A step that has begun and has not returned: the round that it ends, and the result of its closure. is_skip: of
    end_round()."""

    def __init__(self, round, loss=None, is_skip=False):
        self.round, self.loss, self.is_skip = round, loss, is_skip


class ParamsOptimizer(torch.optim.Optimizer):
    """step() pushes the gradients to a parameter service, ends this worker's round, and pulls the weights that the servers have made.

    parameters  a module, or its named_parameters(). Those that require gradients now are served; all workers have the same, by name
    address     of the first server; HOCKET_PARAMS_ADDRESS
    update      the servers' rule for the gradients of a round: "sgd(0.1)", "momentum(0.1, 0.9)", "adam(0.001)", your own (docs/params.md). A rate that
                falls is in there, by `round`: param_groups has no lr, and schedulers of torch find none
    overlap     gradients are pushed while the backward pass goes on. With a module, weights also come while the program goes on after step(), and
                modules wait for them before their forward pass
    layers      with overlap and a module: modules in it that wait only for their own weights, as long as no other module reads those. By default the
                modules that a Sequential calls one after another; of a module that is none, all weights are waited for when it begins
    worker      an open hocket.params.Worker with these names, instead of an address and options: it stays the caller's to be closed
    options     those of hocket.params.open: workers, staleness, secret, number, tree, rack, timeout, ...

    Weights begin as one worker has them, and are pulled before this returns. Whoever loads a checkpoint into the model does it before. A parameter
    without a gradient counts as zeros: the update of a momentum or a decay goes on. No step can be skipped, as other workers wait for the round: who
    has no good gradients (a loss that is not finite, an error in the backward pass) calls end_round(). The states of the update are on the servers, and in their
    checkpoints. Buffers (of batch norm) are not served: each worker has its own. One thread trains. Errors are hocket's: TimeoutError (another
    worker is late; the next step or forward pass may be tried), PeerLostError (a server is gone, and none has taken its place).
    """

    def __init__(self, parameters: torch.nn.Module | Iterable[tuple[str, torch.nn.Parameter]], address: str | None = None, *,
                 update: str | None = None, overlap: bool = False, layers: Sequence[torch.nn.Module] | None = None,
                 worker: hocket.params.Worker | None = None, **options: Any) -> None:
        module = parameters if isinstance(parameters, torch.nn.Module) else None
        if layers is not None and (module is None or not overlap):
            raise ValueError("hocket: layers are for a module, with overlap=True: pass the model itself")
        self._frozen, self._served = _sort(module.named_parameters() if module is not None else parameters)
        self._waits_at_once = not overlap or module is None
        layers = None if self._waits_at_once else layers_of(module, layers)  # before it joins
        super().__init__(list(self._served.values()), {})
        self._begun: _Step | None = None
        self._pushes: Any = None
        self._weights: Any = None
        self._is_own = worker is None
        self.worker: hocket.params.Worker = _opened(self._served, address, update, options) if worker is None else _fitting(worker, self._served, address, update, options)
        try:
            self._pushes = Pushes(self.worker, self._served)
            self._weights = Weights(self.worker, self._served, None if self._waits_at_once else module, layers)
            self.pull()
            if overlap:
                self._pushes.watch()
        except BaseException:
            self._leave()
            raise

    # ---- Training

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Ends the round: pushes the remaining gradients, and pulls the next weights. Returns the result of the
        closure, which computes gradients. If it was interrupted, or another worker was late, call it again before the
        gradients change: it continues where it was. Nothing is pushed twice, and the closure is not called again."""
        if not self._goes_on():
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            self._refuse_thawed()
            self._begun = _Step(self.worker.stats().round, loss)
        return self._finish_step(self._pushes.rest)

    @torch.no_grad()
    def end_round(self) -> None:
        """Ends the round as it is, in place of a step: gradients that were pushed in it count, and all others count as
        zeros. Without overlap nothing was pushed. Use it to skip a step, after an error in the backward pass, or if the
        gradients are of no use: the other workers wait for this one's round. Like step(), it pulls the next weights,
        and is called again if it fails."""
        round = self.worker.stats().round
        is_again = self._begun is not None and self._begun.is_skip and (self._begun.round == round or not self._pushes.has_any())
        if not is_again:
            self._begun = _Step(round, is_skip=True)
        self._finish_step(lambda: None)

    def _goes_on(self):
        """Returns True if a step has failed, and is called again. If its round has ended only the weights are missing;
        with other gradients it is a new step."""
        if self._begun is None:
            return False
        if self._begun.round == self.worker.stats().round:
            return not self._begun.is_skip
        return self._pushes.are_of(self._begun.round)

    def _finish_step(self, push):
        """Continues a step from where it is, which the worker's round tells, because Ctrl-C may come anywhere."""
        step = self._begun
        if step.round == self.worker.stats().round:
            self._weights.finish()
            push()
            self._weights.mark()
        self.worker._end(step.round)
        self._weights.start(step.round + 1)
        if self._waits_at_once:
            self._weights.wait()
        self._pushes.forget(step.round)
        self._begun = None
        return step.loss

    def no_push(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which backward passes push nothing: for all but the last one, if the gradients of several are
        added up. Not needed without overlap."""
        return self._pushes.paused()

    def wait(self) -> None:
        """Waits until all weights have arrived: for code that reads them outside of a forward pass, or copies the
        model, with overlap. state_dict() of the module waits automatically."""
        self._weights.wait()

    def pull(self, staleness: int | None = None) -> None:
        """Pulls the weights now, and waits for them. staleness 0: those of all rounds so far, as at the end of a training with a staleness; None: the
        job's."""
        self._weights.wait()
        self._weights.mark(staleness)
        self._weights.start(self.worker.stats().round)
        self._weights.wait()

    # ---- Its end

    def close(self) -> None:
        """Waits for pending pulls, and leaves the job. Updates pushed in rounds that have ended count, as described for
        hocket.params.Worker.close(); hooks are removed. It is also closed at the end of a `with` block, when it is
        dropped, and before the interpreter ends. A second close() does nothing."""
        try:
            if not self.worker.closed:
                self._weights.wait()
        finally:
            self._leave()

    def _leave(self):
        self._remove_hooks()
        if self._is_own:
            self.worker.close()

    def _remove_hooks(self):
        for hooked in (self._pushes, self._weights):
            if hooked is not None:
                hooked.remove_hooks()

    def __enter__(self) -> ParamsOptimizer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:  # the weights are not needed
            self._leave()

    def __del__(self):
        try:
            self._remove_hooks()  # they hold references to the worker
        except Exception:  # it was never opened, or the interpreter ends
            pass

    # ---- Methods of torch's optimizers

    def state_dict(self) -> dict[str, Any]:
        """Has no states: these are on the servers. A checkpoint of the job is made by optimizer.worker.checkpoint(),
        and is restored by the servers."""
        return {"state": {}, "param_groups": super().state_dict()["param_groups"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Checks that there is nothing to load."""
        if state_dict["state"]:
            raise ValueError("hocket: states of the update are on the servers, and cannot be loaded here: start the servers with --restore")
        if [len(group["params"]) for group in state_dict["param_groups"]] != [len(self._served)]:
            raise ValueError(f"hocket: the state is of other parameters; the service has {len(self._served)}")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Accepts only the parameters that it is made with. Later the tensors of a service do not change."""
        if self.param_groups:
            raise ValueError("hocket: a parameter service keeps the tensors that it was opened with: make another optimizer, and another job")
        super().add_param_group(param_group)

    def __reduce__(self):
        raise TypeError("hocket: an optimizer of a parameter service cannot be pickled or copied: another process opens one of its own")

    def _refuse_thawed(self):
        for name, parameter in self._frozen.items():
            if parameter.requires_grad and parameter.grad is not None:
                raise RuntimeError(f"hocket: {name} was frozen when the optimizer was made, and has a gradient now: the service does not have it. Thaw "
                                   "parameters before, or make another optimizer")


def _sort(named):
    """Divides parameters by name, without duplicates, into frozen and served ones."""
    frozen, served, seen = {}, {}, set()
    for entry in named:
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], torch.Tensor)):
            raise TypeError("hocket: parameters must have names, by which workers and servers know them: pass the model, or model.named_parameters()")
        name, parameter = entry
        if id(parameter) in seen or parameter.numel() == 0:
            continue
        if name in served or name in frozen:
            raise ValueError(f"hocket: two parameters have the name {name!r}")
        if parameter.device.type != "cpu":
            raise ValueError(f"hocket: {name} is on {parameter.device}; the parameter service takes memory of the host")
        seen.add(id(parameter))
        (served if parameter.requires_grad else frozen)[name] = parameter
    if not served:
        raise ValueError("hocket: there are no parameters that require gradients")
    return frozen, served


def _opened(served, address, update, options):
    if update is None:
        raise ValueError('hocket: update is missing: give the rule by which the servers update weights, such as update="sgd(0.1)"')
    return hocket.params.open({name: parameter.detach().contiguous() for name, parameter in served.items()}, address=address, update=update, **options)


def _fitting(worker, served, address, update, options):
    if address is not None or update is not None or options:
        raise ValueError("hocket: with a worker that is open there are no address, update and options: it has them")
    missing = set(worker.names) ^ set(served)
    if missing:
        raise ValueError(f"hocket: the worker has other tensors than the parameters that require gradients: {min(missing)!r} is on one side alone")
    return worker
