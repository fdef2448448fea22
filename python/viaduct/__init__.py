"""Simulate clusters on user-level networks: hosts, NICs, buses, links and switches.

A study is read, perhaps with other settings, and run; its result has plain numbers with units in
their names, and tables that every library of data frames reads without a copy.

>>> import viaduct as via
>>> result = via.study("four-hop", set={"traffic.size": "64 B"}).run(seed=1)
>>> result.messages
Counts(posted=201, delivered=200, dropped=0, in_flight=1)
>>> result.latency_us.mean
32.85
>>> result.links.columns[:7]
['link', 'from', 'to', 'class', 'wire_bytes', 'utilisation_fraction', 'flows_max']

A network of your own is made by loops, or from arrays and graphs: `Network`.

>>> net = via.Network.torus([8, 8], hosts_per_switch=2, rate="856 Mbit/s", nic="giganet-clan")
>>> traffic = via.Traffic(size="32 KiB", rate="100/s", to=via.hops(3))
>>> net.run(traffic=traffic, until="0.2 s", warmup="0.1 s", seed=1).hosts
128

Errors are `Error` or below it, with the texts of the command; `Interrupted` is what Ctrl-C raises
during a run, with what there is.
"""

from viaduct import schedules, training
from viaduct._applications import Collective, Program, Trace, collective, program, trace
from viaduct._errors import (
    AssumptionError,
    DeadlockError,
    DescriptorError,
    Error,
    FabricError,
    FlushedError,
    Interrupted,
    ProgramError,
    RunError,
    ScenarioError,
    SweepInterrupted,
    TimeLimitError,
)
from viaduct._graph import Graph, RankGroup, Step
from viaduct._messages import Messages
from viaduct._native import (
    Buffer,
    Completion,
    CompletionQueue,
    Host,
    Operation,
    QueuePair,
    Region,
    SharedCompletionQueue,
    SharedReceiveQueue,
    Table,
    Vi,
    Window,
    WorkCompletion,
    __version__,
)
from viaduct._network import Network
from viaduct._programs import Account, Cluster, ClusterResult, cluster
from viaduct._result import (
    Counts,
    Explanation,
    Interfaces,
    Latency,
    QueueDepth,
    Result,
    SteadyState,
    Usage,
    Warning,
)
from viaduct._study import Progress, Study, models, network_models, parse_study, studies, study
from viaduct._sweep import Sweep, SweepProgress, sweep
from viaduct._traffic import (
    Pattern,
    Traffic,
    all_to_all,
    bit_reversal,
    hops,
    hot_spot,
    incast,
    neighbours,
    pairs,
    random_permutation,
    transpose,
    uniform,
)

__all__ = [
    "Account",
    "AssumptionError",
    "Buffer",
    "Cluster",
    "ClusterResult",
    "Collective",
    "Completion",
    "CompletionQueue",
    "Counts",
    "DeadlockError",
    "DescriptorError",
    "Error",
    "Explanation",
    "FabricError",
    "FlushedError",
    "Graph",
    "Host",
    "Interfaces",
    "Interrupted",
    "Latency",
    "Messages",
    "Network",
    "Operation",
    "Pattern",
    "Program",
    "ProgramError",
    "Progress",
    "QueueDepth",
    "QueuePair",
    "RankGroup",
    "Region",
    "Result",
    "RunError",
    "ScenarioError",
    "SharedCompletionQueue",
    "SharedReceiveQueue",
    "SteadyState",
    "Step",
    "Study",
    "Sweep",
    "SweepInterrupted",
    "SweepProgress",
    "Table",
    "TimeLimitError",
    "Trace",
    "Traffic",
    "Usage",
    "Vi",
    "Warning",
    "Window",
    "WorkCompletion",
    "__version__",
    "all_to_all",
    "bit_reversal",
    "cluster",
    "collective",
    "hops",
    "hot_spot",
    "incast",
    "models",
    "neighbours",
    "network_models",
    "pairs",
    "parse_study",
    "program",
    "random_permutation",
    "schedules",
    "studies",
    "study",
    "sweep",
    "trace",
    "training",
    "transpose",
    "uniform",
]
