"""Simulate clusters on user-level networks: hosts, NICs, buses, links and switches.

A study is read, perhaps with other settings, and run; its result has plain numbers with units in
their names, and tables that every library of data frames reads without a copy.

>>> import viaduct as via
>>> result = via.study("four-hop", set={"traffic.size": "64 B"}).run(seed=1)
>>> result.messages
Counts(posted=201, delivered=200, dropped=0, in_flight=1)
>>> result.latency_us.mean
32.85
>>> result.links.columns
['link', 'class', 'wire_bytes', 'utilisation_fraction', 'flows_max']

Errors are `Error` or below it, with the texts of the command; `Interrupted` is what Ctrl-C raises
during a run, with what there is.
"""

from viaduct._errors import (
    AssumptionError,
    Error,
    Interrupted,
    RunError,
    ScenarioError,
    SweepInterrupted,
)
from viaduct._native import Table, __version__
from viaduct._result import (
    Counts,
    Explanation,
    Latency,
    QueueDepth,
    Result,
    SteadyState,
    Usage,
    Warning,
)
from viaduct._study import Progress, Study, models, parse_study, studies, study
from viaduct._sweep import Sweep, SweepProgress, sweep

__all__ = [
    "AssumptionError",
    "Counts",
    "Error",
    "Explanation",
    "Interrupted",
    "Latency",
    "Progress",
    "QueueDepth",
    "Result",
    "RunError",
    "ScenarioError",
    "SteadyState",
    "Study",
    "Sweep",
    "SweepInterrupted",
    "SweepProgress",
    "Table",
    "Usage",
    "Warning",
    "__version__",
    "models",
    "parse_study",
    "studies",
    "study",
    "sweep",
]
