#!/usr/bin/env python3
"""Reports of the benches as Markdown tables.

    tables.py REPORT.json...                      print them
    tables.py --write docs/bench.md REPORT.json... put them between the page's markers"""

import json
import sys

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def machine(report):
    m, run = report["machine"], report["run"]
    mb = {k: m[k + "_bytes"] for k in ("l1d", "l2", "l3")}
    return (f"{m['cpu']} ({m['mhz']} MHz told, governor {m['governor']}, hypervisor: {m['hypervisor']}), "
            f"{m['processors_usable']} of {m['processors']} processors, L1d {mb['l1d'] >> 10} KiB, L2 {mb['l2'] >> 10} KiB, "
            f"L3 {mb['l3'] >> 20} MiB, {m['memory_bytes'] / 2**30:.0f} GiB, {m['kernel'].split('-')[0]}. "
            f"{run['build_info']}. Commit {run['commit']}, {run['date']}, seed {run['seed']}.")


def quality(report):
    run = report["run"]
    words = run["arguments"].split()
    if "--output" in words:
        at = words.index("--output")
        words[at : at + 2] = []
    return (f"`{' '.join([run['program'], *words])}`: {run['time']}; load {run['load_before']:.1f} before, "
            f"{run['load_after']:.1f} after; at the end FMA peak {100 * run['drift_fma']:.0f} %, memory read "
            f"{100 * run['drift_read']:.0f} % of the beginning.")


def limits(report):
    found, threads = {}, set()
    for r in report["limits"]:
        unit = "GF/s" if r["unit"] == "flop/s" else "GB/s"
        found.setdefault((r["name"], unit), {})[r["threads"]] = r["best"] * 1e-9
        threads.add(r["threads"])
    threads = sorted(threads)
    rows = [[name, *(f"{found[name, unit].get(t, 0):.1f}" for t in threads), unit] for name, unit in found]
    return table(["limit", *(f"{t} thread{'s' * (t > 1)}" for t in threads), ""], rows)


def llm_rows(report):
    peers = {(c["name"], c["threads"]): c for c in report["comparisons"]}
    for r in report["results"]:
        c = peers.get((r["name"], r["threads"]), {})
        if r["verdict"] != "pass":
            yield [r["name"], str(r["threads"]), "wrong: no time", "", "", "", "", ""]
            continue
        tokens = r["tokens"]
        low, high = tokens / r["high"], tokens / r["low"]
        yield [r["name"], str(r["threads"]), f"{r['tokens_s']:.1f} [{low:.1f}, {high:.1f}]",
               f"{r['flops_per_token'] * 1e-9:.3f} / {r['bytes_per_token'] * 1e-6:.1f}",
               f"{r['bandwidth_percent']:.0f} %", f"{r['fma_percent']:.0f} %",
               f"{c['median_peer']:.1f}" if c else "-",
               f"**{c['median']:.2f}** [{c['low']:.2f}, {c['high']:.2f}]" if c else "-"]


def op_rows(report):
    for r in report["results"]:
        where = [r["name"], f"{r['boundary']}, {r['cache']}, {r['threads']}"]
        if r["verdict"] != "pass":
            yield [*where, "wrong: no time", "", "", "", ""]
            continue
        spread = 50 * (r["q3"] - r["q1"]) / r["median"]
        extra = [f"{r['gflops']:.1f}", f"{r['gbytes_s']:.1f}", f"{r['roof_percent']:.0f} % of {r['roof']}"] if "gflops" in r else ["", "", ""]
        yield [*where, f"{r['median'] * 1e6:.1f} +- {spread:.0f} %", f"{r['p95'] * 1e6:.1f}", *extra]


def comparison_rows(report):
    for c in report["comparisons"]:
        yield [c["name"], str(c["threads"]), f"{c['ours']} / {c['peer']}",
               f"{c['median']:.3f} [{c['low']:.3f}, {c['high']:.3f}]" if c["verdict"] == "pass" else "none: wrong"]


def compiler_rows(report):
    peers = {}
    for c in report["comparisons"]:
        peers.setdefault((c["name"], c["threads"]), []).append(c)
    for r in report["results"]:
        where = [r["name"], r["shape"], str(r["threads"])]
        if r["verdict"] != "pass":
            yield [*where, "wrong: no time", "", "", "", "", ""]
            continue
        timed = [c for c in peers.get((r["name"], r["threads"]), []) if c["verdict"] == "pass"]
        best = min(timed, key=lambda c: c["median"], default=None)
        yield [*where, f"{r['median'] * 1e3:.2f}", f"{r['bandwidth_percent']:.0f} %",
               f"{r['kernels_before']} to {r['kernels_after']}",
               f"{r['bytes_before'] * 1e-6:.0f} to {r['bytes_after'] * 1e-6:.0f}",
               f"{best['peer']} {best['median_peer'] * 1e3:.2f}" if best else "-",
               f"**{best['median']:.2f}** [{best['low']:.2f}, {best['high']:.2f}]" if best else "-"]


def section(report):
    name = report["run"]["program"]
    parts = [f"### {name}", quality(report)]
    if name == "bench_llm":
        parts.append(table(["model, test, numerics", "threads", "tokens/s [95 %]", "GFLOP / MB a token", "of bandwidth",
                            "of FMA", "llama.cpp", "ratio [95 %]"], llm_rows(report)))
        settings = sorted({c["peer_settings"] for c in report["comparisons"]})
        parts += ["Peer: " + "; ".join(settings) + "."] if settings else []
    elif name == "bench_compiler":
        parts.append(table(["subgraph", "rows x columns", "threads", "ms", "of bandwidth", "kernels", "MB", "best peer, ms",
                            "its time / ours [95 %]"], compiler_rows(report)))
        settings = sorted({c["peer_settings"] for c in report["comparisons"]})
        parts += ["Peer: " + "; ".join(settings) + "."] if settings else []
    else:
        parts.append(table(["subject", "boundary, cache, threads", "us", "p95", "GF/s", "GB/s", "roof"], op_rows(report)))
        if report["comparisons"]:
            parts.append(table(["pair", "threads", "of", "ratio of seconds, second / first [95 %]"], comparison_rows(report)))
    return "\n\n".join(parts)


def main(arguments):
    page = None
    if arguments[:1] == ["--write"]:
        page, arguments = arguments[1], arguments[2:]
    if not arguments:
        return __doc__
    reports = []
    for path in arguments:
        with open(path, encoding="utf-8") as f:
            reports.append(json.load(f))
    text = "\n\n".join([machine(reports[0]), limits(reports[0]), *map(section, reports)])
    if not page:
        print(text)
        return 0
    with open(page, encoding="utf-8") as f:
        before, rest = f.read().split(BEGIN)
    with open(page, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
