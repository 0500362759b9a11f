#!/usr/bin/env python3
"""Quern against PyTorch on the same cores, in turns, as a table of ratios.

  python3 -m venv venv && venv/bin/pip install torch numpy
  venv/bin/python tools/compare_torch.py A B0 C64 decode [--rounds 3] [--precisions f32,bf16]
      [--modes eager-f32,compile-bf16-fused]

Works are those of `quern bench`; PyTorch's side of them is tools/torch_peer.py, which explains its modes. The default
modes are eager-f32, eager-f32-fused, compile-f32-fused, eager-bf16-fused and compile-bf16-fused. decode has no
optimizer, and takes them without -fused. A mode that fails (no compiler, say) is reported on stderr and left out.

All sides take turns, each in a process of its own. A row is one precision of Quern's against the fastest of PyTorch's
modes: the shortest step in milliseconds over all rounds, for decode the most tokens a second; a ratio above 1 means
that Quern is faster. Memory is the largest seen of Quern's side, and the smallest of that mode's; the seconds from
start to the end of the first step are the fewest of either.
"""
import argparse, json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = os.path.join(HERE, "torch_peer.py")
MODES = "eager-f32,eager-f32-fused,compile-f32-fused,eager-bf16-fused,compile-bf16-fused"
STEPS = {"A": 60, "T": 60, "B": 4, "B0": 4, "C64": 6, "C1024": 3, "L8k": 4, "L16k": 3, "decode": 64}


def run(command):
    """The JSON line that a command prints last; None, with a report on stderr, if it fails."""
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode == 0:
        return json.loads(out.stdout.strip().split("\n")[-1])
    print(f"{' '.join(command)} failed:\n{out.stderr[-2000:]}", file=sys.stderr, flush=True)
    return None


def low(runs, key):
    return min(r[key] for r in runs)


def high(runs, key):
    return max(r[key] for r in runs)


def measure(work, args):
    steps, decodes = str(args.steps or STEPS.get(work, 6)), work == "decode"
    ours = {precision: [] for precision in args.precisions.split(",")}
    theirs = {mode.removesuffix("-fused") if decodes else mode: [] for mode in args.modes.split(",")}
    for _ in range(args.rounds):
        for precision, runs in ours.items():
            runs.append(run([args.quern, "bench", work, "--precision", precision, "--steps", steps, "--json"]))
            if runs[-1] is None:
                sys.exit(1)
        for mode, runs in list(theirs.items()):
            runs.append(run([sys.executable, PEER, work, mode, "--steps", steps]))
            if runs[-1] is None:
                del theirs[mode]
    if not theirs:
        sys.exit(f"{work}: none of PyTorch's modes works")

    def speed(runs):
        return high(runs, "tokens_per_second") if decodes else 1 / low(runs, "ms_min")

    best, t = max(theirs.items(), key=lambda side: speed(side[1]))
    for precision, q in ours.items():
        shown = [speed(runs) if decodes else low(runs, "ms_min") for runs in (q, t)]
        print(f"{work:6} {'tok/s' if decodes else 'ms':5} {precision:5} {shown[0]:9.1f} {best:>18} {shown[1]:9.1f} "
              f"{speed(q) / speed(t):6.2f} {high(q, 'peak_rss_mb'):8.0f} {low(t, 'peak_rss_mb'):8.0f} "
              f"{low(q, 'seconds_to_first_step'):8.2f} {low(t, 'seconds_to_first_step'):7.2f}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("works", nargs="+", metavar="WORK")
    ap.add_argument("--quern", default=os.path.join(HERE, "..", "build", "quern"))
    ap.add_argument("--modes", default=MODES, help="PyTorch's, as a list")
    ap.add_argument("--precisions", default="f32", help="Quern's, as a list: f32,bf16")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--steps", type=int, default=0, help="of each process; 0 means the work's own number")
    args = ap.parse_args()
    print(f"{'work':6} {'unit':5} {'quern':15} {'torch':>18} {'':9} {'ratio':>6} {'quern MB':>8} {'torch MB':>8} "
          f"{'first s':>8} {'torch s':>7}")
    for work in args.works:
        measure(work, args)


if __name__ == "__main__":
    main()
