"""Turns the figures of compiled steps into tables, and puts them where the documentation has its
marks.

    python benchmarks/compiled_table.py      writes the READMEs and docs/speed.md from compiled.json
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models import MODELS, growing
from table import ROOT, duration, megabytes, put

HERE = Path(__file__).resolve().parent
NAMES = {"torch": "PyTorch", "inductor": "torch.compile", "jax": "JAX", "eager": "flambeau, eager",
         "compiled": "flambeau, compiled"}
OTHER_ENGINES = ("torch", "inductor", "jax")
SPEED_PAGE = "https://github.com/flambeau-ai/flambeau/blob/main/docs/speed.md"
# What the READMEs say of the table.
SENTENCES = {
    "README.md":
        "Compiled training steps of six models, from an MLP to a ResNet-18, are {torch_min} to\n"
        "{torch_max} times as fast as PyTorch's, and {best_min} to {best_max} times as fast as the "
        "best of PyTorch,\ntorch.compile and JAX ([tables]({page})).",
    "README.zh-CN.md":
        "从 MLP 到 ResNet-18 六个模型的编译后训练步骤，"  # noqa: RUF001
        "速度是 PyTorch 的 {torch_min} 到 {torch_max} 倍，"  # noqa: RUF001
        "是 PyTorch、\ntorch.compile 和 JAX 中最快者的 {best_min} 到 {best_max} 倍"
        "（[表格]({page})）。",  # noqa: RUF001
}
BEGIN = "<!-- compiled: begin (written by benchmarks/compiled.py --readme) -->"
END = "<!-- compiled: end -->"
LOST = {"flops": "arithmetic", "memory": "memory", "cached": "caches", "waiting": "waiting",
        "eager": "eager calls"}
Jobs = dict[str, dict[str, dict[str, Any]]]


def shown(results: dict) -> list[str]:
    """The engines that were measured."""
    jobs: Jobs = results["jobs"]
    return [name for name in NAMES if any(name in by_engine for by_engine in jobs.values())]


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*titles: str) -> list[str]:
    return [row(*titles), "|---|" + "---:|" * (len(titles) - 1)]


def maybe(show: Callable[[float], str], figure: float | None) -> str:
    """Nothing for what was not asked for: with one round there is no warm cache."""
    return "" if figure is None else show(figure)


def times(baseline: float | None, measured: float | None) -> str:
    """How many times faster, or smaller, than the baseline."""
    return "" if not baseline or not measured else f"{baseline / measured:.2f}"


def best(by_engine: dict[str, dict[str, Any]]) -> float | None:
    """The least time of the others."""
    known = [by_engine[name]["seconds"] for name in OTHER_ENGINES
             if by_engine.get(name, {}).get("seconds")]
    return min(known, default=None)


def value(by_engine: dict[str, dict[str, Any]], engine: str, key: str = "seconds") -> Any:
    return by_engine.get(engine, {}).get(key)


def steps(results: dict) -> list[str]:
    """The table of whole training steps, with what the project aims at."""
    names = shown(results)
    lines = head("Training step with Adam", *(NAMES[n] for n in names), "times PyTorch's speed",
                 "times the best other", "aim")
    for name, by_engine in _of(results, "step"):
        model, compiled_s = MODELS[name], value(by_engine, "compiled")
        lines.append(row(model.title, *(duration(value(by_engine, n)) for n in names),
                         times(value(by_engine, "torch"), compiled_s),
                         times(best(by_engine), compiled_s),
                         f"{model.aim:g}"))
    return lines


def roofline(results: dict) -> list[str]:
    """What compiled steps reach of the machine's limits, and where the rest goes."""
    lines = head("Compiled step", "kernels", "Gflop", "MB moved", "GFLOP/s", "of the limit",
                 *(f"lost: {name}" for name in LOST.values()), "between kernels")
    for name, by_engine in _of(results, "step"):
        compiled = by_engine.get("compiled", {})
        whole = compiled.get("measured")
        if not whole:
            continue
        lost = [compiled["lost"].get(part, 0.0) for part in LOST]
        between = max(0.0, whole - compiled["least"] - sum(lost))
        lines.append(row(
            MODELS[name].title, compiled["kernels"], f"{compiled['flops'] / 1e9:.3g}",
            f"{compiled['bytes'] / 1e6:.3g}", f"{compiled['flops'] / whole / 1e9:.3g}",
            *(f"{part / whole:.0%}" for part in (compiled["least"], *lost, between)),
        ))
    return lines if len(lines) > 2 else []


def first(results: dict) -> list[str]:
    """How long until a step is compiled: in a first process, and in one after it."""
    names = [name for name in ("inductor", "jax", "compiled") if name in shown(results)]
    titles = [f"{NAMES[name]}, {cache}" for name in names for cache in ("cold", "warm")]
    lines = head("Until the step is compiled", *titles, "cold, times faster than torch.compile",
                 "of flambeau's cold: compiling")
    for name, by_engine in _of(results, "step"):
        cells = [maybe(duration, value(by_engine, engine, f"{cache} first"))
                 for engine in names for cache in ("cold", "warm")]
        compiled_s = value(by_engine, "compiled", "cold first")
        faster = times(value(by_engine, "inductor", "cold first"), compiled_s)
        lines.append(row(MODELS[name].title, *cells, faster,
                         duration(value(by_engine, "compiled", "cold compiling"))))
    return lines


def memory(results: dict) -> list[str]:
    """The most memory that a process held."""
    names = shown(results)
    lines = head("Peak memory of the process", *(NAMES[n] for n in names),
                 "compiled, warm cache", "times smaller than PyTorch")
    for name, by_engine in _of(results, "step"):
        compiled_bytes = value(by_engine, "compiled", "cold memory")
        torch_bytes = value(by_engine, "torch", "memory")
        cells = [megabytes(value(by_engine, n, "cold memory")) for n in names]
        warm = maybe(megabytes, value(by_engine, "compiled", "warm memory"))
        lines.append(row(MODELS[name].title, *cells, warm, times(torch_bytes, compiled_bytes)))
    return lines


def inference(results: dict) -> list[str]:
    """Models under inference_mode."""
    lines = head("Inference", "batch", NAMES["torch"], NAMES["compiled"], "times PyTorch's speed")
    for name, by_engine in _of(results, "inference"):
        for batch in ("1", "32"):
            torch_s = value(by_engine, "torch", batch)
            compiled_s = value(by_engine, "compiled", batch)
            title = MODELS[name.split(":")[0]].title.split(", batch")[0]
            lines.append(row(title, batch, duration(torch_s), duration(compiled_s),
                             times(torch_s, compiled_s)))
    return lines


def matmul(results: dict) -> list[str]:
    """Products of square matrices, and what they reach of the machine's multiply-adds.

    The peak is what all threads sustain in registers, measured in turn with the products. A guest
    on the same core makes products a fifth slower and that loop not at all, so the best turn is
    given too, beside the loop's best.
    """
    lines = head("Matrix product", NAMES["torch"], NAMES["eager"], NAMES["compiled"],
                 "times PyTorch's speed", "GFLOP/s", "of the peak", "best turn, of the best peak",
                 "aim")
    for size, by_engine in _of(results, "matmul"):
        torch_s, compiled_s = value(by_engine, "torch"), value(by_engine, "compiled")
        flops, peak, burst, quickest = 2 * int(size) ** 3, *(
            value(by_engine, "compiled", name) for name in ("peak", "burst", "quickest"))
        rate, best = (flops / seconds if seconds else None for seconds in (compiled_s, quickest))
        lines.append(row(
            f"{size} x {size}", duration(torch_s), duration(value(by_engine, "eager")),
            duration(compiled_s),
            times(torch_s, compiled_s), f"{rate / 1e9:.0f}" if rate else "",
            *(f"{a / b:.0%}" if a and b else "" for a, b in ((rate, peak), (best, burst))), "80%",
        ))
    return lines


def growth(results: dict) -> list[str]:
    """How steps and compiling grow with a char GPT."""
    lines = head("char GPT, batch 12x64", NAMES["torch"], NAMES["compiled"],
                 "times PyTorch's speed", "until compiled, cold", "of it compiling",
                 "memory, times smaller")
    for name, by_engine in _of(results, "growth"):
        layers, width = map(int, name.split(":"))
        torch_s, compiled_s = value(by_engine, "torch"), value(by_engine, "compiled")
        lines.append(row(
            growing(layers, width).title, duration(torch_s), duration(compiled_s),
            times(torch_s, compiled_s),
            duration(value(by_engine, "compiled", "cold first")),
            duration(value(by_engine, "compiled", "cold compiling")),
            times(value(by_engine, "torch", "memory"), value(by_engine, "compiled", "memory")),
        ))
    return lines


# By part what it shows, and of which jobs.
TABLES: dict[str, tuple[str, tuple[Callable[[dict], list[str]], ...]]] = {
    "steps": ("step", (steps, roofline)), "inference": ("inference", (inference,)),
    "matmul": ("matmul", (matmul,)), "first": ("step", (first,)), "memory": ("step", (memory,)),
    "growth": ("growth", (growth,)),
}


def _of(results: dict, kind: str) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    """What was measured of one kind: (the rest of the job's name, by engine)."""
    jobs: Jobs = results["jobs"]
    return [(job.partition(":")[2], results_of) for job, results_of in jobs.items()
            if job.partition(":")[0] == kind]


def footnote(results: dict) -> str:
    machine = results["machine"]
    lines = [
        f"PyTorch {machine['torch']}, Python {machine['python']}, {machine['processor']}, "
        f"2 threads, {machine['date']}; medians of {results['rounds']} rounds, each in fresh "
        "processes. Ratios of times say how many times faster compiled flambeau is.",
        *(f"Left out: {engine}." for engine in results["missing"]),
    ]
    return "\n".join(lines)


def markdown(results: dict) -> str:
    """Every table of which something was measured."""
    lines: list[str] = []
    for part in results["parts"]:
        kind, tables = TABLES[part]
        if _of(results, kind):
            for table in tables:
                rows = table(results)
                lines += [*rows, ""] if rows else []
    return "\n".join([*lines, footnote(results)])


def merged(results: dict) -> dict:
    """With the parts that an earlier run on the same machine measured and this one did not."""
    try:
        old = json.loads((HERE / "compiled.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return results
    if any(old["machine"][key] != results["machine"][key] for key in ("processor", "torch")):
        return results
    parts = [part for part in TABLES if part in {*old["parts"], *results["parts"]}]
    return {**results, "parts": parts, "jobs": {**old["jobs"], **results["jobs"]}}


def write(results: dict) -> None:
    """Writes compiled.json, and README.md and docs/speed.md between their marks."""
    text = json.dumps(results, indent=1) + "\n"
    (HERE / "compiled.json").write_text(text, encoding="utf-8")
    put(ROOT / "docs" / "speed.md", BEGIN, END, markdown(results))
    if "steps" in results["parts"]:
        for page, sentence in SENTENCES.items():
            put(ROOT / page, BEGIN, END, sentence.format(**extremes(results), page=SPEED_PAGE))


def extremes(results: dict) -> dict[str, str]:
    """How many times faster compiled steps are than PyTorch's and than the best of the others."""
    models = [jobs for _, jobs in _of(results, "step")]
    ratios = {"torch": [value(jobs, "torch") / value(jobs, "compiled") for jobs in models],
              "best": [float(best(jobs) or 0) / value(jobs, "compiled") for jobs in models]}
    return {f"{name}_{end.__name__}": f"{end(numbers):.1f}"
            for name, numbers in ratios.items() for end in (min, max)}


if __name__ == "__main__":
    write(json.loads((HERE / "compiled.json").read_text(encoding="utf-8")))
