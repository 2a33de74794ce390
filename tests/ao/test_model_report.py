"""Model reports: measures, texts and suggestions of the detectors, and their tables."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

HOME = "ao.quantization.fx._model_report"


def load(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.{HOME}.{name}")


def prepare(torch: Any, model: Any, x: Any, *detectors: Any) -> tuple[Any, Any]:
    q = torch.ao.quantization
    fx = importlib.import_module(f"{torch.__name__}.ao.quantization.quantize_fx")
    mapping = q.QConfigMapping().set_global(q.default_qconfig)
    prepared = fx.prepare_fx(model.eval(), mapping, (x,))
    report = load(torch, "model_report").ModelReport(prepared, set(detectors))
    return report, report.prepare_detailed_calibration()


def build(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LeakyReLU(), torch.nn.Linear(2, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(1., parameter.numel() + 1).reshape(parameter.shape))
    return model


def test_an_observer_measures_batches_and_channels(torch: Any) -> None:
    observer = load(torch, "model_report_observer").ModelReportObserver(comp_percentile=0.5)
    for batch in ([[0., 2.], [1., 3.], [8., 2.]], [[4., 2.], [5., 2.], [6., 2.]]):
        x = torch.tensor(batch)
        assert observer(x) is x
    assert observer.num_batches_tracked == 2
    assert observer.average_batch_activation_range == 6
    assert observer.get_batch_to_epoch_ratio() == 0.75
    assert observer.min_val.tolist() == [0, 2]
    assert observer.max_val.tolist() == [8, 3]
    assert observer.average_percentile_ratio.tolist() == pytest.approx([4.6, 1.25])
    assert observer.percentile_batches_tracked.tolist() == [2, 2]
    assert observer.constant_channels.tolist() == [0, 1]
    observer.reset_batch_and_epoch_values()
    assert observer.min_val.numel() == observer.num_batches_tracked == 0
    observer(torch.tensor([[0., float("inf")]]))
    with pytest.raises(ValueError, match="infinity value present"):
        observer.get_batch_to_epoch_ratio()
    with pytest.raises(Exception, match="calculate_qparams should not be called"):
        observer.calculate_qparams()


def test_reports_name_layers_and_suggestions(torch: Any) -> None:
    detector, x = load(torch, "detector"), torch.tensor([[1., 2.], [3., 5.]])
    report, model = prepare(
        torch, build(torch), x, detector.DynamicStaticDetector(0.8),
        detector.InputWeightEqualizationDetector(0.5), detector.PerChannelDetector("fbgemm"),
        detector.OutlierDetector(ratio_threshold=1.5, reference_percentile=0.5))
    for factor in (1, 100):
        model(factor * x)
    texts = {name: text for name, (text, _) in report.generate_model_report(False).items()}
    suggestion = (
        "For module {0} it is suggested to use dynamic quantization because the distribution of "
        "data before {0} is non-stationary and the distribution after is non-stationary. You will "
        "get more accurate results if you use dynamic quantization.\n")
    assert texts["dynamic_vs_static_detector"] == (
        "Dynamic vs. Static Quantization suggestions: \n"
        + suggestion.format("0") + suggestion.format("2"))
    assert texts["per_channel_detector"] == (
        "Further Optimizations for backend fbgemm: \n"
        "Module 0 can be configured to use per_channel quantization.\n"
        "Module 2 can be configured to use per_channel quantization.\n"
        "To use per_channel quantization, make sure the qconfig has a per_channel weight "
        "observer.")
    assert texts["input_weight_equalization_detector"].startswith(
        "Input-Weight Equalization suggestions: \nFor Module 0 looked at with axis 1: \n"
        "\tWe suggest to use input weight equalization because 2/2 channels would benefit and we "
        "expect significant reduction in quantization error.\n")
    assert texts["outlier_detector"].startswith(
        "Outlier detection report: \nFor Module 0 looked at with axis 1: \n"
        "\tFor channel 0, we found outliers in the preceding activation data with a max value "
        "across all batches of 300.0.\n")
    assert texts["outlier_detector"].endswith(
        "above is stationary to ensure the most accurate results.")


def test_suggestions_become_qconfigs_and_observers_go(torch: Any) -> None:
    detector, x = load(torch, "detector"), torch.tensor([[1., 2.], [3., 5.]])
    report, model = prepare(
        torch, build(torch), x, detector.DynamicStaticDetector(0.8),
        detector.InputWeightEqualizationDetector(0.5), detector.PerChannelDetector("fbgemm"))
    with pytest.raises(ValueError, match="Already ran preparing detailed calibration"):
        report.prepare_detailed_calibration()
    for factor in (1, 100):
        model(factor * x)
    q = torch.ao.quantization
    mapping = report.generate_qconfig_mapping()
    assert [*mapping.module_name_qconfigs] == ["0", "2"]
    for qconfig in mapping.module_name_qconfigs.values():
        assert q.qconfig_equals(qconfig, q.QConfig(q.default_dynamic_quant_observer,
                                                   q.default_per_channel_weight_observer))
    assert [*report.generate_equalization_mapping().module_name_qconfigs] == ["0", "2"]
    assert any("model_report" in str(node.target) for node in model.graph.nodes)
    report.generate_model_report(True)
    assert not any("model_report" in str(node.target) for node in model.graph.nodes)
    for again in (report.generate_qconfig_mapping, lambda: report.generate_model_report(True)):
        with pytest.raises(Exception, match="already removed observers from"):
            again()


def test_tables_have_modules_and_channels(torch: Any, capsys: Any) -> None:
    detector, x = load(torch, "detector"), torch.tensor([[1., 2.], [3., 5.]])
    report, model = prepare(torch, build(torch), x, detector.DynamicStaticDetector(),
                            detector.OutlierDetector())
    with pytest.raises(Exception, match="without first generating reports"):
        report.generate_visualizer()
    model(x)
    report.generate_model_report(False)
    visualizer = report.generate_visualizer()
    assert visualizer.get_all_unique_module_fqns() == {"0", "1", "2"}
    assert "constant_batch_counts" in visualizer.get_all_unique_feature_names()
    tables = visualizer.generate_filtered_tables("dynamic_static_tolerance")
    assert tables["tensor_level_info"] == (
        ["idx", "layer_fqn", "dynamic_static_tolerance"],
        [[0, "0", 0.5], [1, "1", "Not Applicable"], [2, "2", 0.5]])
    assert tables["channel_level_info"] == ([], [])
    headers, rows = visualizer.generate_filtered_tables(
        "per_channel_max", "0")["channel_level_info"]
    assert headers == ["idx", "layer_fqn", "channel", "input_activation_per_channel_max"]
    assert rows == [[0, "0", 0, 3.0], [1, "0", 1, 5.0]]
    assert visualizer._get_plottable_data("per_channel_max", "0") == ([0], [[3.0], [5.0]], True)
    assert visualizer._get_plottable_data("tolerance", "") == ([0, 2], [0.5, 0.5], False)
    with pytest.raises(ValueError, match="Make sure to pick only a single feature"):
        visualizer._get_plottable_data("", "")


def test_wrong_settings_are_refused(torch: Any) -> None:
    detector = load(torch, "detector")
    with pytest.raises(ValueError, match="Make sure threshold is > 0 and < 1"):
        detector.InputWeightEqualizationDetector(1)
    with pytest.raises(ValueError, match="Not configured to work with none"):
        detector.PerChannelDetector("none")
    with pytest.raises(AssertionError, match="reference_percentile must be between 0 and 1"):
        detector.OutlierDetector(reference_percentile=2)
    with pytest.raises(ValueError, match="Should include at least 1 desired report"):
        load(torch, "model_report").ModelReport(None, set())


def test_layers_may_have_different_numbers_of_channels() -> None:
    import flambeau as torch

    visualizer = load(torch, "model_report_visualizer").ModelReportVisualizer({
        "a": {"m": torch.tensor([1., 2.])}, "b": {"m": torch.tensor([3.])}, "c": {}})
    _, rows = visualizer.generate_filtered_tables()["channel_level_info"]
    assert rows == [[0, "a", 0, 1.0], [1, "a", 1, 2.0], [2, "b", 0, 3.0],
                    [3, "c", 0, "Not Applicable"], [4, "c", 1, "Not Applicable"]]
    assert visualizer._get_plottable_data("m", "") == ([0, 1], [[1.0, 3.0], [2.0]], True)
