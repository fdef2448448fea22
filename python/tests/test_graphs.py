"""Graphs made by loops, and training steps made of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import viaduct as via
from viaduct import training


def net(hosts: int = 4) -> via.Network:
    return via.Network.single_switch(hosts, rate="100 Gbit/s", nic="rnic-gen4")


def makespan_us(result: via.Result) -> float:
    assert result.application is not None
    return float(result.application["makespan_us"])


def test_a_graph_is_what_its_collective_is() -> None:
    graph = via.Graph(4, all_reduce="recursive-doubling")
    for rank in range(4):
        graph.together(rank, "all-reduce", "64 KiB")
    alone = via.collective("all-reduce", bytes="64 KiB", algorithm="recursive-doubling")
    expected = makespan_us(net().run(traffic=alone))
    assert makespan_us(net().run(traffic=graph)) == pytest.approx(expected, abs=0.001)
    # What is added later counts, too.
    for rank in range(4):
        graph.compute(rank, "100 us", after=via.Step(rank, 0))
    assert makespan_us(net().run(traffic=graph)) == pytest.approx(expected + 100, abs=0.001)


def test_a_study_carries_its_graph_and_a_file_of_it_is_the_same(tmp_path: Path) -> None:
    graph = via.Graph(3, placement="linear")
    first = graph.send(0, 2, 4096, tag=9)
    graph.compute(0, "3 us", after=first)
    graph.receive(2, 0, 4096, tag=9)
    graph.group([0, 2])
    study = net().study(graph)
    result = study.run()
    assert via.parse_study(study.to_toml()).run().digest == result.digest
    graph.write(tmp_path / "step.goal")
    text = study.to_toml().split("[files]")[0].replace("graph.goal", str(tmp_path / "step.goal"))
    assert "graph.goal" not in text
    assert (tmp_path / "step.goal").read_text().startswith("num_ranks 3\n")
    assert (graph.ranks, graph.operations, repr(graph)) == (
        3,
        3,
        "<viaduct graph of 3 ranks, 3 steps>",
    )


def test_what_a_graph_cannot_have_is_told() -> None:
    graph = via.Graph(2)
    step = graph.compute(0, "1 us")
    with pytest.raises(via.ScenarioError, match=r"rank 1 waits for one of rank 0"):
        graph.compute(1, "1 us", after=step)
    with pytest.raises(via.ScenarioError, match=r"there is no rank 2\nhelp: ranks are 0 to 1"):
        graph.compute(2, "1 us")
    with pytest.raises(via.ScenarioError, match=r"rank 0 has no step 7 yet"):
        graph.compute(0, "1 us", after=via.Step(0, 7))
    with pytest.raises(via.ScenarioError, match=r"the time is \"1 parsec\""):
        graph.compute(0, "1 parsec")
    with pytest.raises(via.ScenarioError, match=r"bytes are '1 parsec'"):
        graph.send(0, 1, "1 parsec")
    with pytest.raises(via.ScenarioError, match=r"there is no collective `all`"):
        graph.together(0, "all")
    with pytest.raises(via.ScenarioError, match=r"a group has no member, or one twice"):
        graph.group([1, 1])
    with pytest.raises(via.ScenarioError, match=r"there is no all-reduce by bruck"):
        via.Graph(2, all_reduce="bruck")
    graph.together(0, "all-reduce", 8)
    with pytest.raises(via.ScenarioError, match=r"rank 1 does 0 collectives of group `all ranks`"):
        net().run(traffic=graph)


MODEL = training.Model(
    layers=4,
    forward="100 us",
    backward="200 us",
    activation_bytes=0,
    gradient_bytes=0,
    optimizer="50 us",
)


@pytest.mark.parametrize(("stages", "batches"), [(1, 1), (2, 1), (2, 4), (4, 4), (4, 8)])
def test_a_pipeline_takes_what_its_stages_do_and_its_bubble(stages: int, batches: int) -> None:
    layout = training.Layout(pipeline=stages)
    graph = training.dense(layout, MODEL, microbatches=batches)
    result = net(stages).run(traffic=graph, set={"links.propagation": "0 s"})
    # A stage does all batches; before and after it others work: 4 layers of 300 us by all stages.
    expected = (batches + stages - 1) * 4 * 300 / stages + 50
    # A message of no bytes takes about a microsecond, and there are two a batch and stage.
    allowed = 4 * (batches + stages)
    assert expected <= makespan_us(result) <= expected + allowed


@pytest.mark.parametrize(("gradient_bytes", "is_short"), [(100_000, True), (10_000_000, False)])
def test_gradients_are_summed_up_beside_the_layers_before(
    gradient_bytes: int, is_short: bool
) -> None:
    model = dataclasses.replace(MODEL, gradient_bytes=gradient_bytes)
    layout = training.Layout(data=2)

    def step_us(overlap: bool) -> float:
        graph = training.dense(layout, model, microbatches=2, overlap=overlap)
        return makespan_us(net(2).run(traffic=graph))

    computing = 2 * 4 * 300 + 50
    behind, beside = step_us(False), step_us(True)
    # Of four sums that are shorter than a layer three are hidden; of longer ones three layers.
    one = (behind - computing) / 4
    assert beside == pytest.approx(computing + one if is_short else behind - 3 * 200, rel=0.01)
    assert (one < 200) == is_short


def test_groups_of_a_layout_share_the_ranks() -> None:
    layout = training.Layout(data=4, tensor=2, pipeline=3)
    assert layout.ranks == 24
    for groups in (layout.tensor_groups(), layout.data_groups()):
        assert sorted(rank for group in groups for rank in group) == list(range(24))
    for rank in range(24):
        assert layout.rank(*layout.place(rank)) == rank
    assert list(layout.tensor_groups())[1] == [2, 3]
    assert list(layout.data_groups())[1] == [1, 3, 5, 7]


def sent(graph: via.Graph, folder: Path) -> int:
    """Give the bytes of all sends."""
    graph.write(folder / "step.goal")
    words = (line.split() for line in (folder / "step.goal").read_text().splitlines())
    return sum(int(line[2][:-1]) for line in words if len(line) > 2 and line[1] == "send")


def test_each_kind_of_parallelism_moves_its_bytes(tmp_path: Path) -> None:
    model = training.Model(
        layers=2,
        forward="10 us",
        backward="20 us",
        activation_bytes=8000,
        gradient_bytes=40000,
    )

    # A ring of p ranks sends 2 (p - 1) times the vector in all.
    data = training.dense(training.Layout(data=4), model)
    assert sent(data, tmp_path) == 2 * 2 * 3 * 40000
    tensor = training.dense(training.Layout(tensor=4), model)
    # Two layers, two all-reduces each, forward and backward.
    assert sent(tensor, tmp_path) == 2 * 2 * 2 * 2 * 3 * 8000
    pipeline = training.dense(training.Layout(pipeline=2), model, microbatches=3)
    assert sent(pipeline, tmp_path) == 2 * 3 * 8000
    experts = training.mixture_of_experts(
        training.Layout(data=4), model, experts=2, expert="5 us", dispatched_bytes=6000
    )
    # Two layers, two all-to-alls each, either way: of each of two ranks one half goes; and
    # gradients.
    assert sent(experts, tmp_path) == 2 * 2 * 2 * 4 * 3000 + 2 * 2 * 3 * 40000


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(via.ScenarioError, match=r"4 layers are not shared evenly by 3 stages"):
        training.dense(training.Layout(pipeline=3), MODEL)
    with pytest.raises(via.ScenarioError, match=r"a stage of 4 ranks has no whole groups of 3"):
        training.mixture_of_experts(
            training.Layout(data=4), MODEL, experts=3, expert="1 us", dispatched_bytes=1
        )


def test_groups_of_a_hierarchical_all_reduce_are_said() -> None:
    def operations(group_ranks: int) -> int:
        graph = via.Graph(8, all_reduce="hierarchical", group_ranks=group_ranks)
        for rank in range(8):
            graph.together(rank, "all-reduce", "8 KiB")
        return graph.operations

    # A send and a receive a round, and what joins the last two.
    assert operations(4) == 8 * (2 * (2 * 3 + 2 * 1) + 1)
    assert operations(2) == 8 * (2 * (2 * 1 + 2 * 3) + 1)
    with pytest.raises(via.ScenarioError, match=r"8 ranks are no groups of 3"):
        operations(3)
