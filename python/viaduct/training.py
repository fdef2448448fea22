"""Training steps as graphs: data, tensor, pipeline and expert parallel.

A `Layout` says how ranks share a model, `dense` and `mixture_of_experts` make the graph of one
step. They are small on purpose: copy one and change what your model does differently.

>>> import viaduct as via
>>> from viaduct import training
>>> layout = training.Layout(data=2, tensor=2, pipeline=2)
>>> model = training.Model(layers=4, forward="100 us", backward="200 us",
...                        activation_bytes="1 MiB", gradient_bytes="4 MiB", optimizer="50 us")
>>> training.dense(layout, model, microbatches=4)
<viaduct graph of 8 ranks, 472 steps>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from viaduct._errors import ScenarioError
from viaduct._graph import Graph, RankGroup, Step
from viaduct._study import Setting

__all__ = ["Layout", "Model", "dense", "mixture_of_experts"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How ranks share a model: those of a tensor group are neighbours, then those of data groups.

    Rank `(stage * data + replica) * tensor + part` has part `part` of the layers of stage `stage`,
    for the batches of replica `replica`.
    """

    data: int = 1
    """Replicas, each with batches of its own."""
    tensor: int = 1
    """Parts of each layer."""
    pipeline: int = 1
    """Stages, each with as many layers."""

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.data * self.tensor * self.pipeline

    def place(self, rank: int) -> tuple[int, int, int]:
        """Give the stage, the replica and the part of a rank."""
        return (
            rank // (self.data * self.tensor),
            rank // self.tensor % self.data,
            (rank % self.tensor),
        )

    def rank(self, stage: int, replica: int, part: int) -> int:
        """Give the rank at a place."""
        return (stage * self.data + replica) * self.tensor + part

    def tensor_groups(self) -> Iterator[list[int]]:
        """Give the ranks that have the parts of the same layers."""
        for first in range(0, self.ranks, self.tensor):
            yield list(range(first, first + self.tensor))

    def data_groups(self) -> Iterator[list[int]]:
        """Give the ranks that have the same part of the same layers."""
        for stage in range(self.pipeline):
            for part in range(self.tensor):
                yield [self.rank(stage, replica, part) for replica in range(self.data)]


@dataclass(frozen=True, slots=True)
class Model:
    """What a rank does for a layer of its stage and a batch, and once a step."""

    layers: int
    """Of the whole model; each stage has as many."""
    forward: str
    """Time of a layer forward, on one rank."""
    backward: str
    """The same backward."""
    activation_bytes: int | str
    """What goes from stage to stage, and what a tensor group sums up twice in a layer, each way."""
    gradient_bytes: int | str
    """What a rank sums up with its data group, of one layer."""
    optimizer: str = "0 s"
    """Time of a rank for new weights."""


def _groups(graph: Graph, all_of: Iterable[list[int]], name: str) -> dict[int, RankGroup]:
    """Make groups; give that of each rank."""
    groups: dict[int, RankGroup] = {}
    for number, ranks in enumerate(all_of):
        group = graph.group(ranks, f"{name} {number}")
        groups.update(dict.fromkeys(ranks, group))
    return groups


def _schedule(stage: int, stages: int, microbatches: int) -> Iterator[tuple[bool, int]]:
    """Give what a stage does, forward and backward in turn: whether forward, and the batch."""
    ahead = min(stages - stage - 1, microbatches)
    yield from ((True, batch) for batch in range(ahead))
    for batch in range(microbatches - ahead):
        yield True, ahead + batch
        yield False, batch
    yield from ((False, batch) for batch in range(microbatches - ahead, microbatches))


_Layer = Callable[[Graph, int, bool, list[Step]], Step]


def _step(
    graph: Graph,
    layout: Layout,
    model: Model,
    microbatches: int,
    layer: _Layer,
    *,
    overlap: bool,
) -> Graph:
    """Make the step of all ranks; `layer` adds a layer of a rank, one way, and gives its end."""
    if model.layers % layout.pipeline:
        raise ScenarioError(
            f"error: {model.layers} layers are not shared evenly by {layout.pipeline} stages\n"
            "help: give a multiple of as many layers"
        )
    layers = model.layers // layout.pipeline
    data = _groups(graph, layout.data_groups(), "data")
    for rank in range(layout.ranks):
        stage, replica, part = layout.place(rank)
        last: list[Step] = []
        gradients: list[list[Step]] = []
        for forward, batch in _schedule(stage, layout.pipeline, microbatches):
            way = 1 if forward else -1
            before, behind = stage - way, stage + way
            wait = list(last)
            if 0 <= before < layout.pipeline:
                source = layout.rank(before, replica, part)
                wait.append(graph.receive(rank, source, model.activation_bytes, tag=batch))
            # Behind which the gradients of each layer are complete: those of the last batch stay.
            gradients.clear()
            for _ in range(layers):
                wait = [layer(graph, rank, forward, wait)]
                gradients.append(wait)
            last = wait
            if 0 <= behind < layout.pipeline:
                to = layout.rank(behind, replica, part)
                graph.send(rank, to, model.activation_bytes, tag=batch, after=last)
        if layout.data > 1:
            last = [
                graph.together(
                    rank,
                    "all-reduce",
                    model.gradient_bytes,
                    group=data[rank],
                    after=complete if overlap else last,
                )
                for complete in gradients
            ]
        graph.compute(rank, model.optimizer, after=last, name="optimizer")
    return graph


def dense(
    layout: Layout,
    model: Model,
    *,
    microbatches: int = 1,
    overlap: bool = False,
    **keys: Setting,
) -> Graph:
    """Make a step of a model whose layers are all alike.

    Each layer of a tensor group ends with two all-reduces of the activations either way. Stages do
    one forward and one backward in turn; gradients are summed up at the end, or beside the last
    backward pass.

    Parameters
    ----------
    layout, model
        How ranks share it, and what a layer costs.
    microbatches : int
        Batches that go through the pipeline one behind the other.
    overlap : bool
        Whether the gradients of a layer are summed up as soon as the last batch has left it, while
        the layers before it are computed.
    **keys
        Those of `Graph`: `all_reduce="double-tree"`.
    """
    graph = Graph(layout.ranks, **keys)  # type: ignore[arg-type]
    tensor = _groups(graph, layout.tensor_groups(), "tensor")

    def layer(graph: Graph, rank: int, forward: bool, after: list[Step]) -> Step:
        time = model.forward if forward else model.backward
        end = graph.compute(rank, time, after=after, name="forward" if forward else "backward")
        if layout.tensor > 1:
            for _ in range(2):
                end = graph.together(
                    rank, "all-reduce", model.activation_bytes, group=tensor[rank], after=end
                )
        return end

    return _step(graph, layout, model, microbatches, layer, overlap=overlap)


def mixture_of_experts(
    layout: Layout,
    model: Model,
    *,
    experts: int,
    expert: str,
    dispatched_bytes: int | str,
    microbatches: int = 1,
    overlap: bool = False,
    **keys: Setting,
) -> Graph:
    """Make a step of a model each of whose layers has experts on other ranks.

    A layer computes, sends each token to its experts by an all-to-all, has them compute, and gets
    the tokens back by another, either way.

    Parameters
    ----------
    layout, model
        As of `dense`; tensor groups do nothing together here.
    experts : int
        Ranks that share the experts: so many neighbours of one stage each.
    expert : str
        Time of a rank's experts, forward; backward they take twice as long.
    dispatched_bytes
        What a rank has for all experts together.
    microbatches, overlap, **keys
        As of `dense`.
    """
    of_stage = layout.data * layout.tensor
    if experts < 1 or of_stage % experts:
        raise ScenarioError(
            f"error: a stage of {of_stage} ranks has no whole groups of {experts}\n"
            "help: give a number of ranks that divides it"
        )
    graph = Graph(layout.ranks, **keys)  # type: ignore[arg-type]
    firsts = range(0, layout.ranks, experts)
    groups = _groups(graph, (list(range(at, at + experts)) for at in firsts), "experts")

    def layer(graph: Graph, rank: int, forward: bool, after: list[Step]) -> Step:
        time = model.forward if forward else model.backward
        end = graph.compute(rank, time, after=after, name="attention")
        for tokens_return in (False, True):
            end = graph.together(
                rank, "all-to-all", dispatched_bytes, group=groups[rank], after=end
            )
            for _ in range(0 if tokens_return else 1 if forward else 2):
                end = graph.compute(rank, expert, after=end, name="experts")
        return end

    return _step(graph, layout, model, microbatches, layer, overlap=overlap)
