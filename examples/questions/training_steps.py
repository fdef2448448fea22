"""How long does a training step take?  Two worked examples of docs/guides/training-step.md.

    pip install .
    python examples/questions/training_steps.py dense
    python examples/questions/training_steps.py experts
    python examples/questions/training_steps.py dense --overlap

A dense model of 32 layers on 1,024 hosts: 16 replicas, layers cut in 8 parts, 8 stages. A mixture
of experts of 16 layers on 256 hosts: 64 replicas, 4 stages, experts shared by 16 hosts. Both on
trees of switches with 16 ports, with links of 400 and of 200 Gbit/s. Times of layers and lengths
of vectors are assumed, as of a model of some ten billion weights: put in those of yours.
"""

import argparse

import viaduct as via
from viaduct import training

LINKS = ("400 Gbit/s", "200 Gbit/s")


def dense(scale: int, overlap: bool) -> via.Graph:
    """Make the step of the dense model; `scale` divides replicas, parts and stages."""
    layout = training.Layout(data=16 // scale, tensor=8 // scale, pipeline=8 // scale)
    model = training.Model(
        layers=32,
        forward="1 ms",
        backward="2 ms",
        activation_bytes="16 MiB",
        gradient_bytes="64 MiB",
        optimizer="2 ms",
    )
    return training.dense(layout, model, microbatches=8, overlap=overlap)


def experts(scale: int, overlap: bool) -> via.Graph:
    """Make the step of the mixture of experts; `scale` divides replicas and stages."""
    layout = training.Layout(data=64 // scale, pipeline=4 // scale)
    model = training.Model(
        layers=16,
        forward="1 ms",
        backward="2 ms",
        activation_bytes="16 MiB",
        gradient_bytes="32 MiB",
        optimizer="2 ms",
    )
    return training.mixture_of_experts(
        layout,
        model,
        experts=16 // scale,
        expert="1 ms",
        dispatched_bytes="32 MiB",
        microbatches=4,
        overlap=overlap,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model", choices=["dense", "experts"])
    arguments.add_argument("--scale", type=int, default=1, help="divide the groups by so much [1]")
    arguments.add_argument("--overlap", action="store_true", help="sum gradients up beside layers")
    given = arguments.parse_args()

    graph = {"dense": dense, "experts": experts}[given.model](given.scale, given.overlap)
    print(f"{graph.ranks} ranks, {graph.operations} operations")
    print("links", "step, ms", "computing, ms", "waiting, ms", sep="\t")
    for rate in LINKS:
        # Pods of 64 hosts, of switches with 16 ports.
        pods = max(2, graph.ranks // 64)
        net = via.Network.clos(16, pods=pods, rate=rate, latency="500 ns", nic="rnic-gen5")
        application = net.run(traffic=graph, progress=False).application
        assert application is not None
        times = [application["makespan_us"]]
        times += [application[key]["mean"] for key in ("computing_us", "waiting_us")]
        print(rate, *(f"{time / 1000:.1f}" for time in times), sep="\t")


if __name__ == "__main__":
    main()
