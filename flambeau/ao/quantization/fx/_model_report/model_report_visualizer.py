"""ModelReportVisualizer: tables and plots of a model report's measures."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .....tensor import Tensor

__all__ = ["ModelReportVisualizer"]

_MISSING = "Not Applicable"
Table = tuple[list[str], list[list[Any]]]


def _import_pyplot() -> Any:
    """Return matplotlib.pyplot, or None, with a hint, if there is none."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("make sure to install matplotlib and try again.")
        return None
    return pyplot


def _is_by_channel(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.ndim > 0)


def _read(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


class ModelReportVisualizer:
    """Shows measures by module: {path: {name: number, tensor of channels, or text}}.

    Filters are parts of names and of paths; "" matches all.
    """

    TABLE_TENSOR_KEY, TABLE_CHANNEL_KEY = "tensor_level_info", "channel_level_info"
    NUM_NON_FEATURE_TENSOR_HEADERS, NUM_NON_FEATURE_CHANNEL_HEADERS = 2, 3
    CHANNEL_NUM_INDEX = 2

    def __init__(self, generated_reports: OrderedDict[str, Any]) -> None:
        self.generated_reports = generated_reports

    def get_all_unique_module_fqns(self) -> set[str]:
        """Return the modules' paths."""
        return set(self.generated_reports)

    def get_all_unique_feature_names(self, plottable_features_only: bool = True) -> set[str]:
        """Return the measures' names; only those that are tensors, by default."""
        return {name for features in self.generated_reports.values()
                for name, value in features.items()
                if not plottable_features_only or isinstance(value, Tensor)}

    def _get_filtered_data(
        self, feature_filter: str, module_fqn_filter: str
    ) -> OrderedDict[str, Any]:
        """Return the measures that pass both filters."""
        return OrderedDict(
            (path, {name: value for name, value in features.items() if feature_filter in name})
            for path, features in self.generated_reports.items() if module_fqn_filter in path)

    def generate_filtered_tables(
        self, feature_filter: str = "", module_fqn_filter: str = ""
    ) -> dict[str, Table]:
        """Return {"tensor_level_info": (headers, rows), "channel_level_info": (headers, rows)}.

        The first has a row per module, the second one per module and channel.
        """
        data = self._get_filtered_data(feature_filter, module_fqn_filter)
        values = [(name, value) for features in data.values() for name, value in features.items()]
        names = sorted({name for name, value in values if not _is_by_channel(value)})
        rows = [[i, path, *(_read(features.get(name, _MISSING)) for name in names)]
                for i, (path, features) in enumerate(data.items())] if names else []
        channel_names = sorted({name for name, value in values if _is_by_channel(value)})
        count = max((len(value) for _, value in values if _is_by_channel(value)), default=0)
        channel_rows: list[list[Any]] = []
        for path, features in data.items():
            own = [len(value) for value in features.values() if _is_by_channel(value)]
            for channel in range(max(own, default=count)):
                channel_rows.append([len(channel_rows), path, channel, *(
                    _read(features[name][channel]) if name in features else _MISSING
                    for name in channel_names)])
        return {
            self.TABLE_TENSOR_KEY: (["idx", "layer_fqn", *names] if rows else [], rows),
            self.TABLE_CHANNEL_KEY: (
                ["idx", "layer_fqn", "channel", *channel_names] if channel_rows else [],
                channel_rows)}

    def generate_table_visualization(
        self, feature_filter: str = "", module_fqn_filter: str = ""
    ) -> None:
        """Print the tables; needs the package tabulate."""
        try:
            from tabulate import tabulate
        except ImportError:
            print("Make sure to install tabulate and try again.")
            return
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        headers, rows = tables[self.TABLE_TENSOR_KEY]
        channel_headers, channel_rows = tables[self.TABLE_CHANNEL_KEY]
        text = ""
        if len(headers) > self.NUM_NON_FEATURE_TENSOR_HEADERS:
            text += "Tensor Level Information \n" + tabulate(rows, headers=headers)
        if len(channel_headers) > self.NUM_NON_FEATURE_CHANNEL_HEADERS:
            text += "\n\n Channel Level Information \n"
            text += tabulate(channel_rows, headers=channel_headers)
        print(text or "No data points to generate table with.")

    def _get_plottable_data(
        self, feature_filter: str, module_fqn_filter: str
    ) -> tuple[list[int], list[Any], bool]:
        """Return modules' places, values, and whether the values are lists of channels.

        ValueError unless a single measure passes the filter.
        """
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        headers, rows = tables[self.TABLE_TENSOR_KEY]
        channel_headers, channel_rows = tables[self.TABLE_CHANNEL_KEY]
        by_channel = len(channel_headers) == self.NUM_NON_FEATURE_CHANNEL_HEADERS + 1
        if len(headers) == self.NUM_NON_FEATURE_TENSOR_HEADERS + 1:
            points = [(i, row[-1]) for i, row in enumerate(
                channel_rows if by_channel else rows) if not isinstance(row[-1], str)]
            return [i for i, _ in points], [value for _, value in points], by_channel
        if not by_channel:
            raise ValueError(
                "Make sure to pick only a single feature with your filter to plot a graph. We "
                "recommend calling get_all_unique_feature_names() to find unique feature names. "
                "Pick one of those features to plot.")
        count = max(row[self.CHANNEL_NUM_INDEX] for row in channel_rows) + 1
        channels: list[list[Any]] = [[] for _ in range(count)]
        order = {path: i for i, path in enumerate(dict.fromkeys(row[1] for row in channel_rows))}
        places: dict[int, None] = {}
        for row in channel_rows:
            if not isinstance(row[-1], str):
                places[order[row[1]]] = None
                channels[row[self.CHANNEL_NUM_INDEX]].append(row[-1])
        return list(places), channels, True

    def generate_plot_visualization(
        self, feature_filter: str, module_fqn_filter: str = ""
    ) -> None:
        """Plot a measure over the modules, in the mean over channels; needs matplotlib."""
        pyplot = _import_pyplot()
        if pyplot is None:
            return
        places, values, by_channel = self._get_plottable_data(feature_filter, module_fqn_filter)
        axes = pyplot.subplot()
        axes.set_ylabel(feature_filter)
        axes.set_title(feature_filter + " Plot")
        pyplot.xticks(places)
        if by_channel:
            axes.set_xlabel("First idx of module")
            means = [sum(column) / len(column) for column in zip(*values, strict=False)]
            axes.plot(places, means, label=f"Average Value Across {len(values)} Channels")
            axes.legend(loc="upper right")
        else:
            axes.set_xlabel("idx")
            axes.plot(places, values)
        pyplot.show()

    def generate_histogram_visualization(
        self, feature_filter: str, module_fqn_filter: str = "", num_bins: int = 10
    ) -> None:
        """Plot a measure's distribution over modules and channels; needs matplotlib."""
        pyplot = _import_pyplot()
        if pyplot is None:
            return
        _, values, by_channel = self._get_plottable_data(feature_filter, module_fqn_filter)
        axes = pyplot.subplot()
        axes.set_xlabel(feature_filter)
        axes.set_ylabel("Frequency")
        axes.set_title(feature_filter + " Histogram")
        if by_channel:
            values = [value for channel in values for value in channel]
        _, bins, _ = pyplot.hist(values, bins=num_bins, stacked=by_channel, rwidth=0.8)
        pyplot.xticks(bins)
        pyplot.show()
