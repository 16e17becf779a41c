"""The libraries that are compared: how their ranks are started, and which features they have.

A library's launch(ranks, folder, arguments) returns (command, environment) pairs to start: one for each rank, or a
launcher that starts them all. arguments: those of each rank's driver; folder: the job's folder.
"""

import os
from dataclasses import dataclass, field

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
               "all_to_all")
# The collectives whose call takes the count of one rank's part.
DIVIDED = ("reduce_scatter", "all_gather", "gather", "scatter", "all_to_all")

# A library's algorithms for each collective, by the names that its driver knows, each with the largest size
# in bytes for which it is tried (None: any). The fastest one counts. "-" is the library's own choice.
OWN_CHOICE = {collective: {"-": None} for collective in COLLECTIVES}
GLOO = {
    "all_reduce": {"ring": None, "bcube": None, "halving_doubling": None, "ring_chunked": None},
    "reduce_scatter": {"halving_doubling": None},
    "all_gather": {"ring": None, "ring_blocking": None},
    "broadcast": {"tree": None, "one_to_all": None},
    "reduce": {"ring": None},
    "gather": {"direct": None},
    "scatter": {"direct": None},
    "all_to_all": {"direct": None},
}
ROOFLINE = {collective: {"slots": 16 << 10, "pass": None, "stream": None} for collective in COLLECTIVES}


@dataclass
class Library:
    name: str
    launch: object
    memories: list = field(default_factory=lambda: ["malloc"])
    algorithms: dict = field(default_factory=lambda: OWN_CHOICE)
    yields: bool = True  # False: a rank that waits keeps its core, and a rank beside it there waits for its time slice

    def row(self, memory):
        """Returns the name of the library's figures with that memory."""
        return self.name if len(self.memories) == 1 or memory != "malloc" else self.name + " (malloc)"


def outnumber_cores(ranks):
    return ranks > len(os.sched_getaffinity(0))


def that_can_share_cores(libraries, ranks):
    """Returns the libraries to measure on so many ranks, and prints which ones are left out."""
    kept = [library for library in libraries if library.yields or not outnumber_cores(ranks)]
    for library in libraries:
        if library not in kept:
            print(f"left out on {ranks} ranks: {library.name}, which polls without yielding, and ranks outnumber cores")
    return kept


def here(_rank):
    return []


def loopback(_rank):
    return "127.0.0.1"


def rank_variables(rank, ranks):
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks)}


def open_mpi(drivers, options=(), settings=None, before=()):
    """settings: its MCA parameters."""
    driver = os.path.join(drivers, "openmpi")
    variables = {"OMPI_MCA_" + name: value for name, value in (settings or {}).items()}

    def launch(ranks, folder, arguments):
        mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *options]
        command = [*before, *mpirun, "-np", str(ranks), driver, *arguments]
        return [(command, {"OMPI_MCA_orte_tmpdir_base": folder, **variables})]

    return Library("Open MPI", launch)


def mpich(drivers, options=(), variables=None, before=()):
    driver = os.path.join(drivers, "mpich")

    def launch(ranks, _folder, arguments):
        command = [*before, "mpiexec.mpich", *options, "-n", str(ranks), driver, *arguments]
        return [(command, variables or {})]

    return Library("MPICH", launch)


def gloo(drivers, address=loopback, before=here):
    driver = os.path.join(drivers, "gloo")

    def launch(ranks, folder, arguments):
        meeting = os.path.join(folder, "meeting")
        os.makedirs(meeting)
        return [
            ([*before(rank), driver, *arguments, f"{meeting},{address(rank)}"], rank_variables(rank, ranks))
            for rank in range(ranks)
        ]

    return Library("Gloo", launch, algorithms=GLOO)


def hocket_variables(build, variables=None):
    return {"LD_LIBRARY_PATH": os.path.join(build, "capi"), **(variables or {})}


def hocket(drivers, build, variables=None, memories=("hkt_mem_alloc", "malloc"), name="Hocket"):
    run = os.path.join(build, "tools", "hocket-run")
    driver = os.path.join(drivers, "hocket")

    def launch(ranks, _folder, arguments):
        return [([run, "-n", str(ranks), driver, *arguments], hocket_variables(build, variables))]

    return Library(name, launch, memories=list(memories))


def roofline(drivers):
    driver = os.path.join(drivers, "roofline")

    def launch(ranks, folder, arguments):
        memory = os.path.join(folder, "memory")
        return [([driver, *arguments, memory], rank_variables(rank, ranks)) for rank in range(ranks)]

    return Library("roofline", launch, algorithms=ROOFLINE)
