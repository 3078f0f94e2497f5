"""Small wrong changes of C source, a line at a time: what tools/mutate.py plants."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# One for another, both ways.
EXCHANGES = [
    ("MLSI_OP_ADD", "MLSI_OP_SUB"), ("MLSI_OP_MUL", "MLSI_OP_DIV"), ("MLSI_OP_EQ", "MLSI_OP_NE"),
    ("MLSI_OP_LT", "MLSI_OP_LE"), ("MLSI_OP_GT", "MLSI_OP_GE"), ("MLSI_OP_AND", "MLSI_OP_OR"),
    ("MLSI_OP_MAX", "MLSI_OP_MIN"), ("MLSI_OP_SIN", "MLSI_OP_COS"), ("MLSI_OP_SINH", "MLSI_OP_COSH"),
    ("MLSI_OP_FLOOR", "MLSI_OP_TRUNC"), ("MLSI_SCATTER_ADD", "MLSI_SCATTER_SET"), ("MLSI_SCAN_SUM", "MLSI_SCAN_PROD"),
    ("MLSI_SCAN_MAX", "MLSI_SCAN_MIN"), ("add(u", "sub(u"), ("mul(u", "quotient(u"), ("sub(e", "mul(e"),
    ("sub(&e", "mul(&e"), ("sub(&n.e", "mul(&n.e"), ("true", "false"), ("&&", "||"), (" == ", " != "),
    (" < ", " <= "), (" > ", " >= "), (" + ", " - "), ("lhs_batch", "rhs_batch"), ("lhs_contract", "rhs_contract"),
    (".low.", ".high."), ("starts", "stops"), ("strides", "dilations"),
]
# One for another, one way.
REPLACEMENTS = [
    ("MLSI_OP_NEG", "MLSI_OP_COPY"), ("MLSI_OP_NOT", "MLSI_OP_COPY"), ("MLSI_OP_EXP", "MLSI_OP_EXP2"),
    ("MLSI_OP_LOG,", "MLSI_OP_LOG2,"), ("MLSI_OP_SQRT", "MLSI_OP_COPY"), ("MLSI_OP_RSQRT", "MLSI_OP_SQRT"),
    ("MLSI_OP_SIGN", "MLSI_OP_COPY"), ("MLSI_OP_TANH", "MLSI_OP_SIN"), ("MLSI_OP_REDUCE_SUM", "MLSI_OP_REDUCE_MAX"),
    ("MLSI_OP_POW", "MLSI_OP_MUL"), ("MLSI_OP_SIGMOID", "MLSI_OP_TANH"), (" * ", " + "), (" / ", " * "),
    (" % ", " / "), ("INFINITY", "1"), ("INT64_MAX", "1"), ("-INFINITY", "INFINITY"),
    ("one_plus_square(", "one_minus_square("), ("one_minus_square(", "one_plus_square("),
]
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d+|\d+)(?![\w.])")
UNARY_MINUS = re.compile(r"(?<=[\s(,=])-(?=[\w(])")
CONDITION = re.compile(r"\bif \(")
# f(u, a, b) and the like: the last two of the arguments change places.
SWAPPED = re.compile(r"\b(sub|quotient|op|op2|choose|mlsi_emit_2|mlsi_emit_select|binary)\(")
ORDERED = ("MLSI_OP_SUB", "MLSI_OP_DIV", "MLSI_OP_POW", "MLSI_OP_LT", "MLSI_OP_LE", "MLSI_OP_GT", "MLSI_OP_GE",
           "MLSI_OP_MATMUL", "inside", "first_wins")
STATEMENT = re.compile(r"^\s*(?:if \([^;]*\) )?(?:[\w.>\[\]-]+ = [^;{}]+|(?:give|give_mask|give_parameter)\([^;]*\));$")
DECLARED = re.compile(r"^\s*(?:static |const )*(?:int\d*_t|int|bool|mlsi_\w+|mlsys_\w+|double|char|tape|side|request|loop)\b")
# Not rules: error paths, sentences, faults that are planted by name, preprocessing.
SKIPPED = re.compile(r"^\s*#|mlsi_fail\(|memset\(|sizeof|MLSI_TRY\(MLSI_GROW|mlsi_type_text|UNARY_VJP\(name|STEP_VJP\(name|"
                     r"^\s*if \(mlsi_fault\(|^\s*\"|taps > 4096|MLSI_MAX_OPERANDS|, text, |mlsi_dim_text")


@dataclass
class Mutant:
    file: str
    line: int  # from 1
    kind: str
    old: str
    new: str
    function: str
    op: str  # whose rule it is, or the next one's, for what several share; "" behind the last

    def __str__(self):
        head = f"{self.file}:{self.line}: {self.function}: {self.kind}"
        return f"{head}\n    - {self.old.strip()}\n    + {self.new.strip()}"

    def key(self):
        return self.file, self.function, self.old.strip(), self.new.strip()


def masked(text):
    """The source with comments, strings, planted faults and questions after the status blanked, of the same
    length."""
    blank = lambda m: re.sub(r"[^\n]", "\0", m.group())  # noqa: E731
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', blank, text)
    text = re.sub(r"[\w>.-]*\bst [!=]= MLSYS_OK", blank, text)
    return re.sub(r"!?mlsi_fault\(\w+\)(?: \? [^:]* :)?", blank, text)


def argument_list(code, start):
    """[(first, end)] of the arguments of a call whose parenthesis opens before start, or None."""
    depth, first, out = 0, start, []
    for i in range(start, len(code)):
        c = code[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if not depth:
                return out + [(first, i)]
            depth -= 1
        elif c == "," and not depth:
            out.append((first, i))
            first = i + 1
    return None


def changes(line, code):
    """(kind, changed line) of one line; code is the line with what is no code blanked."""

    def put(a, b, text):
        return line[:a] + text + line[b:]

    def each(word):
        boundary = r"\b" if word[0].isalnum() or word[0] == "_" else ""
        end = r"(?!\w)" if word[-1].isalnum() or word[-1] == "_" else ""
        return re.finditer(boundary + re.escape(word) + end, code)

    for a, b in EXCHANGES + [(b, a) for a, b in EXCHANGES] + REPLACEMENTS:
        for m in each(a):
            yield f"{a.strip()} to {b.strip()}", put(m.start(), m.end(), b)
    for m in NUMBER.finditer(code):
        n = m.group()
        if DECLARED.match(line) and code[m.start() - 1] == "[" and re.match(r"\](?:\[\w+\])?(?: =|,|;)", code[m.end():]):
            continue  # the size of an array
        more = {"0": ["1"], "1": ["0"], "2": ["3"]}.get(n, [repr(float(n) * 1.0001) if "." in n else str(int(n) + 1)])
        for text in more:
            yield f"{n} to {text}", put(m.start(), m.end(), text)
    for m in UNARY_MINUS.finditer(code):
        yield "sign dropped", put(m.start(), m.end(), "")
    for m in CONDITION.finditer(code):
        inside = argument_list(code, m.end())
        if inside:
            a, b = inside[0][0], inside[-1][1]
            if not code[a:b].strip("\0 ") or re.fullmatch(r"[^&|]* [!=]= [^&|]*", code[a:b]):
                continue  # the exchange of == and != is the same
            yield "condition turned round", put(a, b, f"!({line[a:b]})")
    for m in re.finditer(r" \? ", code):
        colon = code.find(" : ", m.end())
        end = re.search(r"[;,)]|$", code[colon:]) if colon > 0 else None
        if end:
            a, b = (m.end(), colon), (colon + 3, colon + end.start())
            yield "choice turned round", put(a[0], b[1], f"{line[b[0]:b[1]]} : {line[a[0]:a[1]]}")
    for m in SWAPPED.finditer(code):
        args = argument_list(code, m.end())
        if not args or len(args) < 3:
            continue
        text = code[args[0][0]: args[-1][1]]
        if m.group(1) in ("op", "op2", "mlsi_emit_2", "binary") and not any(o in text.split(",")[1] for o in ORDERED):
            if not (m.group(1) == "binary" and len(args) > 3 and "MLSI_OP_SUB" in code):
                continue
        (a, b), (c, d) = (args[-3], args[-2]) if m.group(1) == "binary" else (args[-2], args[-1])
        yield "operands swapped", put(a, d, f" {line[c:d].strip()}, {line[a:b].strip()}")
    for name in ("negated(&x, ", "mlsi_emit_alive(", "mlsi_emit_unbroadcast(", "kept_visible(", "valid_keys("):
        for m in re.finditer(re.escape(name), code):
            args = argument_list(code, m.end())
            before = re.search(r"(?:int32_t|static) $", code[: m.start()])
            if not args or before:
                continue
            keep = {"mlsi_emit_alive(": 2, "mlsi_emit_unbroadcast(": 1, "kept_visible(": 1, "valid_keys(": 1}.get(name, 0)
            if keep < len(args):
                a, b = args[keep]
                yield "term dropped", put(m.start(), args[-1][1] + 1, line[a:b].strip())
    if STATEMENT.match(line) and not DECLARED.match(line):
        yield "statement dropped", re.match(r"\s*", line).group() + ";"


HEAD = re.compile(r"(?:UNARY_VJP\(|STEP_VJP\(|(?:static )?(?:const )?\w+ (?:\w+ )?\**(?=\w+\())(\w+)")
RULE = re.compile(r"(?:UNARY_VJP\(|mlsys_status mlsi_vjp_)(\w+)")


def place_of(lines, at):
    """The function that line `at` is in, and the op of the first rule at or behind that function's head."""
    head = next((i for i in range(at, -1, -1) if lines[i][:1].isalpha() and HEAD.match(lines[i])), 0)
    m = HEAD.match(lines[head])
    rules = (RULE.match(lines[i]) for i in range(head, len(lines)))
    rule = next((r.group(1) for r in rules if r), "")
    return m.group(1) if m else "", rule if rule not in ("control", "zero") else ""


def mutants_of(path):
    text = path.read_text()
    lines, code = text.split("\n"), masked(text).split("\n")
    file = str(path.relative_to(ROOT))
    for i, line in enumerate(lines):
        if SKIPPED.search(line) or not code[i].strip("\0 "):
            continue
        seen = {line}
        for kind, new in changes(line, code[i]):
            if new not in seen:
                seen.add(new)
                yield Mutant(file, i + 1, kind, line, new, *place_of(lines, i))
