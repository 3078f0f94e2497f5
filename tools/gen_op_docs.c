/* Write a Markdown page per op, from the text that the library itself answers, and an index.
 *     gen_op_docs FOLDER            write FOLDER/<op>.md and FOLDER/README.md
 *     gen_op_docs FOLDER --check    fail when a page is not what would be written */
#include <mlsys/mlsys.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *why) {
    fprintf(stderr, "gen_op_docs: %s: %s\n", what, why);
    return 1;
}

/* The schema of op, or the list of ops for NULL; the caller frees it. */
static char *ask(const char *op) {
    uint64_t need = 0;
    mlsys_status st =
        op ? mlsys_op_schema(NULL, op, NULL, 0, &need) : mlsys_op_list(NULL, NULL, 0, &need);
    if (st != MLSYS_OK && st != MLSYS_E_BUFFER) return NULL;
    char *text = malloc(need + 1);
    if (!text) return NULL;
    st = op ? mlsys_op_schema(NULL, op, text, need, &need) : mlsys_op_list(NULL, text, need, &need);
    if (st == MLSYS_OK) return text;
    free(text);
    return NULL;
}

static bool same_as_file(const char *path, const char *text) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    size_t n = strlen(text), got;
    char *old = malloc(n + 2);
    got = old ? fread(old, 1, n + 1, f) : 0;
    bool same = old && got == n && memcmp(old, text, n) == 0;
    free(old);
    fclose(f);
    return same;
}

static int put(const char *folder, const char *name, const char *text, bool check) {
    char path[512];
    if (snprintf(path, sizeof path, "%s/%s.md", folder, name) >= (int)sizeof path)
        return fail(folder, "path too long");
    if (same_as_file(path, text)) return 0;
    if (check) return fail(path, "not up to date: run make docs");
    FILE *f = fopen(path, "wb");
    if (!f) return fail(path, "cannot be written");
    bool bad = fputs(text, f) < 0;
    bad |= fclose(f) != 0;
    return bad ? fail(path, "could not be written whole") : 0;
}

/* The page of op and its line in the index; the number of faults. */
static int write_op(const char *folder, const char *op, bool check, FILE *list) {
    char *page = ask(op);
    if (!page) return fail(op, mlsys_last_error());
    int bad = put(folder, op, page, check);
    fprintf(list, "- [%s](%s.md)\n", op, op);
    free(page);
    return bad;
}

int main(int argc, char **argv) {
    if (argc < 2) return fail("usage", "gen_op_docs FOLDER [--check]");
    bool check = argc > 2 && strcmp(argv[2], "--check") == 0;
    char *names = ask(NULL), *index = NULL, *save = NULL;
    size_t index_size = 0;
    int bad = 0, n = 0;
    FILE *list = open_memstream(&index, &index_size);
    if (!names || !list) return fail("list of ops", mlsys_last_error());
    fputs("# Ops\n\nOne page per op, written by `make docs` from the op table.\n\n", list);
    for (char *op = strtok_r(names, "\n", &save); op; op = strtok_r(NULL, "\n", &save), n++)
        bad += write_op(argv[1], op, check, list);
    bad += write_op(argv[1], "custom", check, list); /* the list names the custom ops themselves */
    n++;
    if (fclose(list) != 0) return fail("index", "out of memory");
    bad += put(argv[1], "README", index, check);
    free(index);
    free(names);
    if (!bad) printf("op docs: %d pages %s\n", n, check ? "up to date" : "written");
    return bad != 0;
}
