#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_default(const option_row *r) {
    if (r->number) printf(" (%ld)", *r->number);
    if (r->real) printf(" (%g)", *r->real);
    if (r->text && *r->text && **r->text) printf(" (%s)", *r->text);
}

static void help(const char *program, const char *what, const option_row *rows, int n) {
    printf("usage: %s [options]\n%s\n", program, what);
    for (int i = 0; i < n; i++) {
        printf("  %-18s %s", rows[i].flag, rows[i].help);
        print_default(&rows[i]);
        printf("\n");
    }
}

static int set(const option_row *r, const char *value) {
    char *end = "";
    if (r->text) *r->text = value;
    if (r->number) *r->number = strtol(value, &end, 10);
    if (r->real) *r->real = strtod(value, &end);
    return *value && !*end;
}

int options_parse(int argc, char **argv, const char *what, const option_row *rows, int n) {
    for (int i = 1; i < argc; i++) {
        int k = 0;
        if (!strcmp(argv[i], "--help")) {
            help(argv[0], what, rows, n);
            return 0;
        }
        while (k < n && strcmp(rows[k].flag, argv[i]))
            k++;
        if (k < n && rows[k].on) {
            *rows[k].on = 1;
            continue;
        }
        if (k == n || ++i == argc || !set(&rows[k], argv[i])) {
            fprintf(stderr, "%s: %s: %s (--help lists the options)\n", argv[0],
                    argv[i < argc ? i : argc - 1],
                    k == n ? "unknown option" : "a value is missing or no number");
            return -1;
        }
    }
    return 1;
}

char *options_read_file(const char *path, long *bytes) {
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    errno = f ? 0 : errno;
    if (f && !fseek(f, 0, SEEK_END) && (*bytes = ftell(f)) >= 0) {
        rewind(f);
        p = malloc((size_t)*bytes + 1);
        if (p && fread(p, 1, (size_t)*bytes, f) != (size_t)*bytes) {
            free(p);
            p = NULL;
        }
    }
    if (f) fclose(f);
    if (p)
        p[*bytes] = 0;
    else
        fprintf(stderr, "%s: cannot be read: %s\n", path, strerror(errno));
    return p;
}
