"""summary.py FOLDER prints a one-page summary of the results of gpu-day.sh. Missing results are skipped."""
import csv
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(sys.argv[1])


def text(name):
    path = HERE / name
    return path.read_text(errors="replace") if path.exists() else ""


def found(name):
    """Returns the last JSON object that a program printed, or {}."""
    for line in reversed(text(name).splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            pass
    try:
        return json.loads(text(name))
    except ValueError:
        return {}


def show(*lines):
    for line in lines:
        print(line)


def speeds(title, report):
    for part in "train", "plan":
        s = report.get(part)
        if not s:
            continue
        share = 100 * s["gflops"] / s["peak_gflops"] if s["peak_gflops"] else 0
        show(f"{title} {part}: fp32 {s['fp32_ms']:.2f} ms, bf16 {s['bf16_ms']:.2f} ms; {s['gflops'] / 1e3:.1f} of {s['peak_gflops'] / 1e3:.1f} TFLOP/s = {share:.1f} %")
        if s.get("side_ms"):
            show(f"  {s['side_by_side']} side by side: {s['side_ms']:.3f} ms a plan, {1e3 / s['side_ms']:.1f} plans/s, PyTorch {s.get('peer_side_ms', 0):.2f} ms")
        if p := s.get("peer"):
            show(f"  {p['version']}: best {s['peer_ms']:.2f} ms, ratio {s['ratio']:.2f}, side by side {s.get('side_ratio', 0):.2f}")
            show("  " + ", ".join(f"{k} {v:.2f}" for k, v in sorted(p["ms"].items())))
            show(*(f"  left out {k}: {v}" for k, v in p.get("dropped", {}).items()))


def table(title, rows, head):
    show(title, "  %-40s" % "" + "".join("%10s" % h for h in head))
    for name, *values in rows:
        show("  %-40s" % name[:40] + "".join("%10.4g" % v for v in values))


def kernels(report):
    for part, list_ in report.get("kernels", {}).items():
        list_ = list_ or []
        total = [sum(k[c] for k in list_) for c in ("launches", "ms", "floor_ms", "gb", "gflop")]
        rows = [(k["kernel"], k["launches"], k["ms"], k["floor_ms"], k["gb"], k["gflop"]) for k in list_[:30]]
        table(f"kernels, {part} (events)", [("all", *total), *rows], ("launches", "ms", "floor ms", "GB", "GFLOP"))


def number(s):
    return float(s.replace(",", "") or 0) if s and s[0] in "0123456789.-" else 0.0


def counters(name):
    lines = [line for line in text(name).splitlines() if line.startswith('"')]
    sums = defaultdict(lambda: [0.0] * 6)
    for row in csv.DictReader(lines):
        if not number(row.get("gpu__time_duration.sum", "")):
            continue  # the line with the units
        ns = number(row["gpu__time_duration.sum"])
        s = sums[row["Kernel Name"].split("(")[0]]
        s[0] += 1
        s[1] += ns / 1e6
        s[2] += (number(row.get("dram__bytes_read.sum", "")) + number(row.get("dram__bytes_write.sum", ""))) / 1e9
        s[3] += number(row.get("sm__inst_executed.sum", "")) / 1e6
        s[4] += ns / 1e6 * number(row.get("sm__warps_active.avg.pct_of_peak_sustained_active", ""))
        s[5] = number(row.get("launch__registers_per_thread", ""))
    rows = sorted(((k, n, ms, gb, gb / ms * 1e3, minst, busy / ms, regs) for k, (n, ms, gb, minst, busy, regs) in sums.items()), key=lambda r: -r[2])
    if rows:
        table(f"counters, {name}", rows[:18], ("launches", "ms", "GB", "GB/s", "M inst", "warps %", "registers"))


show("stages", text("stages.txt"))
show(*[line for line in text("machine.txt").splitlines() if re.search("NVIDIA|Model name|^Mem|Python", line)][:6])
show(*(line for line in text("doctor.txt").splitlines() if "GPU" in line))
for name in "checks", "references_lewm", "references_train", "references_plan":
    if log := text(name + ".txt"):
        show(f"{name}: " + ", ".join(f"{len(re.findall(f'--- {w}', log))} {w}" for w in ("PASS", "FAIL", "SKIP")))
        show(*re.findall(r" *--- FAIL.*(?:\n(?! *---).*){0,2}", log)[:12])
bench = found("bench.txt")
if machine := bench.get("machine"):
    probe = bench["probes"][-1]
    show(f"peak by {machine.get('peak_by')}: {probe.get('gpu_bf16_gflops', 0) / 1e3:.0f} TFLOP/s bf16, {probe.get('gpu_fp32_gflops', 0) / 1e3:.0f} fp32, "
         f"copy {probe.get('gpu_copy_gb_s', 0):.0f} GB/s; {machine['threads']} threads, {machine['version']}")
speeds("ours", bench)
for name in "plain", "ampere", "peer_train", "peer_plan", "autotune":
    speeds(name, found(name + ".txt"))
for name, t in found("frames.txt").get("env", {}).get("tasks", {}).items():
    show(f"{name}: {t['steps_per_s']:.0f} steps/s, {t['frames_per_s']:.1f} with frames; {t.get('missing', '')}")
show(*(text(n).strip()[:300] for n in ("frames_reacher.txt", "collect.txt", "probe.txt", "lewm.txt", "scale.txt") if text(n)))
if rows := (found("report/report.json") or {}).get("cells"):
    show(*(f"{c['task']} {c['method']} {c['solver']} {c['tier']}: {c['mean']:.1f} ± {c['sd'] or 0:.1f} (n {c['n']})" for c in rows))
show(text("bits.txt"))
kernels(found("kernels.txt"))
for name in "ncu_train.csv", "ncu_plan.csv":
    counters(name)
for tool in "memcheck", "racecheck", "synccheck":
    show(*[f"{tool}: {line}" for line in text(tool + ".txt").splitlines() if re.search("SUMMARY|Error:|Invalid|hazard", line)][:5])
watch = [[number(v.strip()) for v in line.split(",")[:4]] for line in text("monitor.csv").splitlines() if line.count(",") >= 4]
if watch:
    show("monitor: " + ", ".join(f"{n} {min(c):.0f} to {max(c):.0f}" for n, c in zip(("MHz", "MiB", "W", "C"), zip(*watch))) +
         "; throttled: " + " ".join(sorted({line.split(",")[4].strip() for line in text("monitor.csv").splitlines() if line.count(",") >= 4})))
