"""What is known of nodes: of whom there is news, and what a node offers."""

import pytest

from capvco.api.meta import ObjectMeta
from capvco.api.upstream import Node, NodeSpec, NodeStatus
from capvco.controllers.nodes import Seen, changed, offered

ONE, TWO = ("node-1", 1), ("node-2", 2)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, Seen({}), None),
        (Seen({}), Seen({}, "away"), None),
        (Seen({}, "away"), Seen({"a": ONE}), None),
        (Seen({}, "away"), Seen({}, "refused"), None),
        (Seen({"a": ONE}), Seen({"a": ONE, "b": TWO}), {"b"}),
        (Seen({"a": ONE, "b": TWO}), Seen({"a": ONE}), {"b"}),
        (Seen({"a": ONE, "b": TWO}), Seen({"a": ("node-1", 0), "b": TWO}), {"a"}),
        (Seen({"a": ONE}), Seen({"a": TWO}), {"a"}),
        (Seen({"a": ONE}), Seen({"a": ONE}), set()),
    ],
)
def test_of_whom_there_is_news(before: Seen | None, after: Seen, expected: set[str] | None) -> None:
    """A node that joins a large cluster concerns one machine; whether it can be read, all."""
    assert changed(before, after) == expected


def test_what_a_node_offers() -> None:
    """A whole number of GPUs; whatever else is written there is none."""

    def node(name: str, provider_id: str, gpus: str | None) -> Node:
        amounts = {} if gpus is None else {"nvidia.com/gpu": gpus}
        return Node(ObjectMeta(name=name), NodeSpec(provider_id), NodeStatus(amounts))

    nodes = [
        node("a", "p-a", "2"),
        node("b", "p-b", None),
        node("c", "p-c", "1k"),
        node("d", "", "1"),
    ]
    assert offered(nodes) == {"p-a": ("a", 2), "p-b": ("b", 0), "p-c": ("c", 0)}
