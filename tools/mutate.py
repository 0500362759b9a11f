#!/usr/bin/env python3
"""Do the gradient tests notice a wrong gradient? Deletes or negates one statement at a time in the backward kernels
and in the closures of the operations, builds what that changes for one level, runs the tests of that file until one
fails, and lists the mutants that survive. Needs a Release build with its tests (tools/test.sh).

  tools/mutate.py [--level v3] [--sample N] [--seed S] [--only WORD] [--minutes M] [--list]

--sample takes N statements of each file, chosen by the seed; 0 takes all. Nothing in the source tree is changed.
"""
import argparse
import json
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
WORK = ROOT / "build-mutants"

# The test files that look at a source file, in the order in which they are run; by its stem, else DEFAULT.
KERNEL_TESTS = {
    "activation": ["activation_test"],
    "additive": ["attention_gru_test", "additive_attention_test"],
    "additive_read": ["attention_gru_test"],
    "attention": ["attention_test", "attention_spans_test", "additive_attention_test"],
    "attention_backward": ["attention_test", "attention_spans_test", "additive_attention_test", "bf16_test"],
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


def closing(text, at):
    """The place of the bracket that closes the one at `at`; strings and comments are blanked before."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    stack = []
    for i in range(at, len(text)):
        if text[i] in pairs:
            stack.append(pairs[text[i]])
        elif stack and text[i] == stack[-1]:
            stack.pop()
            if not stack:
                return i
    raise ValueError("unbalanced brackets")


def blanked(text):
    """The text with spaces for comments, strings and the preprocessor's lines."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


def regions(path, text):
    """[begin, end) of the bodies that are mutated."""
    found = []
    if "autograd" in path.parts:
        for call in re.finditer(r"\brecord\(", text):
            end = closing(text, call.end() - 1)
            body = re.compile(r"\]\s*\([^()]*\)\s*\{").search(text, call.end(), end)
            if body:
                found.append((body.end(), closing(text, body.end() - 1)))
        named = r"^[\w:<>*& ]*\b\w*(?:gradient|backward)\w*\([^;{}]*\)\s*\{"
    elif "backward" in path.stem:
        named = r"^[\w:<>*& ]*\b(?!attention_backward_head|linear_attention_backward_head)\w+\([^;{}]*\)\s*\{"
    else:
        named = r"^[\w:<>*& ]*\b\w*(?:gradient|backward|turned_back|row_sums)\w*\([^;{}]*\)\s*\{"
    for body in re.finditer(named, text, flags=re.M):
        if "scratch(" not in body.group() and "_cost(" not in body.group():
            found.append((body.end(), closing(text, body.end() - 1)))
    return found


def statements(text, begin, end):
    """[begin, end) of each statement that ends with a semicolon, those inside lambdas too."""
    found = []
    starts = [begin]  # where the statement of each open brace began
    round_brackets = [0]
    i = begin
    while i < end:
        c = text[i]
        if c == "{":
            initializer = re.search(r"[\w=(,>]\s*$", text[begin:i]) and not re.search(r"\)\s*$", text[begin:i])
            if initializer and not re.search(r"(?:QUERN_LAMBDA|else|do)\s*$", text[begin:i]):
                i = closing(text, i)
            else:
                starts.append(i + 1)
                round_brackets.append(0)
        elif c == "}":
            starts.pop()
            round_brackets.pop()
            if round_brackets[-1] == 0:
                starts[-1] = i + 1
        elif c == "(":
            round_brackets[-1] += 1
        elif c == ")":
            round_brackets[-1] -= 1
        elif c == ";" and round_brackets[-1] == 0:
            first = re.compile(r"\s*").match(text, starts[-1]).end()
            found.append((first, i + 1))
            starts[-1] = i + 1
        i += 1
    return found


def split_top(text, separator=","):
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == separator and depth == 0:
            parts.append((last, i))
            last = i + 1
    return parts + [(last, len(text))]


def mutants_of(text, begin, end):
    """(what is done, [(begin, end, what comes in its place), …])."""
    header = re.compile(r"\s*(?:else\b|(?:if|for|while)\s*(?:constexpr\s*)?\()")
    at = begin
    while (m := header.match(text, at)) and m.end() < end:
        if text[m.end() - 1] == "(":
            close = closing(text, m.end() - 1)
            condition = text[m.end() : close]
            if m.group().strip().startswith("if") and "=" not in re.sub(r"[=!<>]=", "", condition):
                yield "condition negated", [(m.end(), m.end(), "!("), (close, close, ")")]
            at = close + 1
        else:
            at = m.end()
    body = text[at:end].strip()
    at = text.index(body, at)
    if re.match(r"(?:QUERN_CHECK|using|static_assert|break|continue|switch|case|default)\b|check\w*\(", body) or body in ("", ";"):
        return
    declaration = re.match(r"(?:alignas\(\w+\)\s*)?(?:const |constexpr |static )?[\w:]+(?:<[^=;()]*>)?(?:\s+|\s*[*&]+\s*)\w+\s*(?:=(?!=)|\[|\{|;|,)", body)
    assignment = re.match(r"[^=;(){}]*?(?:\([^=;]*?\)[^=;(){}]*?)?(?<![=!<>])([-+*/]?=)(?!=)", body)
    returned = re.match(r"return\b(?!\s*;)", body)
    if not declaration and not returned:
        yield "deleted", [(at, end, ";")]
    if assignment and (declaration or not re.match(r"\w+\s*\(", body)):
        value = at + assignment.end()
        stop = split_top(text[value : end - 1])[0][1] + value
        truth = body.startswith(("const bool", "bool")) or text[value:stop].strip() in ("true", "false")
        sign = "!" if truth else "-"
        yield "negated", [(value, value, f" {sign}("), (stop, stop, ")")]
    elif returned:
        value = at + returned.end()
        yield "negated", [(value, value, " -("), (end - 1, end - 1, ")")]
    elif call := re.match(r"(?:sink_n|store_n|put|sink|store)\(", body):
        inside = at + call.end()
        parts = split_top(text[inside : closing(text, inside - 1)])
        which = 2 if body.startswith("put") else 1
        if which < len(parts):
            first, last = parts[which]
            yield "negated", [(inside + first, inside + first, " -("), (inside + last, inside + last, ")")]


def sources():
    level = sorted((ROOT / "src/kernels/level").glob("*.[ch]pp"))
    return level + sorted((ROOT / "src/kernels").glob("*.cpp")) + sorted((ROOT / "src/autograd").glob("*.cpp"))


class Builder:
    def __init__(self, level):
        self.level = level
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.commands = {(c["file"], c["output"].split("/")[1]): c["command"] for c in commands if "output" in c}
        if not self.commands:
            self.commands = {(c["file"], re.search(r"CMakeFiles/([^/]+)\.dir", c["command"]).group(1) + ".dir"): c["command"]
                             for c in commands}
        self.links = {}
        for name in ("kernels_tests", "autograd_tests"):
            lines = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", name], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.splitlines()
            self.links[name] = next(line for line in reversed(lines) if f"-o {name} " in line)
        if WORK.exists():
            shutil.rmtree(WORK)
        shutil.copytree(ROOT / "src", WORK / "src")

    def units(self, path):
        """(source, target) to compile when `path` has changed."""
        target = "quern_autograd.dir" if "autograd" in path.parts else "quern_kernels.dir"
        if path.parent.name == "level":
            target = f"quern_level_{self.level}.dir"
        if path.suffix == ".cpp":
            return [(path, target)]
        changed, grew = {path.name}, True
        while grew:
            includers = {f.name for f in path.parent.iterdir()
                         if any(f'"{name}"' in f.read_text() for name in changed)} | changed
            grew, changed = includers != changed, includers
        return [(path.parent / name, target) for name in sorted(changed) if name.endswith(".cpp")]

    def build(self, path, program):
        """Links `program` with the private copy of what depends on `path`; its path, or None where it does not compile."""
        objects = []
        for source, target in self.units(path):
            private = WORK / source.relative_to(ROOT)
            words = shlex.split(self.commands[(str(source), target)])
            words = words[words.index(next(w for w in words if w.endswith(("c++", "g++")))) :]
            output = WORK / (source.stem + ".o")
            kept, skip = [], False
            for word in words:
                if skip:
                    skip = False
                elif word in ("-o", "-MT", "-MF"):
                    skip = True
                elif word not in ("-MD", "-c", "-Werror", str(source)):
                    kept.append("-O1" if word == "-O3" else word)
            done = subprocess.run([*kept, "-w", "-c", private, "-o", output], cwd=BUILD, capture_output=True)
            if done.returncode != 0:
                return None
            objects.append(str(output))
        executable = WORK / program
        link = self.links[program].replace(f"-o {program} ", f"-o {executable} {' '.join(objects)} ", 1)
        return executable if subprocess.run(link, shell=True, cwd=BUILD, capture_output=True).returncode == 0 else None


def survives(executable, tests, level):
    for test in tests:
        command = [executable, "--abort", "--filenames-as-tags", f"[#{test}]"]
        try:
            done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "2", "QUERN_ISA": level,
                                                "OMP_WAIT_POLICY": "passive"}, capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode != 0:
            return False
    return True


def tests_of(path):
    if "autograd" in path.parts:
        return "autograd_tests", AUTOGRAD_TESTS
    return "kernels_tests", KERNEL_TESTS.get(path.stem, [path.stem + "_test"])


def all_mutants(arguments):
    chosen = []
    for path in sources():
        text = path.read_text()
        plain = blanked(text)
        mutants = []
        for begin, end in sorted(set(regions(path, plain))):
            for first, last in statements(plain, begin, end):
                for what, edits in mutants_of(plain, first, last):
                    changed = text
                    for a, b, instead in sorted(edits, reverse=True):
                        changed = changed[:a] + instead + changed[b:]
                    line = plain.count("\n", 0, first) + 1
                    mutants.append((path, line, what, " ".join(plain[first:last].split()), changed))
        if arguments.only and arguments.only not in str(path):
            continue
        if arguments.sample and len(mutants) > arguments.sample:
            mutants = sorted(random.Random(f"{arguments.seed} {path.name}").sample(mutants, arguments.sample),
                             key=lambda m: m[1])
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
        for path, line, what, statement, _ in mutants:
            print(f"{path.relative_to(ROOT)}:{line}: {what}: {statement[:110]}")
        print(len(mutants), "mutants")
        return 0
    builder = Builder(arguments.level)
    random.Random(arguments.seed).shuffle(mutants)  # so that a run cut short is a fair sample too
    begin, caught, survivors, broken = time.monotonic(), 0, [], 0
    for path, line, what, statement, changed in mutants:
        if time.monotonic() - begin > 60 * arguments.minutes:
            break
        private = WORK / path.relative_to(ROOT)
        original = path.read_text()
        private.write_text(changed)
        program, tests = tests_of(path)
        executable = builder.build(path, program)
        where = f"{path.relative_to(ROOT)}:{line}: {what}: {statement[:110]}"
        if executable is None:
            broken += 1
        elif survives(executable, tests, arguments.level):
            survivors.append(where)
            print("survived", where, flush=True)
        else:
            caught += 1
            print("caught  ", where, flush=True)
        private.write_text(original)
    for where in survivors:
        print("SURVIVOR", where)
    total = caught + len(survivors)
    print(f"{caught} of {total} mutants caught ({100 * caught / max(total, 1):.1f} %); {broken} did not compile; "
          f"{len(mutants)} chosen; {(time.monotonic() - begin) / 60:.0f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
