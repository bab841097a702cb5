#!/usr/bin/env python3
"""Tapehead beside PyTorch: both take the same training steps, in turns, and a table says who was faster.

    python bench/compare.py --tapehead build/tapehead --shapes micro,toy,chars --rounds 5 --steps 100 --threads 2

In each round and for each shape either side runs once, each in a process of its own with nothing else of ours running;
the order changes from round to round, so that a machine that warms up or slows down treats both alike. A side's figure
is the median over rounds of its median step; PyTorch counts with the faster of eager and torch.compile. Needs a Python
with PyTorch (the one that runs this, or --python).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

PEER = pathlib.Path(__file__).with_name("peer_torch.py")
UNSET = "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
OURS = "tapehead"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tapehead", default="build/tapehead", help="the command (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch (%(default)s)")
    parser.add_argument("--shapes", default="micro,toy,chars,small,gpt2-124m,llama,lstm", help="%(default)s")
    parser.add_argument("--mode", default="eager,compile", help="of PyTorch (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="%(default)s")
    parser.add_argument("--steps", type=int, default=30, help="measured per round, shape and side (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="%(default)s")
    parser.add_argument("--json", metavar="FILE|-", help="all that was measured")
    return parser.parse_args()


def run(command, threads):
    """The JSON a command prints; its progress is passed on."""
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment["OMP_NUM_THREADS"] = str(threads)
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
        raise SystemExit(f"compare: {' '.join(command)}: {error}") from error


class Measured:
    """Every round's row, by shape and side ("tapehead", "eager", "compile")."""

    def __init__(self):
        self.rows, self.reports, self.adamw, self.broken = {}, {}, {}, set()

    def add(self, shape, side, row):
        self.rows.setdefault(shape, {}).setdefault(side, []).append(row)

    def median(self, shape, side):
        """Milliseconds; None if that side never ran."""
        rows = self.rows[shape].get(side)
        return statistics.median(row["median_ms"] for row in rows) if rows else None

    def fastest(self, shape, side):
        return min(row["min_ms"] for row in self.rows[shape][side])

    def best_peer(self, shape):
        sides = [side for side in self.rows[shape] if side != OURS]
        return min(sides, key=lambda side: self.median(shape, side)) if sides else None


def run_ours(options, shape, measured):
    report = run([options.tapehead, "bench", "--shape", shape, "--steps", str(options.steps),
                  "--threads", str(options.threads), "--json", "-"], options.threads)
    measured.reports[OURS] = {key: value for key, value in report.items() if key != "shapes"}
    for row in report["shapes"]:
        measured.add(shape, OURS, row)
        print(f"{shape} {OURS}: median {row['median_ms']:.3f} ms, min {row['min_ms']:.3f} ms", file=sys.stderr)


def run_peer(options, shape, mode, measured):
    if (shape, mode) in measured.broken:
        return
    command = [options.python, str(PEER), "--shapes", shape, "--steps", str(options.steps),
               "--threads", str(options.threads), "--mode", mode, "--json", "-"]
    if (shape, mode) in measured.adamw:  # chosen in the first round
        command += ["--adamw", measured.adamw[shape, mode]]
    report = run(command, options.threads)
    measured.reports["torch"] = report["torch"]
    measured.broken |= {(shape, failure["mode"]) for failure in report["failures"]}
    for row in report["shapes"]:
        measured.adamw[shape, mode] = row["adamw"]
        measured.add(shape, mode, row)


def table(options, measured):
    ours, load = measured.reports[OURS], os.getloadavg()[0]
    lines = [f"Tapehead {ours.get('version', '?')} ({ours.get('blas', '?')}) beside PyTorch "
             f"{measured.reports.get('torch', '?')}: {ours.get('cpu', '?')}, {options.threads} threads, "
             f"{options.rounds} rounds of {options.steps} steps, load {load:.1f} at the end",
             "Milliseconds per training step: median (fastest). Ratio: the better PyTorch over Tapehead, of the medians "
             "(lowest .. highest round).", "",
             f"{'shape':<11}{'tapehead':>22}{'torch eager':>22}{'torch compile':>22}  {'ratio':<22}"]
    for shape, sides in measured.rows.items():
        cells = []
        for side in OURS, "eager", "compile":
            median = measured.median(shape, side)
            cells.append("-" if median is None else f"{median:.3f} ({measured.fastest(shape, side):.3f})")
        best = measured.best_peer(shape)
        ratio = "-"
        if best:
            rounds = [peer["median_ms"] / row["median_ms"] for peer, row in zip(sides[best], sides[OURS])]
            ratio = (f"{measured.median(shape, best) / measured.median(shape, OURS):.2f} "
                     f"({min(rounds):.2f} .. {max(rounds):.2f})")
        lines.append(f"{shape:<11}" + "".join(f"{cell:>22}" for cell in cells) + f"  {ratio}")
    return "\n".join(lines)


def main(options):
    if os.getloadavg()[0] > 0.5:
        print(f"compare: the machine is busy (load {os.getloadavg()[0]:.1f}); figures will be off", file=sys.stderr)
    measured = Measured()
    modes = options.mode.split(",")
    for number in range(options.rounds):
        for shape in options.shapes.split(","):
            turns = [lambda: run_ours(options, shape, measured)]
            turns += [lambda mode=mode: run_peer(options, shape, mode, measured) for mode in modes]
            for turn in turns if number % 2 == 0 else reversed(turns):
                turn()
    if options.json != "-":
        print(table(options, measured))
    if options.json:
        text = json.dumps({"rounds": options.rounds, "steps": options.steps, "threads": options.threads,
                           "rows": measured.rows, "ratio": {
                               shape: measured.median(shape, measured.best_peer(shape)) / measured.median(shape, OURS)
                               for shape in measured.rows if measured.best_peer(shape)},
                           **measured.reports}, indent=1)
        if options.json == "-":
            print(text)
        else:
            pathlib.Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main(arguments())
