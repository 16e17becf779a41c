"""iBatch: Wang, Pi and Zhou, "Scalable Distributed DL Training: Batching Communication and Computation", AAAI 2019."""

import json
import os
import tempfile

from schedc_runs import percent, table

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "overlap")
BLADES = 8
METHODS = {"default": "sequential", "layer by layer": "layers", "iBatch": "ibatch"}
CLASSES = 21841  # of ImageNet22K
SPARSE = 0.02  # bytes of gradients for each of weights: one in a hundred, with its index
# Profile, parameters as the paper counts them; nodes and speed-up of the default, by which T_1 is fitted.
NETWORKS = {
    "GoogLeNet": ("googlenet", 5e6, 30, 26),
    "Inception-V3": ("inception-v3", 27e6, 30, 25),
    "VGG19": ("vgg19", 143e6, 30, 23),
    "VGG19-22K": ("vgg19", 229e6, 72, 26),
}
# What the text says of Figure 5: speed-ups of default, layer by layer, iBatch.
PRINTED = {
    ("GoogLeNet", 30): (26, 25, 29),
    ("Inception-V3", 30): (25, 24, 28),
    ("VGG19", 30): (23, 22, 26),
    ("VGG19-22K", 30): (22, 21, 25),
    ("VGG19-22K", 72): (26, 32, 45),
}
NODES = (6, 18, 30, 48, 72)


def network(nodes):
    """Nodes are spread over the blades; a blade's nodes share its link, and reach each other over memory."""
    used = min(nodes, BLADES)
    lines = [f"link {node} blade{node % BLADES} 1000GB/s 0us" for node in range(nodes)]
    return "; ".join(lines + [f"link blade{blade} ethernet 10Gb/s 0us" for blade in range(used)])


def profile(name):
    """Returns the example's profile; VGG19-22K is VGG19 with another last layer."""
    with open(os.path.join(EXAMPLES, NETWORKS[name][0] + ".json")) as file:
        text = json.load(file)
    if name == "VGG19-22K":
        last = text["layers"][-1]
        last["bytes"] = 4 * (4096 + 1) * CLASSES
        last["compute"] *= CLASSES / 1000
    return text


class Model:
    """A network whose training is simulated. All nodes are workers and servers at once, and divide one batch of images."""

    def __init__(self, schedc, name, gradients=1.0):
        self.schedc, self.gradients = schedc, gradients
        _, self.parameters, nodes, speed_up = NETWORKS[name]
        self.profile = profile(name)
        # Computation divides by the nodes; what communicates by default does not depend on it.
        self.compute = 1.0
        times = self.iteration(nodes, "sequential", gradients=1.0)
        self.compute = speed_up * (times["iteration"] - times["computation"]) / (1 - speed_up / nodes)

    def iteration(self, nodes, method, share=None, gradients=None):
        model = {"forward": method, "gradients": gradients or self.gradients}
        if share is not None:
            model["forward_share"] = share
        job = {"workers": nodes, "servers": nodes, "placement": "order", "bytes": 4 * self.parameters}
        job.update(compute=self.compute / nodes, model=model)
        with tempfile.NamedTemporaryFile("w", prefix="hkt-papers-", suffix=".json") as file:
            json.dump(self.profile, file)
            file.flush()
            model["profile"] = file.name
            run = self.schedc.simulate({"hosts": nodes, "network": network(nodes), "jobs": [job]}, timeout=600)[0]
        times = run["jobs"][0]["exchanges"][0]
        return {**times, "batches": len(run["jobs"][0]["pulls"])}

    def speed_up(self, nodes, method, share=None):
        return self.compute / self.iteration(nodes, method, share)["iteration"]


def speed_ups(model, name, nodes, with_printed):
    cells = []
    for index, method in enumerate(METHODS.values()):
        printed = PRINTED.get((name, nodes)) if with_printed else None
        cells.append(f"{model.speed_up(nodes, method):.1f}" + (f" ({printed[index]})" if printed else ""))
    return cells


def figure5(schedc):
    rows, text = [], ""
    for name, (_, _, nodes, speed_up) in NETWORKS.items():
        model = Model(schedc, name)
        text += f"- {name}: T_1 = {model.compute:.1f} s, from the default's {speed_up} at {nodes} nodes\n"
        rows += [[name, str(nodes), *speed_ups(model, name, nodes, True)] for nodes in NODES]
    return text + "\n" + table(["", "nodes", *(f"{method} (paper)" for method in METHODS)], rows)


def bound(schedc):
    """What any overlap of pulls with forward passes can reach."""
    name, nodes = "VGG19-22K", 72
    model, rows = Model(schedc, name), []
    for share in (1 / 3, 0.5, 0.75, 1):
        forward = share * model.compute / nodes
        default = model.iteration(nodes, "sequential", share)
        hidden = min(default["pull"], forward)
        row = [percent(share), f"{forward:.2f}", f"{default['pull']:.2f}", f"{default['iteration']:.2f}"]
        row += [f"{model.speed_up(nodes, method, share):.1f}" for method in list(METHODS.values())[1:]]
        rows.append([*row, f"{model.compute / (default['iteration'] - hidden):.1f}"])
    heads = [
        "forward share of the computation",
        "forward pass, s",
        "pull, s",
        "default, s",
        "layer by layer",
        "iBatch",
        "nothing exposed that could be hidden",
    ]
    return f"{name}, {nodes} nodes; the paper has 26, 32 and 45.\n\n" + table(heads, rows)


def figure6(schedc):
    rows = []
    for name in ("Inception-V3", "VGG19"):
        model = Model(schedc, name, SPARSE)
        rows += [[name, str(nodes), *speed_ups(model, name, nodes, False)] for nodes in NODES]
    return table(["", "nodes", *METHODS], rows)


def figure7(schedc):
    rows = []
    for name in ("Inception-V3", "VGG19"):
        model, nodes, whole = Model(schedc, name), 72, 0.0
        for method, plan in METHODS.items():
            times = model.iteration(nodes, plan)
            # Neither the backward pass nor the pushes overlap with anything.
            overlapping = times["overlap"]
            pull = times["communication"] - times["push"] - overlapping
            forward = times["computation"] * (1 / 3) - overlapping
            together = overlapping + pull + forward
            whole = whole or together
            rows.append([name, method, str(times["batches"]), *(f"{part / whole:.3f}" for part in (together, overlapping, pull, forward))])
    return table(["", "", "batches", "time", "both", "only communication", "only computation"], rows, 2)


FIGURES = {"ibatch-5": figure5, "ibatch-bound": bound, "ibatch-6": figure6, "ibatch-7": figure7}
