"""Results of a bench as tables for people."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from semppl.bench.scaling import growth
from semppl.core.counted import counted


def tables(result: dict[str, Any]) -> Iterator[Table]:
    """One for each part that was measured."""
    if "step" in result:
        yield step_table(result)
        yield phase_table(result["step"])
    if "agreement" in result:
        yield agreement_table(result["agreement"])
    if "scaling" in result:
        yield scaling_table(result["scaling"])
    if "photometric" in result:
        yield photometric_table(result["photometric"])
    if "sweep" in result:
        yield sweep_table(result["sweep"])
    if "lightly" in result:
        yield lightly_table(result)


def step_table(result: dict[str, Any]) -> Table:
    """Whole steps."""
    step, batch = result["step"], result["settings"]["batch_size"]
    names = {"floor": "encoders alone (floor)", "relicv2": "ReLICv2", "semppl": "SemPPL"}
    title = f"{result['settings']['encoder']}, {result['machine']['device']}, {step['speed']}"
    table = _table(title, "step", "ms", "images/s", "× floor", "peak MB")
    for name, words in names.items():
        ms = step["ms"][name]
        ratio = ms / step["ms"]["floor"]
        memory = f"{step['peak_mb'][name]:,.0f}"
        table.add_row(words, f"{ms:.2f}", f"{1e3 * batch / ms:,.0f}", f"{ratio:.3f}", memory)
    if files := step.get("from_files"):
        words = f"SemPPL from {files['files']} files, {counted(files['workers'], 'worker')}"
        ratio = files["ms"] / step["ms"]["floor"]
        table.add_row(words, f"{files['ms']:.2f}", f"{files['images_per_second']:,.0f}", f"{ratio:.3f}", "")
    share = 100 * step["semppl_over_relicv2"]
    table.caption = f"SemPPL over ReLICv2: {share:+.2f} %; start-up {step['start_up_s']:.0f} s"
    return table


def phase_table(step: dict[str, Any]) -> Table:
    """Where the time goes; on a GPU the feed of the next step runs beside this one."""
    table = _table("phases of a SemPPL step", "phase", "ms", "share")
    total = sum(ms for name, ms in step["phases_ms"].items() if name != "feed")
    for name, ms in step["phases_ms"].items():
        table.add_row(name, f"{ms:.3f}", "beside" if name == "feed" else f"{100 * ms / total:.1f} %")
    return table


def agreement_table(agreement: dict[str, Any]) -> Table:
    """Whether the fast way is the right way."""
    table = _table("agreement with the plain way", "what", "value")
    for what, share in agreement["neighbours"].items():
        table.add_row(f"{what.replace('_', ' ')} as in float64", f"{100 * share:.3f} %")
    for optimiser, losses in agreement.get("recording", {}).items():
        words = f"{losses['recorded']:.1e} (the plain step again: {losses['again']:.1e})"
        table.add_row(f"losses of the recorded step with {optimiser}, relative difference", words)
    for kind, weights in agreement.get("teaching", {}).items():
        words = f"{weights['recorded']:.1e} (the plain one again: {weights['again']:.1e})"
        table.add_row(f"weights after recorded {kind} fine-tuning, relative difference", words)
    if crops := agreement.get("crops"):
        words = (
            f"{100 * crops['share_equal']:.1f} % equal, at most {crops['largest_difference']:.0f} level off"
        )
        table.add_row("crops as on a CPU", words)
    if "step_waits_for_nothing" in agreement:
        table.add_row("host waits for the device in a step", f"{not agreement['step_waits_for_nothing']}")
    return table


def scaling_table(rows: list[dict[str, Any]]) -> Table:
    """Cost against each factor."""
    table = _table("the method without networks", "against", "value", "ms", "MB", "grows like")
    for factor in dict.fromkeys(row["factor"] for row in rows):
        points = [row for row in rows if row["factor"] == factor]
        for row in points:
            last = row is points[-1]
            growing = f"n^{growth(rows, factor, 'ms'):.2f}" if last else ""
            memory = "" if row["peak_mb"] is None else f"{row['peak_mb']:,.0f}"
            numbers = (f"{row['value']:,}", f"{row['ms']:.3f}", memory)
            table.add_row(factor, *numbers, growing, end_section=last)
    return table


def photometric_table(result: dict[str, Any]) -> Table:
    """Beside torchvision."""
    threads = counted(result["threads"], "thread")
    title = f"{result['batch']} crops of {result['size']} px on a CPU, {threads}"
    table = _table(title, "view", "ours, ms", "torchvision, ms", "times faster")
    for name in ("odd", "even"):
        row = result[name]
        numbers = (f"{row['ours_ms']:.0f}", f"{row['torchvision_ms']:.0f}", f"{row['times_faster']:.1f}")
        table.add_row(name, *numbers)
    return table


def sweep_table(result: dict[str, Any]) -> Table:
    """Linear classifiers on cached features."""
    title = f"{result['images']:,} × {result['features']} features, {result['classes']} classes"
    table = _table(title, "settings of SGD", "updates", "seconds", "best, %", "median, %")
    accuracies = (f"{result['best_accuracy']:.1f}", f"{result['median_accuracy']:.1f}")
    table.add_row(
        f"{result['settings']:,}", f"{result['updates']:,}", f"{result['seconds']:.1f}", *accuracies
    )
    return table


def lightly_table(result: dict[str, Any]) -> Table:
    """Beside lightly."""
    peer = result["lightly"]
    title = f"lightly {peer['version']}, {counted(peer['workers'], 'worker')}"
    table = _table(title, "method", "step, ms", "transforms, images/s", "together, images/s")
    for name in ("simclr", "byol"):
        row = peer[name]
        rates = (f"{row['transform_images_per_second']:,.0f}", f"{row['images_per_second']:,.0f}")
        table.add_row(name, f"{row['step_ms']:.2f}", *rates)
    if "step" in result:
        ms, rate = result["step"]["ms"]["semppl"], result["step"]["images_per_second"]
        table.add_row("SemPPL of semppl", f"{ms:.2f}", "", f"{rate:,.0f}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table
