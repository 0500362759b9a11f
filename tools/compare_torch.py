#!/usr/bin/env python3
"""Quern against PyTorch on the same cores, in turns, as a table of ratios.

  python3 -m venv venv && venv/bin/pip install torch numpy
  venv/bin/python tools/compare_torch.py --peer torch_gpt.py A B0 C64 [--rounds 3]
      [--modes eager-f32,compile-f32] [--precisions f32,bf16]

`--peer` is a script that takes WORK MODE --steps N and prints one JSON line with ms_min, peak_rss_mb and
seconds_to_first_step (quern bench prints the same fields). All sides take turns, each in a process of its own; the
figure of a side is its minimum over all rounds. A row is one precision of Quern's against the fastest of PyTorch's
modes. Memory is the largest seen of Quern's side, and the smallest of that mode's.
"""
import argparse, json, os, subprocess, sys

STEPS = {"A": 60, "T": 60, "B": 4, "B0": 4, "C64": 6, "C1024": 3, "L8k": 4, "L16k": 3}


def run(command):
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{out.stderr}")
    return json.loads(out.stdout.strip().split("\n")[-1])


def low(side, key):
    return min(r[key] for r in side)


def measure(work, args):
    steps = str(STEPS.get(work, 6))
    ours = {precision: [] for precision in args.precisions.split(",")}
    theirs = {mode: [] for mode in args.modes.split(",")}
    for _ in range(args.rounds):
        for precision, runs in ours.items():
            runs.append(run([args.quern, "bench", work, "--precision", precision, "--steps", steps, "--json"]))
        for mode, runs in theirs.items():
            runs.append(run([sys.executable, args.peer, work, mode, "--steps", steps]))
    best = min(theirs, key=lambda mode: low(theirs[mode], "ms_min"))
    t = theirs[best]
    for precision, runs in ours.items():
        q = low(runs, "ms_min")
        print(f"{work:6} {precision:5} {q:9.1f} {best:>13} {low(t, 'ms_min'):9.1f} {low(t, 'ms_min') / q:6.2f} "
              f"{max(r['peak_rss_mb'] for r in runs):8.0f} {low(t, 'peak_rss_mb'):8.0f} "
              f"{low(runs, 'seconds_to_first_step'):8.2f} {low(t, 'seconds_to_first_step'):6.2f}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("works", nargs="+", metavar="WORK")
    ap.add_argument("--peer", required=True, help="the PyTorch script")
    ap.add_argument("--quern", default=os.path.join(os.path.dirname(__file__), "..", "build", "quern"))
    ap.add_argument("--modes", default="eager-f32", help="the peer's modes, as a list: eager-f32,compile-bf16,…")
    ap.add_argument("--precisions", default="f32", help="Quern's, as a list: f32,bf16")
    ap.add_argument("--rounds", type=int, default=3)
    args = ap.parse_args()
    print(f"{'work':6} {'quern':5} {'ms':>9} {'torch':>13} {'ms':>9} {'ratio':>6} {'quern MB':>8} {'torch MB':>8} "
          f"{'first s':>8} {'torch':>6}")
    for work in args.works:
        measure(work, args)


if __name__ == "__main__":
    main()
