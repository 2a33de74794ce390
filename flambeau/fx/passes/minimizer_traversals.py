"""Ways through a graph in search of the nodes that fail: one by one, by halves, by blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._compatibility import compatibility
from ..node import Node
from .tools_common import Names, NodeList, NodeSet

_RULE = "=" * 30


@compatibility(is_backward_compatible=False)
class FxNetMinimizerBadModuleError(Exception):
    """The nodes to run do not form one submodule."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerRunFuncError(Exception):
    """run_a or run_b failed."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerResultMismatchError(Exception):
    """The comparison rejected the results of run_a and run_b."""


_FAILURES = (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError)


@dataclass
class _MinimizerSettingBase:
    """Settings of a search.

    Arguments:
        accumulate_error: feed run_b its own earlier results instead of run_a's.
        traverse_method: "sequential" (each node alone), "binary" (halves), "block" (the first and
            last node of the failing stretch), "accumulate" (one node more each time), "skip"
            (stretches between given nodes) or "defined" (all nodes at once).
        find_all: go on after the first failing node.
        return_intermediate: `run_nodes` compares the results of all nodes.
        all_outputs: compare all results of a submodule, not the last node's alone.
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self) -> str:
        return "FX Minimizer Settings:\n" + "".join(f"\t{k}: {v}\n" for k, v in vars(self).items())


class Traversals:
    """The methods of `_MinimizerBase` that choose which nodes to check next."""

    settings: _MinimizerSettingBase
    fusions: dict[Node, NodeSet]
    reports: list[list[str]]
    iteration: int
    exclusion_fn: Callable[[NodeList, int, int], None] | None

    def print_report(self, report: list[str]) -> None:
        """Print the lines of one report. Override it for another place."""
        for i, line in enumerate(report):
            print(" . " + line if i else line)

    def print_reports(self) -> None:
        """Print all reports."""
        for report in self.reports:
            self.print_report(report)

    def _check(self, nodes: NodeSet, names: Names, report_idx: int = -1) -> None:
        raise NotImplementedError

    def _add_groups(self, nodes: NodeList) -> NodeSet:
        return set(nodes).union(*(self.fusions.get(node, ()) for node in nodes))

    def _open_report(self, *lines: str) -> list[str]:
        """Open the report of a further iteration."""
        self.iteration += 1
        self.reports.append(list(lines))
        return self.reports[-1]

    def _exclude(self, nodes: NodeList, start: int = -1, end: int = -1) -> bool:
        """Let the user remove nodes. Return whether none is left."""
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start, end)
        return not nodes

    def _sequential_traverse(self, nodes: NodeList) -> NodeSet:
        """Check each node alone, with its group."""
        culprits: NodeSet = set()
        for node in nodes:
            report = self._open_report()
            report += [f"Sequential traverse iteration {self.iteration}.",
                       f"Visit node: {node.name}"]
            if self._exclude([node]):
                report.append(f"User exclusion : {node.name}")
                failed = True
            else:
                failed = self._is_culprit(node, report, culprits)
            self.print_report(report)
            if failed and not self.settings.find_all:
                break
        return culprits

    def _is_culprit(self, node: Node, report: list[str], culprits: NodeSet) -> bool:
        """Check a node, and add it to the culprits if it differs, its group if it fails."""
        group = self.fusions.get(node, {node})
        try:
            self._check(group, [node.name])
        except FxNetMinimizerResultMismatchError:
            culprits.add(node)
            report.append(f"Found culprit from numeric error: {node}")
        except FxNetMinimizerRunFuncError:
            culprits |= group
            report.append(f"Found culprit from run error: {node}")
        else:
            return False
        return True

    def _binary_traverse(self, nodes: NodeList) -> NodeSet:
        """Check all nodes, then halves of what fails."""
        return self._binary_search_impl(nodes, 0, len(nodes))

    def _binary_search_impl(self, all_nodes: NodeList, start_idx: int, end_idx: int) -> NodeSet:
        nodes = all_nodes[start_idx:end_idx]
        if self._exclude(nodes, start_idx, end_idx):
            self.reports.append(["All nodes are excluded by user"])
            return set()
        report = self._open_report()
        report += [f"Binary search iteration {self.iteration}",
                   f"From node index {start_idx}:{nodes[0].name} to {end_idx - 1}:"
                   f"{nodes[-1].name}. Size of the interested node list is {len(nodes)}"]
        try:
            self._check(set(nodes), [nodes[-1].name])
        except _FAILURES:
            return self._search_halves(all_nodes, start_idx, nodes, report)
        report.append("No discrepancy found.")
        self.print_report(report)
        return set()

    def _search_halves(
        self, all_nodes: NodeList, start_idx: int, nodes: NodeList, report: list[str]
    ) -> NodeSet:
        """Search the halves of a stretch that fails; a single node is a culprit."""
        if len(nodes) == 1:
            report.append("This is the last node in the sub-module. Search in the current branch "
                          f"is successful with culprit = {set(nodes)}.")
            self.print_report(report)
            return set(nodes)
        report.append("Proceed to split and lower the halves of the current sub-module "
                      "individually.")
        self.print_report(report)
        middle = start_idx + len(nodes) // 2
        culprits = self._binary_search_impl(all_nodes, start_idx, middle)
        if culprits and not self.settings.find_all:
            return culprits
        culprits |= self._binary_search_impl(all_nodes, middle, start_idx + len(nodes))
        if not culprits:
            report.append("Further split and lowering found no errors. Unable to minimize the "
                          f"submodule with list of nodes: {nodes}")
            self.print_report(report)
        return culprits

    def _accumulate_traverse(self, nodes: NodeList) -> NodeSet:
        """Check the first node, the first two, and so on, up to the first failure."""
        if self.settings.find_all:
            print("'Find All' mode is not supported in accumulate traversal.")
            return set()
        for i, node in enumerate(nodes):
            report = self._open_report()
            report += [f"Accumulate traverse iteration {self.iteration}.",
                       f"Add node: {node.name}"]
            try:
                self._check(set(nodes[:i + 1]), [node.name])
                self.print_report(report)
            except _FAILURES:
                report.append(f"Found culprit {node}")
                self.print_report(report)
                return {node}
        return set()

    def _defined_traverse(self, nodes: NodeList) -> NodeSet:
        """Check all nodes at once."""
        if self._exclude(nodes):
            self.reports.append(["All nodes are excluded by user"])
            return set()
        report = [f"Defined graph from {nodes[0].name} to {nodes[-1].name}"]
        try:
            self._check(set(nodes), [nodes[-1].name])
        except _FAILURES:
            report.append(f"Found culprit {set(nodes)}")
        self.print_report(report)
        return set()

    def _skip_traverse(self, all_nodes: NodeList, skip_nodes: list[str]) -> NodeSet:
        """Check each stretch between the nodes to skip; return the last one's culprits."""
        culprits: NodeSet = set()
        start = 0
        for i, node in enumerate(all_nodes):
            is_skipped, is_last = node.name in skip_nodes, i == len(all_nodes) - 1
            end = i if is_skipped else i + 1
            if (is_skipped or is_last) and end > start:
                culprits = self._skip_traverse_impl(all_nodes, start, end)
            if is_skipped:
                start = i + 1
        return culprits

    def _skip_traverse_impl(self, all_nodes: NodeList, start_idx: int, end_idx: int) -> NodeSet:
        nodes = all_nodes[start_idx:end_idx]
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start_idx, end_idx)
            chosen = set(nodes)
        else:
            chosen = self._add_groups(nodes)
        report = self._open_report()
        report += [f" Nodes block {self.iteration}.", f"From node index {start_idx} to "
                   f"{end_idx - 1}. Size of the interested node list is {len(nodes)}"]
        culprits: NodeSet = set()
        try:
            self._check(chosen, [])
            report.append("No discrepancy found.")
        except _FAILURES as error:
            cause = "run" if isinstance(error, FxNetMinimizerRunFuncError) else "numeric"
            report.append(f"Found culprit from {cause} error: {chosen}")
            culprits = chosen
        self.print_report(report)
        return culprits

    def _block_traverse(self, nodes: NodeList, find_last_node: bool | None) -> NodeSet:
        """Return the shortest stretch that fails: first its end, then its start."""
        report = [f"Block search from {nodes[0].name} to {nodes[-1].name}", "*" * 50]
        self.reports.append(report)
        first, last = 0, len(nodes) - 1
        for is_last in (True, False):
            if find_last_node is not None and find_last_node != is_last:
                continue
            report.append(f"Start searching for {'last' if is_last else 'first'} node in culprit")
            edge = self._block_traverse_impl(nodes, 0, last, is_last)
            if edge is None:
                report.append("No culprits found")
                self.print_report(report)
                return set()
            first, last = (first, edge) if is_last else (edge, last)
            report += [f"Finish Pass {1 if is_last else 2}",
                       f"Find {'end' if is_last else 'start'}_idx = {edge}:{nodes[edge].name}"]
        report.append(f"Finish searching, found minimum block ({nodes[first]},{nodes[last]})")
        self.print_report(report)
        return set(nodes[first:last + 1])

    def _block_traverse_impl(
        self, nodes: NodeList, start_idx: int, end_idx: int, find_last_node: bool
    ) -> int | None:
        """Return the index of the edge between stretches that fail and those that do not.

        The stretch from the first node to the edge fails (`find_last_node`), or from the edge to
        the last node. None if nothing fails.
        """
        low, high = start_idx, end_idx
        edge = None
        while low <= high:
            middle = (low + high) // 2
            stretch = nodes[:middle + 1] if find_last_node else nodes[middle:end_idx + 1]
            self._exclude(stretch)
            report = self._open_report(_RULE, f"Block search iteration {self.iteration + 1}")
            report += [f"Search for {'last' if find_last_node else 'first'} node in culprits",
                       f"From node index {low}:{nodes[low].name} to {high}:{nodes[high].name}. ",
                       f"Subgraph constructed by {stretch[0].name} to {stretch[-1].name}",
                       f"Size of the interested node list is {high - low + 1}"]
            try:
                self._check(set(stretch), [stretch[-1].name], len(self.reports) - 1)
                fails = False
                report.append(f"Culprits not found from node start to {middle}:"
                              f"{nodes[middle].name}.")
            except _FAILURES:
                fails, edge = True, middle
                report.append(f"Culprits found from node {stretch[0].name} to "
                              f"{stretch[-1].name}.")
            self.print_report(report)
            if fails == find_last_node:
                high = middle - 1
            else:
                low = middle + 1
        return edge
