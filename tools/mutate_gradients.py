#!/usr/bin/env python3
"""Mutation score of the gradient rules: how many small wrong changes of them do the gradient suites notice?

    tools/mutate_gradients.py [--count N | --all] [--seed S] [--file PART] [--list] [--out FILE]

Each mutant is one change of one line of src/ir/ops/gradient*.c, src/autodiff/reverse.c or control.c: operands of a
difference swapped, one op for its opposite, a constant moved, a term or a statement dropped, a condition turned
round. The changed file is compiled and linked before the library's archive, then the suites run: first the cases
of the op whose rule it is, then those of all ops of the file. A failing suite, a crash and a timeout kill; a file that does not compile
counts as nothing. Survivors are printed and written to --out, unless tools/equivalent_mutants.txt says why no test
can see them. Fails where the score is below 95 %.

Run it by `make check-mutants`, which builds the suites into a folder of its own ($BUILD)."""

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ["conformance/check_gradients", "unit/check_gradient", "unit/check_gradient_values", "unit/check_gradient_rules",
          "e2e/check_checkpoint", "unit/check_kernel_attention_grad", "conformance/check_programs",
          "unit/check_accumulation", "unit/check_symbolic_windows"]
FILLS = ["pattern", "zero"]  # of variables without a value
EQUIVALENT = ROOT / "tools/equivalent_mutants.txt"
GOAL = 0.95

# ---- what is changed -----------------------------------------------------------------------------

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
                     r"^\s*\"|taps > 4096|MLSI_MAX_OPERANDS|, text, |mlsi_dim_text")


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


# For the walk and for what all rules use: ops of every kind of rule, with and without decomposition.
MIXED = "add,div,select,clamp,gelu,concat,sort,layer_norm,matmul,adam_step,scatter,gather,dynamic_slice,embedding"


def family_of(file):
    """The ops whose rules a file holds, and those that are differentiated through these."""
    ops = re.findall(r"^" + RULE.pattern, (ROOT / file).read_text(), re.M)
    more = {"dot_general": ["matmul"], "erf": ["gelu"], "pool": ["pool_grad"], "attention": ["attention_grad"]}
    ops = [o for op in ops for o in [op, *more.get(op, [])]]
    return MIXED if file.startswith("src/autodiff") or "zero" in ops else ",".join(ops)


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


def all_mutants():
    files = sorted((ROOT / "src/ir/ops").glob("gradient*.c"))
    files += [ROOT / "src/autodiff/reverse.c", ROOT / "src/autodiff/control.c"]
    return [m for f in files for m in mutants_of(f)]


# ---- running -------------------------------------------------------------------------------------


class Workshop:
    """Compiles one changed file and links the suites with it. Sources and suites are those of the start."""

    def __init__(self, out, files):
        self.out, self.dir = out, out / "mutants"
        self.dir.mkdir(exist_ok=True)
        self.compile, self.link, self.text, self.object = {}, {}, {}, {}
        for file in files:
            self.text[file] = (ROOT / file).read_text()
            name = file.removeprefix("src/").removesuffix(".c").replace("/", "-")
            self.compile[file] = self.no_dep(self.command(out / "obj" / (name + ".o"), file))
            for fill in FILLS:
                self.object[file, fill] = str(self.dir / f"{name}.{fill}.o")
                self.run_or_die(self.compilation(file, file, self.object[file, fill], fill))
        for suite in SUITES:
            self.link[suite] = self.command(f"{out}/tests/{suite}", f"tests/{suite}.c")
            obj = self.dir / (suite.replace("/", "-") + ".o")
            words = self.link[suite]
            source = words.index(f"tests/{suite}.c")
            front = [w for w in words[:source] if w not in ("-MMD", "-MP")]
            self.run_or_die([w for w in self.no_dep(front)] + ["-c", f"tests/{suite}.c", "-o", str(obj)])
            after = words[source + 1:]
            self.link[suite] = [words[0], str(obj), "MUTANT", *after]
        self.limit = 60

    @staticmethod
    def no_dep(words):
        out, skip = [], False
        for w in words:
            if w in ("-MF", "-MT"):
                skip = True
            elif skip:
                skip = False
            elif w not in ("-MMD", "-MP"):
                out.append(w)
        return out

    @staticmethod
    def run_or_die(words):
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"mutants: {' '.join(words)}\n{done.stderr}")

    def command(self, target, source):
        """The compiler's command line that make has for a target."""
        make = os.environ.get("MAKE", "make").split()[0]
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        done = subprocess.run([make, "-n", "V=1", "CUDA=0", f"BUILD={self.out.parent.relative_to(ROOT)}", "-W", source,
                               os.path.relpath(target, ROOT)], cwd=ROOT, capture_output=True, text=True, env=env)
        joined = done.stdout.replace("\\\n", " ")
        for line in joined.splitlines():
            words = line.split()
            if source in words:
                return words
        sys.exit(f"mutants: make has no command for {target}\n{done.stdout}{done.stderr}")

    def compilation(self, file, source, obj, fill):
        """Indices are checked, and variables without a value get one, so that what reaches too far goes wrong."""
        words = [str(source) if w == file else w for w in self.compile[file]]
        words[words.index("-o") + 1] = str(obj)
        checks = ["-fsanitize=bounds", "-fsanitize-undefined-trap-on-error", f"-ftrivial-auto-var-init={fill}", "-w"]
        return [words[0], *checks, *words[1:]]

    def build(self, mutant, fill):
        """The suites' programs, or None where the file does not compile."""
        source, obj = self.dir / "mutant.c", self.dir / "mutant.o"
        text = self.text[mutant.file].split("\n")
        text[mutant.line - 1] = mutant.new
        source.write_text("\n".join(text))
        if subprocess.run(self.compilation(mutant.file, source, obj, fill), cwd=ROOT, capture_output=True).returncode:
            return None
        objects = [str(obj), *(o for (file, f), o in self.object.items() if file != mutant.file and f == fill)]
        programs = []
        for suite, words in self.link.items():
            program = self.dir / suite.replace("/", "-")
            at = words.index("MUTANT")
            words = [*words[:at], *objects, *words[at + 1:]]
            words[words.index("-o") + 1] = str(program)
            self.run_or_die(words)
            programs.append(program)
        return programs

    def passes(self, program, ops="", limit=600):
        env = dict(os.environ, CK_VERBOSITY="silent", CK_FORK="no", MALLOC_PERTURB_="165")
        if ops:
            env["MLSYS_TEST_OP"] = ops
        cap = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # noqa: E731
        child = subprocess.Popen([str(program)], cwd=ROOT, env=env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=cap)
        try:
            return child.wait(limit) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()

    def kills(self, mutant):
        """killed, survived or broken."""
        family = family_of(mutant.file)
        for fill in FILLS:
            programs = self.build(mutant, fill)
            if programs is None:
                return "broken"
            runs = [(programs[0], mutant.op), *((p, "") for p in programs[1:]), (programs[0], family)]
            if not mutant.op or mutant.op == family:
                runs = runs[1:]
            if not all(self.passes(*r, self.limit) for r in runs):
                return "killed"
        return "survived"


def equivalents():
    """{Mutant.key(): reason} of tools/equivalent_mutants.txt: blocks of "file function", - old, + new, = reason."""
    out, block = {}, {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        mark, text = line[:2], line[2:].strip()
        if line.startswith("src/"):
            block = {"place": line.split()}
        elif mark in ("- ", "+ "):
            block[mark[0]] = text
        elif mark == "= ":
            out[(*block["place"], block["-"], block["+"])] = text
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--all", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--file", default="")
    p.add_argument("--list", action="store_true")
    p.add_argument("--again", help="run the mutants of this file (as --out wrote it) only")
    p.add_argument("--out", default="")
    args = p.parse_args()
    everything, known = all_mutants(), equivalents()
    mutants = [m for m in everything if args.file in m.file]
    if args.list:
        print("\n".join(map(str, mutants)))
        return print(f"{len(mutants)} mutants") or 0
    out = ROOT / os.environ.get("BUILD", "build-mutants") / "release"
    chosen = mutants if args.all else random.Random(args.seed).sample(mutants, min(args.count, len(mutants)))
    if args.again:
        text = Path(args.again).read_text()
        chosen = [m for m in mutants if re.sub(r":\d+:", ":", str(m), count=1) in re.sub(r":\d+:", ":", text)]
    shop = Workshop(out, sorted({m.file for m in everything}))
    start = time.time()
    for suite in SUITES:
        if not shop.passes(out / "tests" / suite):
            sys.exit(f"mutants: {suite} fails without any")
    shop.limit = max(30, 4 * (time.time() - start))
    counts = {"killed": 0, "survived": 0, "broken": 0, "equivalent": 0}
    survivors, start = [], time.time()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    report = open(args.out or out / "mutants" / "survivors.txt", "w")
    print(f"{len(chosen)} of {len(everything)} mutants, seed {args.seed}")
    try:
        for n, m in enumerate(chosen):
            verdict = "equivalent" if m.key() in known else shop.kills(m)
            counts[verdict] += 1
            if verdict == "survived":
                survivors.append(m)
                print(f"{m}\n", file=report, flush=True)
            print(f"{n + 1:4} {time.time() - start:6.0f} s  {verdict:10} {m.file}:{m.line}: {m.kind}", flush=True)
    except (KeyboardInterrupt, SystemExit):
        print(f"stopped behind {sum(counts.values())} of them; a random sample too")
    judged = counts["killed"] + counts["survived"]
    score = counts["killed"] / judged if judged else 1
    print("\n".join(["", "survivors:", *map(str, survivors), ""]))
    print(f"seed {args.seed}: {counts['killed']} of {judged} killed, {100 * score:.1f} %; {counts['equivalent']} equivalent, "
          f"{counts['broken']} do not compile")
    return 0 if score >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
