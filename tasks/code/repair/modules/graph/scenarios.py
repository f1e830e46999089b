"""The behavior that users of ``graph`` rely on."""

from __future__ import annotations

from .graph import Edge, Graph

ROADS: list[Edge] = [
    ("a", "b", 4),
    ("a", "c", 1),
    ("c", "b", 2),
    ("b", "d", 5),
    ("c", "d", 8),
    ("d", "e", 3),
    ("x", "y", 1),
]


def nodes_by_name() -> object:
    return Graph(ROADS).nodes(), Graph().nodes()


def neighbors_by_name() -> object:
    return Graph(ROADS).neighbors("a"), Graph(ROADS).neighbors("e"), Graph(ROADS).neighbors("nowhere")


def edges_point_one_way() -> object:
    return Graph([("a", "b", 1)]).neighbors("b"), Graph([("a", "b", 1)], directed=False).neighbors("b")


def the_lightest_of_several_edges_counts() -> object:
    graph = Graph([("a", "b", 5), ("a", "b", 2), ("a", "b", 9)])
    return graph.shortest("a", "b")


def negative_weights_are_refused() -> object:
    try:
        return Graph([("a", "b", -1)]).nodes()
    except ValueError as error:
        return str(error)


def a_weight_of_zero_is_allowed() -> object:
    return Graph([("a", "b", 0), ("b", "c", 0)]).shortest("a", "c")


def edges_weigh_one_by_default() -> object:
    graph = Graph()
    graph.connect("a", "b")
    graph.connect("b", "c")
    return graph.shortest("a", "c")


def search_is_breadth_first() -> object:
    return Graph(ROADS).reachable("a"), Graph(ROADS).reachable("d"), Graph(ROADS).reachable("nowhere")


def search_within_some_steps() -> object:
    return [Graph(ROADS).reachable("a", steps) for steps in range(4)]


def search_ends_in_a_cycle() -> object:
    return Graph([("a", "b", 1), ("b", "c", 1), ("c", "a", 1)]).reachable("b")


def the_shortest_path_may_have_more_edges() -> object:
    return Graph(ROADS).shortest("a", "b"), Graph(ROADS).shortest("a", "d"), Graph(ROADS).shortest("a", "e")


def some_nodes_have_no_path() -> object:
    return Graph(ROADS).shortest("e", "a"), Graph(ROADS, directed=False).shortest("e", "a")


def the_path_from_a_node_to_itself() -> object:
    return Graph(ROADS).shortest("a", "a")


def of_equal_paths_the_first_is_kept() -> object:
    return Graph([("s", "b", 1), ("s", "a", 1), ("a", "t", 1), ("b", "t", 1)]).shortest("s", "t")


def a_better_path_may_be_found_later() -> object:
    edges = [("s", "t", 10), ("s", "a", 1), ("a", "b", 1), ("b", "c", 1), ("c", "t", 1), ("a", "t", 8)]
    return Graph(edges).shortest("s", "t")


def a_topological_order_follows_the_edges() -> object:
    return Graph([("shoes", "walk", 1), ("socks", "shoes", 1), ("coat", "walk", 1), ("alarm", "socks", 1)]).order()


def independent_nodes_are_ordered_by_name() -> object:
    return Graph([("c", "z", 1), ("a", "z", 1), ("b", "z", 1), ("z", "d", 1)]).order()


def cycles_have_no_topological_order() -> object:
    return Graph([("a", "b", 1), ("b", "a", 1), ("c", "a", 1)]).order(), Graph().order()


def components_of_a_graph() -> object:
    return Graph(ROADS).components()


def components_ignore_directions() -> object:
    graph = Graph([("b", "a", 1), ("b", "c", 1), ("m", "n", 1), ("k", "l", 1)])
    return graph.components()
