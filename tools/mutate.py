#!/usr/bin/env python3
"""Mutation score: how many small wrong changes of the sources of an area do the area's suites notice?

    tools/mutate.py [--area gradients|compiler] [--count N | --all] [--seed S] [--file REGEX] [--jobs J] [--list]
                    [--again FILE] [--out FILE]

Areas: gradients = the gradient rules and the walk over them; compiler = passes, index algebra, loop IR with its
prover and schedules, and the checker of certificates.

Each mutant is one change of one line (tools/mutants.py): operands of a difference swapped, one op for its opposite,
a constant moved, a term or a statement dropped, a condition turned round. The changed file is compiled and linked
before the library's archive, then the suites run until one notices. A failing suite, a crash and a timeout kill; a
file that does not compile counts as nothing. Survivors are printed and written to --out, unless
tools/equivalent_mutants.txt says why no test can see them. Fails where the score is below 95 %.

Run it by `make check-mutants`, which builds the suites into a folder of its own ($BUILD)."""

import argparse
import os
import queue
import random
import re
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants import ROOT, RULE, mutants_of

EQUIVALENT = ROOT / "tools/equivalent_mutants.txt"
GOAL = 0.95

# ---- areas ---------------------------------------------------------------------------------------

# For the walk and for what all rules use: ops of every kind of rule, with and without decomposition.
MIXED = "add,div,select,clamp,gelu,concat,sort,layer_norm,matmul,adam_step,scatter,gather,dynamic_slice,embedding"


def family_of(file):
    """The ops whose rules a file holds, and those that are differentiated through these."""
    ops = re.findall(r"^" + RULE.pattern, (ROOT / file).read_text(), re.M)
    more = {"dot_general": ["matmul"], "erf": ["gelu"], "pool": ["pool_grad"], "attention": ["attention_grad"]}
    ops = [o for op in ops for o in [op, *more.get(op, [])]]
    return MIXED if file.startswith("src/autodiff") or "zero" in ops else ",".join(ops)


class Gradients:
    SUITES = ["conformance/check_gradients", "unit/check_gradient", "unit/check_gradient_values",
              "unit/check_gradient_rules", "e2e/check_checkpoint", "unit/check_kernel_attention_grad",
              "conformance/check_programs", "unit/check_accumulation", "unit/check_symbolic_windows"]
    FILLS = ["pattern", "zero"]  # of variables without a value
    FILES = ["src/ir/ops/gradient*.c", "src/autodiff/reverse.c", "src/autodiff/control.c"]

    @staticmethod
    def runs(mutant, programs):
        """(program, ops): first the cases of the op whose rule it is, at last those of all ops of the file."""
        family = family_of(mutant.file)
        own = [(programs[0], mutant.op)] if mutant.op and mutant.op != family else []
        return [*own, *((p, "") for p in programs[1:]), (programs[0], family)]


class Compiler:
    # What judges a file: its own suites, the quick ones first. The first row whose pattern is in the file's name counts.
    NESTS = ["unit/check_nest", "unit/check_nest_text", "unit/check_prove", "unit/check_proof_draws"]
    LOWERING = ["unit/check_lower", "unit/check_invariant", *NESTS, "unit/check_proof_nests", "unit/check_nest_maps",
                "conformance/check_loop_values", "conformance/check_loops"]
    SCHEDULES = ["unit/check_schedule_box", "unit/check_schedule", "unit/check_schedule_space", "unit/check_proof_draws",
                 "unit/check_schedule_random"]
    PROOFS = ["unit/check_proof_rules", "unit/check_proof_plan", "unit/check_proof_nests", "unit/check_proof_draws",
              "unit/check_proof", "unit/check_hoist", "unit/check_fuse", "unit/check_passes", "oom/check_proof_oom"]
    PASSES = ["unit/check_fuse_report", "unit/check_narrow", "unit/check_layout", "unit/check_hoist",
              "unit/check_proof_rules", "unit/check_proof", "unit/check_fuse",
              "unit/check_passes", "conformance/check_passes_off"]
    DIMS = ["unit/check_dims", "unit/check_dims_limits", *NESTS, "unit/check_schedule", "unit/check_proof_nests",
            "unit/check_nest_maps", "conformance/check_loops"]
    PROVER = ["unit/check_prove", "unit/check_nest_maps", "unit/check_proof_draws", "unit/check_schedule",
              "unit/check_schedule_space", "conformance/check_loops", "unit/check_schedule_random"]
    TEXT = ["unit/check_nest", "unit/check_nest_text", "unit/check_lower", "conformance/check_loop_text",
            "conformance/check_loop_values", "conformance/check_loops"]
    JUDGES = [("src/ir/proof/", PROOFS), ("src/ir/passes/", PASSES), ("src/ir/graph/", DIMS),
              ("loop/schedule", SCHEDULES), ("loop/prove", PROVER), ("loop/(lower|invariant)", LOWERING),
              ("loop/", [*TEXT, "unit/check_schedule_random"])]
    SUITES = sorted({s for _, suites in JUDGES for s in suites})
    FILLS = ["pattern"]
    FILES = ["src/ir/passes/*.c", "src/ir/proof/*.c", "src/ir/graph/dims*.c", "src/ir/loop/*.c"]

    @staticmethod
    def runs(mutant, programs):
        return [(p, "") for p in next(s for part, s in Compiler.JUDGES if re.search(part, mutant.file))]


AREAS = {"gradients": Gradients, "compiler": Compiler}


def all_mutants(area):
    files = sorted({f for pattern in area.FILES for f in ROOT.glob(pattern)})
    return [m for f in files for m in mutants_of(f)]


# ---- running -------------------------------------------------------------------------------------


class Workshop:
    """Compiles one changed file and links the suites with it. Sources and suites are those of the start."""

    def __init__(self, area, out, files):
        self.area, self.out, self.dir = area, out, out / "mutants"
        self.dir.mkdir(exist_ok=True)
        self.compile, self.link, self.text, self.object = {}, {}, {}, {}
        for file in files:
            self.text[file] = (ROOT / file).read_text()
            name = file.removeprefix("src/").removesuffix(".c").replace("/", "-")
            self.compile[file] = self.no_dep(self.command(out / "obj" / (name + ".o"), file))
            for fill in area.FILLS:
                self.object[file, fill] = str(self.dir / f"{name}.{fill}.o")
                self.run_or_die(self.compilation(file, file, self.object[file, fill], fill))
        for suite in area.SUITES:
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

    def objects(self, mutant, fill, room):
        """The objects of all files, this one changed, or None where it does not compile."""
        source, obj = room / "mutant.c", room / "mutant.o"
        text = self.text[mutant.file].split("\n")
        text[mutant.line - 1] = mutant.new
        source.write_text("\n".join(text))
        if subprocess.run(self.compilation(mutant.file, source, obj, fill), cwd=ROOT, capture_output=True).returncode:
            return None
        return [str(obj), *(o for (file, f), o in self.object.items() if file != mutant.file and f == fill)]

    def program(self, suite, objects, room):
        program = room / suite.replace("/", "-")
        words = self.link[suite]
        at = words.index("MUTANT")
        words = [*words[:at], *objects, *words[at + 1:]]
        words[words.index("-o") + 1] = str(program)
        self.run_or_die(words)
        return program

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

    def kills(self, mutant, room):
        """killed, survived or broken. Programs are linked when their turn comes: most mutants die early."""
        for fill in self.area.FILLS:
            objects = self.objects(mutant, fill, room)
            if objects is None:
                return "broken"
            linked = {}
            for suite, ops in self.area.runs(mutant, self.area.SUITES):
                if suite not in linked:
                    linked[suite] = self.program(suite, objects, room)
                if not self.passes(linked[suite], ops, self.limit):
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


def judge(shop, mutants, jobs, report):
    """{verdict: number} and the survivors, in the mutants' order; `jobs` at once, each in a room of its own."""
    known, rooms = equivalents(), queue.Queue()
    for k in range(jobs):
        (shop.dir / f"room{k}").mkdir(exist_ok=True)
        rooms.put(shop.dir / f"room{k}")
    counts, survivors, start = {"killed": 0, "survived": 0, "broken": 0, "equivalent": 0}, [], time.time()

    def one(m):
        if m.key() in known:
            return "equivalent"
        room = rooms.get()
        try:
            return shop.kills(m, room)
        finally:
            rooms.put(room)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for n, (m, verdict) in enumerate(zip(mutants, pool.map(one, mutants))):
                counts[verdict] += 1
                if verdict == "survived":
                    survivors.append(m)
                    print(f"{m}\n", file=report, flush=True)
                print(f"{n + 1:4} {time.time() - start:6.0f} s  {verdict:10} {m.file}:{m.line}: {m.kind}", flush=True)
        except (KeyboardInterrupt, SystemExit):
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"stopped behind {sum(counts.values())} of them; a random sample too")
    return counts, survivors


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--area", choices=sorted(AREAS), default="gradients")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--all", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--file", default="", help="regular expression: only of the files that it is found in")
    p.add_argument("--jobs", type=int, default=2, help="mutants that are judged at once")
    p.add_argument("--list", action="store_true", help="print the mutants")
    p.add_argument("--suites", action="store_true", help="print the area's suites")
    p.add_argument("--again", help="run the mutants of this file (as --out wrote it) only")
    p.add_argument("--out", default="")
    return p.parse_args()


def main():
    args = arguments()
    area = AREAS[args.area]
    if args.suites:
        return print("\n".join(area.SUITES)) or 0
    everything = all_mutants(area)
    mutants = [m for m in everything if re.search(args.file, m.file)]
    if args.list:
        print("\n".join(map(str, mutants)))
        return print(f"{len(mutants)} mutants") or 0
    out = ROOT / os.environ.get("BUILD", "build-mutants") / "release"
    chosen = mutants if args.all else random.Random(args.seed).sample(mutants, min(args.count, len(mutants)))
    if args.again:
        text = Path(args.again).read_text()
        chosen = [m for m in mutants if re.sub(r":\d+:", ":", str(m), count=1) in re.sub(r":\d+:", ":", text)]
    shop = Workshop(area, out, sorted({m.file for m in everything}))
    start = time.time()
    for suite in area.SUITES:
        if not shop.passes(out / "tests" / suite):
            sys.exit(f"mutants: {suite} fails without any")
    shop.limit = max(30, 4 * (time.time() - start))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    print(f"{len(chosen)} of {len(everything)} mutants, seed {args.seed}", flush=True)
    with open(args.out or out / "mutants" / "survivors.txt", "w") as report:
        counts, survivors = judge(shop, chosen, args.jobs, report)
    judged = counts["killed"] + counts["survived"]
    score = counts["killed"] / judged if judged else 1
    print("\n".join(["", "survivors:", *map(str, survivors), ""]))
    print(f"{args.area}, seed {args.seed}: {counts['killed']} of {judged} killed, {100 * score:.1f} %; "
          f"{counts['equivalent']} equivalent, {counts['broken']} do not compile")
    return 0 if score >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
