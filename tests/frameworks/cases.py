"""What is run of each framework. A case's program runs as ranks that torchrun starts, once for each backend."""
from __future__ import annotations

import dataclasses
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = "accelerate.test_utils.scripts."


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    needs: tuple[str, ...]  # packages of PyPI; the first is the one whose version the table has
    command: tuple[str, ...]  # of torchrun, behind its options
    ranks: int = 2
    is_told: bool = False  # the program takes the backend's name, and writes down what it has computed

    def command_with(self, backend: str) -> list[str]:
        return [*self.command, backend] if self.is_told else list(self.command)


def _script(name: str, *needs: str, ranks: int = 2) -> Case:
    return Case(name, ("accelerate", *needs), ("-m", SCRIPTS + name), ranks)


def _program(name: str, *needs: str, arguments: tuple[str, ...] = ()) -> Case:
    return Case(" ".join([name, *arguments]), needs, (os.path.join(HERE, "programs", name + ".py"), *arguments), is_told=True)


CASES = [
    # accelerate's own scripts. Those that are missing need a GPU, or load models from a hub.
    _script("test_script"),
    _script("test_script", ranks=3),
    _script("test_ops"),
    _script("test_sync"),
    _script("test_distributed_data_loop"),
    _script("test_ddp_comm_hook"),
    _script("test_merge_weights"),
    _script("external_deps.test_metrics", "evaluate", "datasets", "transformers", "scikit-learn"),
    # Programs as docs/frameworks.md says to write them.
    _program("accelerated", "accelerate"),
    _program("fabric", "lightning-fabric"),
    _program("trainer", "transformers", "accelerate"),
    *[_program("zero", "deepspeed", arguments=(str(stage),)) for stage in (0, 1, 2, 3)],
    _program("fault_tolerant", "torchft"),
]
