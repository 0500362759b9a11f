#!/usr/bin/env python3
"""Quern against PyTorch on the same cores, in turns, as a table of ratios.

  python3 -m venv venv && venv/bin/pip install torch numpy
  venv/bin/python tools/compare_torch.py --peer torch_gpt.py A B0 C64 [--rounds 3] [--mode eager-f32]

`--peer` is a script that takes WORK MODE --steps N and prints one JSON line with ms_min, peak_rss_mb and
seconds_to_first_step (quern bench prints the same fields). The two sides take turns, each in a process of its own; the
figure of a side is its minimum over all rounds.
"""
import argparse, json, os, subprocess, sys

STEPS = {"A": 60, "B": 4, "B0": 4, "C64": 6, "C1024": 3}


def run(command):
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{out.stderr}")
    return json.loads(out.stdout.strip().split("\n")[-1])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("works", nargs="+", metavar="WORK")
    ap.add_argument("--peer", required=True, help="the PyTorch script")
    ap.add_argument("--quern", default=os.path.join(os.path.dirname(__file__), "..", "build", "quern"))
    ap.add_argument("--mode", default="eager-f32", help="the peer's mode (eager-f32, compile-f32, …)")
    ap.add_argument("--rounds", type=int, default=3)
    a = ap.parse_args()
    print(f"{'work':7} {'quern ms':>10} {'torch ms':>10} {'ratio':>6} {'quern MB':>9} {'torch MB':>9} "
          f"{'first step s':>12} {'torch':>6}")
    for work in a.works:
        steps = str(STEPS.get(work, 6))
        ours, theirs = [], []
        for _ in range(a.rounds):
            ours.append(run([a.quern, "bench", work, "--steps", steps, "--json"]))
            theirs.append(run([sys.executable, a.peer, work, a.mode, "--steps", steps]))
        low = lambda side, key: min(r[key] for r in side)
        q, t = low(ours, "ms_min"), low(theirs, "ms_min")
        print(f"{work:7} {q:10.1f} {t:10.1f} {t / q:6.2f} {low(ours, 'peak_rss_mb'):9.0f} "
              f"{low(theirs, 'peak_rss_mb'):9.0f} {low(ours, 'seconds_to_first_step'):12.2f} "
              f"{low(theirs, 'seconds_to_first_step'):6.2f}", flush=True)


if __name__ == "__main__":
    main()
