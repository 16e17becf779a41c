#!/usr/bin/python3
"""hocket.torch.ParamsOptimizer: training on a parameter service, by processes of their own and in this one."""
import contextlib
import copy
import gc
import io
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from unittest import mock

import ranks  # first: it skips without torch

# isort: split
import torch

import hocket
import hocket.params
import hocket.torch.gradients
import hocket.torch.weights
from hocket.torch import ParamsOptimizer
from ranks import same

HAS_2 = not torch.__version__.startswith("1.")
SECRET, RATE, STEPS, TIMEOUT_S = "a secret", 0.1, 5, 60
UPDATE = f"sgd({RATE})"


def serve(**options):
    return hocket.params.serve("127.0.0.1:0", secret=SECRET, timeout=TIMEOUT_S, **options)


def optimizer_of(model, address, *, update=UPDATE, secret=SECRET, timeout=TIMEOUT_S, tree="direct", **options):
    return ParamsOptimizer(model, address, update=update, secret=secret, timeout=timeout, tree=tree, **options)


class Attention(torch.nn.Module):
    """Reads the parameters of a module in it, without calling that."""

    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


class Tied(torch.nn.Module):
    """An embedding with sparse gradients; the last layer's weights are those of another one; a frozen and an unused parameter."""

    def __init__(self, sparse=True):
        super().__init__()
        self.embedding = torch.nn.Embedding(40, 6, sparse=sparse)
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 6), Attention(6), torch.nn.BatchNorm1d(6))
        self.again = torch.nn.Linear(8, 6)
        self.again.weight = self.body[2].weight
        self.up = torch.nn.Linear(6, 8)
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.unused = torch.nn.Parameter(torch.ones(5))
        self.up.bias.requires_grad_(False)

    def forward(self, x):
        hidden = self.embedding(x).mean(1, keepdim=True)
        hidden = self.body[:4](hidden).squeeze(1)
        return self.again(self.up(self.body[4](hidden))) * self.scale


def chain():
    return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Sequential(torch.nn.Linear(300, 50), torch.nn.Tanh()), torch.nn.Linear(50, 3))


def made(kind):
    torch.manual_seed(7)
    models: dict[str, Callable[[], torch.nn.Module]] = {"chain": chain, "tied": Tied, "dense": lambda: Tied(False)}
    return models[kind]()


def batch(kind, step, rank):
    torch.manual_seed(1000 * rank + step)
    if kind == "chain":
        return torch.randn(8, 20), torch.randn(8, 3)
    return torch.randint(40, (8, 3)), torch.randn(8, 6)


def backward(model, kind, step, rank, scale=1.0):
    x, y = batch(kind, step, rank)
    (scale * (model(x) - y).square().mean()).backward()


def weights_of(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def alone(kind, size, passes=1):
    """One process with a copy of the model for each worker, which adds their gradients in their order."""
    models = [made(kind) for _ in range(size)]
    for step in range(STEPS):
        for rank, model in enumerate(models):
            model.zero_grad(set_to_none=True)
            for one in range(passes):
                backward(model, kind, step * passes + one, rank)
        with torch.no_grad():
            for several in zip(*(model.parameters() for model in models)):
                if not several[0].requires_grad:
                    continue
                gradients = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad for p in several]
                total = gradients[0]
                for gradient in gradients[1:]:
                    total = total + gradient
                stepped = several[0] - torch.tensor(RATE) * total / torch.tensor(float(size))
                for p in several:
                    p.copy_(stepped)
    return weights_of(models[0])


def train(rank, size, kind, address, overlap, passes):
    """An unmodified loop. Ranks begin with other weights than rank 0, and get its."""
    model = made(kind)
    if rank > 0:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(1)
    layers = [model.embedding, *model.body, model.again, model.up] if overlap == "layers" else None
    with optimizer_of(model, address, workers=size, number=rank, overlap=bool(overlap), layers=layers, gives_weights=rank == 0) as optimizer:
        for step in range(STEPS):
            optimizer.zero_grad()
            for one in range(passes):
                with optimizer.no_push() if one < passes - 1 else contextlib.nullcontext():
                    backward(model, kind, step * passes + one, rank)
            optimizer.step()
        state = {name: value.clone() for name, value in model.state_dict().items()}  # which waits
    for name, weights in weights_of(model).items():
        same(weights, state[name], name)
    return weights_of(model)


def until_killed(rank, size, address):
    model = made("chain")
    optimizer = optimizer_of(model, address, workers=size, number=rank, overlap=True)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, "chain", step, rank)
        if rank == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
    optimizer.close()
    return weights_of(model)


class Processes(ranks.TestCase):
    def test_bits_of_one_process(self):
        for kind, size, passes, ways in (("chain", 2, 1, (False, True)), ("chain", 3, 2, (True,)), ("tied", 2, 1, (False, True, "layers")), ("dense", 2, 1, (True,))):
            expected = alone(kind, size, passes)
            for overlap in ways:
                with self.subTest(kind=kind, overlap=overlap), serve() as server:
                    for weights in self.check(size, train, kind, server.address, overlap, passes):
                        for name, found in weights.items():
                            same(found, expected[name], name)

    def test_a_worker_is_killed(self):
        with serve() as server:
            outcomes = ranks.run(2, until_killed, server.address)
        self.assertEqual([outcome.kind for outcome in outcomes], ["returned", "ended"], outcomes)


class Alone(ranks.TestCase):
    """One worker. Its rounds are applied at once."""

    def setUp(self):
        self.server = serve()
        self.addCleanup(self.server.close)

    def open(self, model, **options):
        optimizer = optimizer_of(model, self.server.address, **options)
        self.addCleanup(optimizer.worker.close)
        return optimizer

    def raises(self, kind, words, function, *arguments, **keywords):
        with self.assertRaisesRegex(kind, words):
            function(*arguments, **keywords)

    def test_which_parameters_are_served(self):
        model = made("tied")
        optimizer = self.open(model)
        names = optimizer.worker.names
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("unused", names)
        self.assertNotIn("up.bias", names)  # frozen
        self.assertNotIn("again.weight", names)  # another name of body.2.weight
        self.assertEqual(len(optimizer.param_groups[0]["params"]), len(names))
        shared = torch.nn.Parameter(torch.ones(3))
        with serve() as server, optimizer_of([("a", shared), ("b", shared)], server.address) as optimizer:
            self.assertEqual(optimizer.worker.names, ("a",))

    def test_from_named_parameters(self):
        """As from the module, but nothing waits later."""
        for overlap in (False, True):
            with self.subTest(overlap=overlap), serve() as server:
                model = made("chain")
                with optimizer_of(model.named_parameters(), server.address, overlap=overlap) as optimizer:
                    for step in range(STEPS):
                        optimizer.zero_grad()
                        backward(model, "chain", step, 0)
                        optimizer.step()
                        self.assertFalse(any(group.is_old for group in optimizer._weights.groups))
                expected = alone("chain", 1)
                for name, weights in weights_of(model).items():
                    same(weights, expected[name])

    def test_types_and_orders(self):
        """Halves, channels last, gradients of another order."""
        torch.manual_seed(3)
        model = torch.nn.ParameterDict({"f16": torch.nn.Parameter(torch.randn(6, 4).half()), "brain": torch.nn.Parameter(torch.randn(6, 4).bfloat16()),
                                        "last": torch.nn.Parameter(torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)),
                                        "turned": torch.nn.Parameter(torch.randn(5, 7).t()), "empty": torch.nn.Parameter(torch.empty(0))})
        before = weights_of(model)
        for overlap in (False, True):
            with self.subTest(overlap=overlap), serve() as server, optimizer_of(model, server.address, update="sum", overlap=overlap) as optimizer:
                gradients = {name: torch.randn(parameter.shape).to(parameter.dtype) for name, parameter in model.items()}
                sum((parameter * gradients[name]).sum().float() for name, parameter in model.items()).backward()
                optimizer.step()
                optimizer.wait()
                for name, parameter in model.items():
                    same(parameter.detach(), before[name] + gradients[name], name)
                    self.assertEqual(parameter.stride(), before[name].stride())
                before = weights_of(model)
                optimizer.zero_grad(set_to_none=True)

    def test_gradients_are_pushed_in_the_backward_pass(self):
        model = chain()
        optimizer = self.open(model, overlap=True)
        backward(model, "chain", 0, 0)
        self.assertEqual(optimizer.worker._pushed, set(optimizer.worker.names))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with optimizer.no_push():
            backward(model, "chain", 0, 0)
        self.assertFalse(optimizer.worker._pushed)
        optimizer.step()

    def test_what_changes_gradients_needs_none_of_it(self):
        model = chain()
        optimizer = self.open(model, overlap=True)
        backward(model, "chain", 0, 0)
        self.raises(RuntimeError, "second backward pass.*no_push", backward, model, "chain", 0, 0)
        self.raises(RuntimeError, "changed after it was pushed", optimizer.step)
        optimizer.close()
        for change in (lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3), lambda: torch.nn.utils.clip_grad_value_(model.parameters(), 1e-5),
                       lambda: model[0].weight.grad.data.neg_(), lambda: model.zero_grad(set_to_none=False), lambda: model.zero_grad(set_to_none=True)):
            model = chain()
            with serve() as server, contextlib.closing(optimizer_of(model, server.address, overlap=True)) as optimizer:
                backward(model, "chain", 0, 0)
                change()
                self.raises(RuntimeError, "changed after it was pushed", optimizer.step)
        model = chain()
        with serve() as server, optimizer_of(model, server.address) as optimizer:
            before = weights_of(model)
            optimizer.zero_grad()
            backward(model, "chain", 0, 0)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            moved = sum((before[name] - weights).square().sum() for name, weights in weights_of(model).items()).sqrt()
            self.assertAlmostEqual(moved.item(), RATE * 1e-3, delta=1e-5)

    def test_a_closure(self):
        model = chain()
        before = copy.deepcopy(model.state_dict())
        optimizer = self.open(model)

        def closure():
            optimizer.zero_grad()
            x, y = batch("chain", 0, 0)
            loss = (model(x) - y).square().mean()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(5)]
        other, expected = chain(), []
        other.load_state_dict(before)
        plain = torch.optim.SGD(other.parameters(), RATE)
        for _ in range(5):
            plain.zero_grad()
            loss = (other(batch("chain", 0, 0)[0]) - batch("chain", 0, 0)[1]).square().mean()
            loss.backward()
            plain.step()
            expected.append(loss.item())
        for found, loss in zip(losses, expected):
            self.assertAlmostEqual(found, loss, 5)
        self.assertGreater(losses[0], losses[-1] + 1e-3)

    def test_old_graphs(self):
        """A backward pass that needs the weights of before the step fails, as with torch's optimizers."""
        for overlap in (False, True):
            with self.subTest(overlap=overlap), serve() as server:
                model = chain()
                with optimizer_of(model, server.address, overlap=overlap) as optimizer:
                    loss = model(batch("chain", 0, 0)[0]).sum()
                    with optimizer.no_push():
                        loss.backward(retain_graph=True)
                        optimizer.step()
                        self.raises(RuntimeError, "modified by an inplace operation", loss.backward)

    def test_a_frozen_parameter_that_is_thawed(self):
        model = made("tied")
        optimizer = self.open(model)
        model.up.bias.requires_grad_(True)
        backward(model, "tied", 0, 0)
        self.raises(RuntimeError, "up.bias was frozen", optimizer.step)

    def test_states(self):
        model = chain()
        optimizer = self.open(model, update="momentum(0.1, 0.9)")
        state = optimizer.state_dict()
        self.assertEqual(state["state"], {})
        optimizer.load_state_dict(state)
        self.raises(ValueError, "on the servers", optimizer.load_state_dict, {"state": {0: {}}, "param_groups": state["param_groups"]})
        self.raises(ValueError, "other parameters", optimizer.load_state_dict, {"state": {}, "param_groups": [{"params": [0]}]})
        self.raises(ValueError, "make another optimizer", optimizer.add_param_group, {"params": [torch.nn.Parameter(torch.ones(1))]})
        self.raises(TypeError, "cannot be pickled", copy.deepcopy, optimizer)
        self.raises(KeyError, "lr", torch.optim.lr_scheduler.StepLR, optimizer, 1)  # the optimizer has no rate here

    def test_refused(self):
        model, plain = chain(), hocket.params
        self.raises(ValueError, "update is missing", ParamsOptimizer, model, "127.0.0.1:9")
        self.raises(TypeError, "must have names", optimizer_of, model.parameters(), "127.0.0.1:9")
        self.raises(ValueError, "layers are for a module", optimizer_of, model, "127.0.0.1:9", layers=[model[0]])
        self.raises(ValueError, "two parameters have the name", optimizer_of, [("w", torch.nn.Parameter(torch.ones(1))) for _ in range(2)], "127.0.0.1:9")
        self.raises(ValueError, "no parameters", optimizer_of, torch.nn.Tanh(), "127.0.0.1:9")
        self.raises(ValueError, "is on meta", optimizer_of, torch.nn.Linear(2, 2, device="meta"), "127.0.0.1:9")
        self.raises(hocket.InvalidArgumentError, "complex64", optimizer_of, [("w", torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)))], "127.0.0.1:9")
        self.raises(ValueError, "not in the module", self.open, model, overlap=True, layers=[torch.nn.Linear(2, 2)])
        self.assertEqual(self.server.stats().get("workers", []), [])  # the refused one has not joined
        for owner, name in ((hocket.torch.weights.Weights, "_add_hooks"), (hocket.torch.gradients.Pushes, "watch")):
            with serve() as server, mock.patch.object(owner, name, side_effect=KeyboardInterrupt):
                self.raises(KeyboardInterrupt, "", optimizer_of, model, server.address, overlap=True)
                self.assertTrue(server.wait(TIMEOUT_S))  # it has left
        worker = plain.open({"w": torch.ones(3)}, address=serve_for(self).address, secret=SECRET)
        self.addCleanup(worker.close)
        self.raises(ValueError, "one side alone", ParamsOptimizer, model, worker=worker)
        self.raises(ValueError, "no address, update and options", ParamsOptimizer, model, worker=worker, update=UPDATE)

    def test_a_worker_that_is_open(self):
        model = chain()
        with hocket.params.open(model.state_dict(), address=self.server.address, secret=SECRET, update=UPDATE) as worker:
            with ParamsOptimizer(model, worker=worker) as optimizer:
                backward(model, "chain", 0, 0)
                optimizer.step()
            self.assertFalse(worker.closed)
            same(worker.pull("0.weight", torch.empty(300, 20)), model[0].weight.detach())

    def test_copies_and_pickles_of_the_model(self):
        model = chain()
        optimizer = self.open(model, overlap=True)
        backward(model, "chain", 0, 0)
        optimizer.step()
        optimizer.wait()
        other = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        third = torch.load(file, **({"weights_only": False} if HAS_2 else {}))
        optimizer.close()
        for one in (model, other, third):
            same(one(torch.ones(1, 20)), model(torch.ones(1, 20)))
            backward(one, "chain", 0, 0)
        self.assertFalse(model[0]._forward_pre_hooks)

    def test_it_is_dropped(self):
        for overlap in (False, True):
            with self.subTest(overlap=overlap), serve() as server:
                model = chain()
                optimizer = optimizer_of(model, server.address, overlap=overlap)
                backward(model, "chain", 0, 0)
                optimizer.step()
                gone = weakref.ref(optimizer.worker)
                del optimizer
                gc.collect()
                self.assertIsNone(gone())
                self.assertTrue(server.wait(TIMEOUT_S))
                self.assertFalse(model[0]._forward_pre_hooks)
                backward(model, "chain", 0, 0)


def serve_for(case):
    server = serve()
    case.addCleanup(server.close)
    return server


class Two(ranks.TestCase):
    """The other worker is this test: it says when a round is there."""

    def setUp(self):
        self.model = made("chain")
        if not any(words in self.id() for words in ("other_models", "has_failed", "example", "interrupted", "earlier_hooks", "closure")):
            self.begin(timeout=2 if "timeout" in self.id() else TIMEOUT_S)

    def begin(self, overlap=True, **options):
        """Opens both workers; the model's has made a step, if that does not wait for its weights, which do not come. It comes last: a short timeout
        of it is not for the other one."""
        server, weights, opened = serve_for(self), weights_of(self.model), []
        thread = threading.Thread(target=lambda: opened.append(hocket.params.open(
            weights, address=server.address, secret=SECRET, workers=2, number=1, update=UPDATE, tree="direct", timeout=TIMEOUT_S)))
        thread.start()
        until = time.monotonic() + TIMEOUT_S
        while "1 of 2 workers" not in (said := server.stats().get("waits_for", "")):
            self.assertLess(time.monotonic(), until, said)
            time.sleep(0.01)
        self.optimizer = optimizer_of(self.model, server.address, workers=2, number=0, overlap=overlap, **options)
        thread.join(TIMEOUT_S)
        self.other, = opened
        self.addCleanup(self.other.close)
        self.addCleanup(self.optimizer.worker.close)
        if overlap:
            self.optimizer.step()

    def waits(self, call):
        """It ends when the other worker's round is there, and not before."""
        outcome = []

        def run():
            try:
                outcome.append(call())
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(0.2)
        self.assertTrue(thread.is_alive(), outcome)
        self.other.clock()
        thread.join(TIMEOUT_S)
        self.assertFalse(thread.is_alive())
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def test_step_does_not_wait(self):
        groups = self.optimizer._weights.groups
        self.assertEqual(len(groups), 3)  # of the three layers with weights
        self.assertTrue(all(group.is_old and not group.request.done() for group in groups))

    def test_each_module_waits_for_its_own(self):
        first, second, third = self.optimizer._weights.groups
        self.waits(lambda: self.model[0](torch.ones(1, 20)))
        self.assertEqual([first.is_old, second.is_old, third.is_old], [False, True, True])
        self.model[2][0](torch.ones(1, 300))
        self.assertEqual([first.is_old, second.is_old, third.is_old], [False, False, True])

    def test_other_models_whose_inner_modules_are_called(self):
        class Reads(torch.nn.Module):
            """Has a module, and uses its weights without calling it."""

            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                return torch.nn.functional.linear(x, self.linear.weight)

        class Around(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x)

        self.model = Around(Reads())
        self.begin()
        self.waits(lambda: self.model.inner(torch.ones(1, 4)))
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), Around(torch.nn.Linear(4, 4, bias=False)), torch.nn.Linear(4, 4))
        self.model[1].inner.weight = self.model[0].weight  # it is pulled with the first layer's
        self.begin()
        self.waits(lambda: self.model[1].inner(torch.ones(1, 4)))
        self.assertEqual([group.is_old for group in self.optimizer._weights.groups], [False, True])

    def test_a_step_waits_for_weights_that_nobody_has_used(self):
        """Else two pulls would write to the same memory."""
        self.waits(self.optimizer.step)

    def test_evaluation(self):
        self.model.eval()
        with torch.no_grad():
            self.waits(lambda: self.model(torch.ones(1, 20)))
        self.assertFalse(any(group.is_old for group in self.optimizer._weights.groups))

    def test_state_dict_of_a_part(self):
        self.waits(self.model[2].state_dict)

    def test_close(self):
        self.waits(self.optimizer.close)
        self.assertFalse(self.optimizer._weights.are_old())

    def test_a_step_that_has_failed_is_made_again(self):
        """The updates of the failed step count once."""
        self.begin(overlap=False, timeout=2)
        before = weights_of(self.model)
        backward(self.model, "chain", 0, 0)
        for _ in range(2):
            self.assertRaises(hocket.TimeoutError, self.optimizer.step)
        self.end_the_others_round()
        self.optimizer.step()
        self.assertEqual(self.optimizer.worker.stats().round, 1)
        for name, parameter in self.model.named_parameters():
            same(parameter.detach(), before[name] - torch.tensor(RATE) * parameter.grad / torch.tensor(2.0), name)
        self.other.clock()
        self.optimizer.step()  # the same gradients, in a step of their own
        self.assertEqual(self.optimizer.worker.stats().round, 2)
        gradient = weakref.ref(self.model[0].weight.grad)
        self.optimizer.zero_grad(set_to_none=True)
        self.assertIsNone(gradient())

    def test_a_step_that_has_failed_and_other_gradients(self):
        """They are another step's."""
        self.begin(overlap=False, timeout=2)
        backward(self.model, "chain", 0, 0)
        self.assertRaises(hocket.TimeoutError, self.optimizer.step)
        self.end_the_others_round()
        self.other.clock()  # the next one, too
        backward(self.model, "chain", 1, 0)
        self.optimizer.step()
        self.assertEqual(self.optimizer.worker.stats().round, 2)

    def end_the_others_round(self):
        """Once both have ended it, and it is applied: the optimizer's deadline is a short one."""
        self.other.clock()
        self.other.pull("0.weight", torch.empty(300, 20))

    def expect_a_step(self, before, gradients):
        """Of this worker alone: the other's gradients are zeros."""
        self.optimizer.wait()
        for name, parameter in self.model.named_parameters():
            same(parameter.detach(), before[name] - torch.tensor(RATE) * gradients[name] / torch.tensor(2.0), name)

    def gradients(self):
        return {name: parameter.grad.clone() for name, parameter in self.model.named_parameters()}

    def test_a_step_that_was_interrupted_anywhere(self):
        """Made again it pushes nothing twice, and leaves no layer at old weights."""
        Worker, Group = hocket.params.Worker, hocket.torch.weights.Group
        for overlap in (False, True):
            self.begin(overlap=overlap)
            if overlap:
                self.other.clock()
                self.optimizer.wait()
            for owner, name, calls, is_after in ((Worker, "push", 2, True), (Worker, "push", 2, False), (Worker, "clock", 1, False), (Worker, "clock", 1, True),
                                                 (Group, "mark", 2, True), (Worker, "pull", 1, False), (Worker, "pull", 1, True), (Worker, "pull", 3, False)):
                if (overlap and name == "push") or (not overlap and calls == 3):
                    continue
                with self.subTest(overlap=overlap, name=name, calls=calls, is_after=is_after):
                    self.model.zero_grad(set_to_none=True)
                    before, round = weights_of(self.model), self.optimizer.worker.stats().round
                    backward(self.model, "chain", round, 0)
                    gradients, (original, left) = self.gradients(), (getattr(owner, name), [calls])

                    def stop(one, *rest, **named):
                        left[0] -= one is not self.other
                        if left[0] == 0 and not is_after:
                            raise KeyboardInterrupt
                        result = original(one, *rest, **named)
                        if left[0] == 0 and one is not self.other:
                            raise KeyboardInterrupt
                        return result

                    with mock.patch.object(owner, name, stop):
                        if overlap or name != "mark":
                            self.assertRaises(KeyboardInterrupt, self.optimizer.step)
                        else:
                            left[0] = 0
                    self.other.clock()
                    self.optimizer.step()
                    self.assertEqual(self.optimizer.worker.stats().round, round + 1)
                    self.expect_a_step(before, gradients)

    def test_a_step_that_was_interrupted_and_a_forward_pass(self):
        """It waits for the weights of all layers, also where no pull was started."""
        self.begin()
        self.other.clock()
        self.optimizer.wait()
        before = weights_of(self.model)
        backward(self.model, "chain", 1, 0)
        gradients = self.gradients()
        with mock.patch.object(hocket.params.Worker, "pull", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.optimizer.step)
        self.waits(lambda: self.model(torch.ones(1, 20)))
        self.expect_a_step(before, gradients)

    def test_a_step_that_has_failed_with_overlap(self):
        self.begin(timeout=2)
        for _ in range(2):
            self.assertRaises(hocket.TimeoutError, self.optimizer.step)  # for the weights of the step before
        self.end_the_others_round()
        self.optimizer.step()
        self.assertEqual(self.optimizer.worker.stats().round, 2)

    def test_a_closure_of_a_step_that_has_failed(self):
        """It is not called again when only the weights are missing."""
        self.begin(overlap=False, timeout=2)
        before, calls = weights_of(self.model), []

        def closure():
            calls.append(1)
            self.optimizer.zero_grad()
            backward(self.model, "chain", 0, 0)
            return len(calls)

        self.assertRaises(hocket.TimeoutError, self.optimizer.step, closure)
        gradients = self.gradients()
        self.end_the_others_round()
        self.assertEqual(self.optimizer.step(closure), 1)
        self.expect_a_step(before, gradients)
        self.other.clock()  # before the step: it is there when this one's is
        self.assertEqual(self.optimizer.step(closure), 2)
        self.assertEqual(self.optimizer.worker.stats().round, 2)

    def test_earlier_hooks(self):
        """Of weight_norm, which reads the weights before the module's forward pass."""
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(torch.nn.utils.weight_norm(torch.nn.Linear(20, 8)), torch.nn.Tanh())
        self.begin()
        name = "0.weight_v"
        self.other.push({name: torch.randn(8, 20)})
        x = torch.randn(4, 20)
        found = self.waits(lambda: self.model(x))
        layer = self.model[0]
        weight = layer.weight_v * (layer.weight_g / layer.weight_v.norm(dim=1, keepdim=True))
        torch.testing.assert_close(found, torch.tanh(torch.nn.functional.linear(x, weight, layer.bias)))

    def test_a_round_that_is_ended_as_it_is(self):
        """After an error in the backward pass, or for a loss that is not finite."""
        self.other.clock()
        self.optimizer.wait()
        before = weights_of(self.model)
        backward(self.model, "chain", 1, 0)
        gradients = self.gradients()
        with self.assertRaisesRegex(RuntimeError, r"second backward pass.*end_round\(\)"):
            backward(self.model, "chain", 1, 0)
        self.optimizer.end_round()
        self.other.clock()
        self.expect_a_step(before, gradients)  # pushed gradients count
        self.model.zero_grad(set_to_none=True)
        before = weights_of(self.model)
        with self.optimizer.no_push():
            backward(self.model, "chain", 2, 0)
        self.optimizer.end_round()
        self.other.clock()
        self.optimizer.wait()
        for name, weights in weights_of(self.model).items():
            same(weights, before[name])
        self.assertEqual(self.optimizer.worker.stats().round, 3)

    def test_a_round_that_has_failed_to_end_as_it_is(self):
        self.begin(overlap=False, timeout=2)
        for _ in range(2):
            self.assertRaises(hocket.TimeoutError, self.optimizer.end_round)
        self.end_the_others_round()
        self.optimizer.end_round()
        self.assertEqual(self.optimizer.worker.stats().round, 1)

    def test_the_example(self):
        code, said = ranks.program([sys.executable, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "params_torch.py"), "--steps", "200"], 300)
        self.assertEqual(code, 0, said)
        right = [float(line.split()[2]) for line in said.splitlines() if line.startswith("worker ")]
        self.assertEqual(len(right), 2, said)
        self.assertGreater(min(right), 70, said)  # guessing has half of them

    def test_ctrl_c(self):
        """It ends the wait of a forward pass, which can be run again."""
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            self.model(torch.ones(1, 20))
        timer.join()
        self.waits(lambda: self.model(torch.ones(1, 20)))

    def test_a_timeout(self):
        """The forward pass raises it, and can be run again."""
        with self.assertRaises(hocket.TimeoutError):
            self.model(torch.ones(1, 20))
        self.assertTrue(self.optimizer._weights.groups[0].is_old)
        self.other.clock()
        self.model(torch.ones(1, 20))
        same(self.model[0].weight.detach(), self.other.pull("0.weight", torch.empty(300, 20)))


if __name__ == "__main__":
    ranks.main()
