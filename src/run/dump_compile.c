/* How a program came to be: fusion, generated C, times. */
#include "run/program.h"

static const mlsi_generated *generated(const mlsi_program *p, int64_t func) {
    const mlsi_generated *k = p->generated ? &p->generated[func] : NULL;
    return k && (k->made || k->refused || k->no_blocks) ? k : NULL;
}

static void dump_fusion(const mlsi_program *p, mlsi_text *out) {
    if (!p->report.fusion.len) {
        mlsi_text_add(out, "fusion did not run: it is switched off, or nothing makes code\n");
        return;
    }
    mlsi_text_add(out, "%s", p->report.fusion.data);
    for (int64_t f = 0; f < p->graph.n_funcs; f++) {
        const mlsi_generated *k = generated(p, f);
        if (k && k->fn)
            mlsi_text_add(out, "%s: one kernel\n", p->graph.funcs[f].name);
        else if (k && k->run_blocks)
            mlsi_text_add(out, "%s: one kernel in blocks%s%s\n", p->graph.funcs[f].name,
                          k->refused ? ": " : "", k->refused ? k->refused : "");
        else if (k)
            mlsi_text_add(out, "%s: runs as steps: %s%s%s\n", p->graph.funcs[f].name,
                          k->refused ? k->refused : "", k->refused && k->no_blocks ? "; " : "",
                          k->no_blocks ? k->no_blocks : "");
    }
}

static void dump_code(const mlsi_program *p, mlsi_text *out) {
    for (int32_t f = 0; f < p->graph.n_funcs; f++) {
        const mlsi_generated *k = generated(p, f);
        if (k && k->made && k->text.len) mlsi_text_add(out, "%s\n", k->text.data);
    }
}

static void add_time(mlsi_text *out, const char *name, int64_t ns) {
    mlsi_text_add(out, "%-10s %10.3f ms\n", name, (double)ns / 1e6);
}

static void add_rows(const mlsi_program *p, bool late, mlsi_text *out) {
    for (int64_t i = 0; mlsi_pipeline[i].name; i++) {
        const mlsi_pass *row = &mlsi_pipeline[i];
        if (row->late != late) continue;
        if (p->report.pass_ns[i] < 0)
            mlsi_text_add(out, "%-10s        off\n", row->name);
        else
            mlsi_text_add(out, "%-10s %10.3f ms %8lld nodes  %s\n", row->name,
                          (double)p->report.pass_ns[i] / 1e6, (long long)p->report.pass_nodes[i],
                          row->what);
    }
}

static void dump_passes(const mlsi_program *p, mlsi_text *out) {
    add_rows(p, false, out);
    add_time(out, "generate", p->report.generate_ns);
    add_time(out, "load", p->report.load_ns);
    add_rows(p, true, out);
    add_time(out, "lower", p->report.lower_ns);
}

bool mlsi_dump_compiling(const mlsi_program *p, int32_t what, mlsi_text *out) {
    if (what == MLSYS_DUMP_FUSION)
        dump_fusion(p, out);
    else if (what == MLSYS_DUMP_CODE)
        dump_code(p, out);
    else if (what == MLSYS_DUMP_PASSES)
        dump_passes(p, out);
    else
        return false;
    return true;
}
