"""Where tools/mutate.py changes a C++ source: the statements of its backward bodies, and what is done to each."""
import re


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
    """(what is done, where that begins, where it ends)."""
    header = re.compile(r"\s*(?:else\b|(?:if|for|while)\s*(?:constexpr\s*)?\()")
    at = begin
    while (m := header.match(text, at)) and m.end() < end:
        if text[m.end() - 1] == "(":
            close = closing(text, m.end() - 1)
            condition = text[m.end() : close]
            if re.match(r"if\s*\(", m.group().strip()) and "=" not in re.sub(r"[=!<>]=", "", condition):
                yield "condition negated", m.end(), close
            at = close + 1
        else:
            at = m.end()
    body = text[at:end].strip()
    at = text.index(body, at)
    if re.match(r"(?:QUERN_CHECK|using|static_assert|break|continue|switch|case|default)\b|check\w*\(", body) or body in ("", ";"):
        return
    if body.startswith(("constexpr ", "static constexpr ")):
        return
    declaration = re.match(r"(?:alignas\(\w+\)\s*)?(?:const |constexpr |static )?[\w:]+(?:<[^=;]*>)?(?:\s+|\s*[*&]+\s*)\w+\s*(?:=(?!=)|\[|\{|\(|;|,)", body)
    assignment = re.match(r"[^=;(){}]*?(?:\([^=;]*?\)[^=;(){}]*?)?(?<![=!<>])([-+*/]?=)(?!=)", body)
    returned = re.match(r"return\b(?!\s*;)", body)
    if not declaration and not returned:
        yield "deleted", at, end
    if assignment and (declaration or not re.match(r"\w+\s*\(", body)):
        value = at + assignment.end()
        stop = split_top(text[value : end - 1])[0][1] + value
        if not text[value:stop].lstrip().startswith("{"):
            yield "negated", value, stop
    elif returned:
        value = at + returned.end()
        if not text[value:end].lstrip().startswith("{"):
            yield "negated", value, end - 1
    elif call := re.match(r"(?:sink_n|store_n|put|sink|store)\(", body):
        inside = at + call.end()
        parts = split_top(text[inside : closing(text, inside - 1)])
        which = 2 if body.startswith("put") else 1
        if which < len(parts):
            first, last = parts[which]
            yield "negated", inside + first, inside + last
