#!/usr/bin/env python3
"""Do the gradient tests notice a wrong gradient? Deletes or negates one statement at a time in the backward kernels
and in the closures of the operations, runs the tests of that file until one fails, and lists the mutants that survive. All
mutants are in one build for one level; QUERN_MUTANT switches one on. Needs a Release build with its tests
(tools/test.sh). What the compiler evaluates (constexpr) is left alone.

  tools/mutate.py [--level v3] [--sample N] [--seed S] [--only WORD] [--minutes M] [--list]

--sample takes N statements of each file, chosen by the seed; 0 takes all. Nothing in the source tree is changed.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

from mutants import blanked, mutants_of, regions, statements

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WORK = ROOT / "build-mutants"

# The test files that look at a source file, in the order in which they are run; by its stem, else DEFAULT.
KERNEL_TESTS = {
    "activation": ["activation_test"],
    "additive": ["attention_gru_test", "additive_attention_test"],
    "additive_read": ["attention_gru_test"],
    "attention": ["attention_test", "attention_spans_test", "additive_attention_test"],
    "attention_backward": ["attention_test", "attention_spans_test", "additive_attention_test", "bf16_attention_test"],
    "attention_gru": ["attention_gru_test"],
    "dropout": ["dropout_test", "norm_test"],
    "embedding": ["embedding_test"],
    "linear_attention": ["linear_attention_test"],
    "linear_attention_backward": ["linear_attention_test"],
    "loss": ["loss_test", "bf16_test"],
    "norm": ["norm_test"],
    "recurrent": ["recurrent_test", "attention_gru_test"],
    "reduce": ["reduce_test", "norm_test"],
    "rotary": ["rotary_test"],
}
AUTOGRAD_TESTS = ["ops_test", "parameters_test", "recurrent_test", "tape_test", "recompute_test", "attention_golden_test"]


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    number: int
    path: pathlib.Path
    line: int
    last_line: int
    what: str
    statement: str
    begin: int
    end: int

    def __str__(self):
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}: {self.statement}"


def sources():
    level = sorted((ROOT / "src/kernels/level").glob("*.[ch]pp"))
    return level + sorted((ROOT / "src/kernels").glob("*.cpp")) + sorted((ROOT / "src/autograd").glob("*.cpp"))


def switched(text, mutants):
    """The text with every mutant in it, each behind the number by which the environment switches it on."""
    edits = []
    for m in mutants:
        if m.what == "deleted":
            edits += [(m.begin, 1, -m.end, f"{{ if (quern_mutant != {m.number}) "), (m.end, 0, -m.begin, " }")]
        else:
            kind = "bool" if m.what == "condition negated" else ""
            edits += [(m.begin, 1, -m.end, f" quern_negated<{m.number}>({kind}("), (m.end, 0, -m.begin, "))")]
    for at, _, _, inserted in sorted(edits, reverse=True):  # at one place: what ends before what begins, the wider outside
        text = text[:at] + inserted + text[at:]
    return text


SWITCH = """#pragma once
#include <cstdlib>
#include <type_traits>
extern int quern_mutant;  // the one that is on
template <int number, class T>
constexpr T quern_negated(T value) {
  if constexpr (std::is_same_v<T, bool>) return quern_mutant == number ? !value : value;
  else if constexpr (requires { T(-value); }) return quern_mutant == number ? T(-value) : value;
  else {
    if (quern_mutant == number) std::_Exit(77);  // nothing to negate
    return value;
  }
}
"""


def wrong_in(said):
    """The numbers of the mutants that the compiler's errors are about."""
    numbers = {int(n) for n in re.findall(r"quern_negated\(T\) \[with int number = (\d+);", said)}
    for file, line, column in re.findall(rf"{re.escape(str(WORK))}/(\S+):(\d+):(\d+): error", said):
        before = (WORK / file).read_text().splitlines()[int(line) - 1][: int(column) + len("quern_negated<1000>(")]
        numbers |= {int(n) for n in re.findall(r"quern_negated<(\d+)>", before)[-1:]}
    return numbers


class Builder:
    """One build of each test program with all mutants in it."""

    def __init__(self, level):
        self.level = level
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.commands = {(c["file"], re.search(r"CMakeFiles/([^/]+)\.dir", c["command"]).group(1)): c["command"]
                         for c in commands}
        if WORK.exists():
            shutil.rmtree(WORK)
        shutil.copytree(ROOT / "src", WORK / "src")
        (WORK / "switch.hpp").write_text(SWITCH)
        (WORK / "switch.cpp").write_text('#include "switch.hpp"\nint quern_mutant = std::getenv("QUERN_MUTANT") ? '
                                         'std::atoi(std::getenv("QUERN_MUTANT")) : 0;\n')
        subprocess.run(["g++", "-std=c++20", "-c", WORK / "switch.cpp", "-o", WORK / "switch.o"], check=True)

    def units(self, changed):
        """(source, target) of what has to be compiled for these files."""
        folders = {"src/kernels/level": f"quern_level_{self.level}", "src/kernels": "quern_kernels",
                   "src/autograd": "quern_autograd"}
        headers = {path.parent for path in changed if path.suffix == ".hpp"}
        return [(path, target) for folder, target in folders.items() for path in sorted((ROOT / folder).glob("*.cpp"))
                if path in changed or path.parent in headers]

    def compile(self, source, target):
        """The object, or what the compiler said."""
        words = shlex.split(self.commands[(str(source), target)])
        words = words[words.index(next(w for w in words if w.endswith(("c++", "g++")))) :]
        output = WORK / f"{target}-{source.stem}.o"
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-MT", "-MF"):
                skip = True
            elif word not in ("-MD", "-c", "-Werror", str(source)):
                kept.append("-O1" if word == "-O3" else word)
        private = WORK / source.relative_to(ROOT)
        command = [*kept, "-w", "-fmax-errors=0", "-include", WORK / "switch.hpp", "-c", private, "-o", output]
        done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
        return (output, "") if done.returncode == 0 else (None, done.stderr)

    def build(self, mutants):
        """The mutants that compile; the programs are in WORK."""
        paths = {m.path for m in mutants}
        objects, todo = {}, self.units(paths)
        while todo:
            for path in paths:
                here = [m for m in mutants if m.path == path]
                (WORK / path.relative_to(ROOT)).write_text(switched(path.read_text(), here))
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                outcomes = list(pool.map(lambda unit: self.compile(*unit), todo))
            objects |= {unit: output for unit, (output, _) in zip(todo, outcomes)}
            numbers = set().union(*(wrong_in(said) for _, said in outcomes))
            wrong = {m for m in mutants if m.number in numbers}
            if not wrong and not all(objects.values()):
                sys.exit("mutate: this does not compile, whatever is left out:\n" + next(s for o, s in outcomes if not o))
            for m in sorted(wrong):
                print("no such ", m, flush=True)
            changed = self.units({m.path for m in wrong})
            todo = [unit for unit, output in objects.items() if output is None or unit in changed]
            mutants = [m for m in mutants if m not in wrong]
        for name in ("kernels_tests", "autograd_tests"):
            lines = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", name], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.splitlines()
            link = next(line for line in reversed(lines) if f"-o {name} " in line)
            own = " ".join(str(o) for o in [*objects.values(), WORK / "switch.o"])
            subprocess.run(link.replace(f"-o {name} ", f"-o {WORK / name} {own} ", 1), shell=True, cwd=BUILD, check=True)
        return mutants


def tests_of(path):
    if "autograd" in path.parts:
        return "autograd_tests", AUTOGRAD_TESTS
    return "kernels_tests", KERNEL_TESTS.get(path.stem, [path.stem + "_test"])


def outcome(number, program, tests, level, seconds):
    """caught, survived or nothing to negate."""
    for test in tests:
        if (program, test) not in seconds:
            continue
        command = [WORK / program, "--abort", "--filenames-as-tags", f"[#{test}]"]
        environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "2", "QUERN_ISA": level, "OMP_WAIT_POLICY": "passive",
                       "QUERN_MUTANT": str(number)}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=seconds[program, test],
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)))
        except subprocess.TimeoutExpired:
            return "caught"
        if done.returncode == 77:
            return "nothing to negate"
        if done.returncode != 0:
            return "caught"
    return "survived"


def patience(mutants, level):
    """{(program, test file): seconds}: five times what it takes without a mutant. A test file that fails then, since
    sums that are switched round otherwise than the compiler's fused ones, is left out."""
    seconds = {}
    for program, test in sorted({(tests_of(m.path)[0], t) for m in mutants for t in tests_of(m.path)[1]}):
        begin = time.monotonic()
        if outcome(0, program, [test], level, {(program, test): 600}) != "survived":
            print(f"left out: {program} [#{test}] fails without a mutant", flush=True)
        else:
            seconds[program, test] = 20 + 5 * (time.monotonic() - begin)
    return seconds


def all_mutants(arguments):
    chosen, number = [], 0
    for path in sources():
        plain = blanked(path.read_text())
        mutants = []
        for begin, end in sorted(set(regions(path, plain))):
            for first, last in statements(plain, begin, end):
                for what, a, b in mutants_of(plain, first, last):
                    number += 1
                    mutants.append(Mutant(number, path, plain.count("\n", 0, first) + 1, plain.count("\n", 0, last) + 1, what,
                                          " ".join(plain[first:last].split())[:110], a, b))
        if arguments.only in str(path):
            if arguments.sample and len(mutants) > arguments.sample:
                mutants = random.Random(f"{arguments.seed} {path.name}").sample(mutants, arguments.sample)
            chosen += mutants
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", default="v3")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    mutants = all_mutants(arguments)
    if arguments.list:
        for m in mutants:
            print(m)
        print(len(mutants), "mutants")
        return 0
    begin = time.monotonic()
    built = Builder(arguments.level).build(mutants)
    seconds = patience(built, arguments.level)
    random.Random(arguments.seed).shuffle(built)  # so that a run cut short is a fair sample too

    def tried(m):
        if time.monotonic() - begin > 60 * arguments.minutes:
            return "not tried"
        what = outcome(m.number, *tests_of(m.path), arguments.level, seconds)
        print(f"{what:8}", m, flush=True)
        return what

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(tried, built))
    for m in sorted(m for m, what in zip(built, outcomes) if what == "survived"):
        print("SURVIVOR", m)
    caught, survived = outcomes.count("caught"), outcomes.count("survived")
    print(f"{caught} of {caught + survived} mutants caught ({100 * caught / max(caught + survived, 1):.1f} %); "
          f"{len(mutants)} chosen, {len(mutants) - len(built)} do not compile, {outcomes.count('nothing to negate')} have "
          f"nothing to negate, {outcomes.count('not tried')} not tried; {(time.monotonic() - begin) / 60:.0f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
