#include "images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST_BYTES = 1 << 30 }; /* of one file; larger ones are not what this program is for */

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int fail(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    return 0;
}

/* The dims and the bytes of an IDX file of u8 with `rank` axes; zlib reads plain files as they are. */
static int read_idx(const char *folder, const char *name, const char *kind, int rank,
                    uint32_t *dims, uint8_t **out) {
    char path[4096];
    uint8_t head[16];
    uint64_t bytes = 1;
    *out = NULL;
    for (int zipped = 1; zipped >= 0; zipped--) {
        if (snprintf(path, sizeof path, "%s/%s-%s-idx%d-ubyte%s", folder, name, kind, rank,
                     zipped ? ".gz" : "") >= (int)sizeof path)
            return fail(folder, "the path is too long");
        gzFile f = gzopen(path, "rb");
        if (!f) continue;
        unsigned head_bytes = 4 + 4 * (unsigned)rank;
        int ok = gzread(f, head, head_bytes) == (int)head_bytes &&
                 big_endian(head) == 0x800u + (uint32_t)rank;
        for (int d = 0; d < rank && ok; d++) {
            dims[d] = big_endian(head + 4 + 4 * d);
            bytes *= dims[d];
            ok = dims[d] > 0 && bytes <= MOST_BYTES;
        }
        if (ok) *out = malloc(bytes);
        ok = ok && *out && gzread(f, *out, (unsigned)bytes) == (int)bytes;
        gzclose(f);
        return ok ? 1 : fail(path, "not an IDX file of bytes, cut short, or too large");
    }
    return fail(path, "no such file (Debian: apt-get install dataset-fashion-mnist)");
}

int images_read(images *set, const char *folder, const char *name) {
    uint32_t dims[3], count = 0;
    uint8_t *labels = NULL;
    memset(set, 0, sizeof *set);
    int ok = read_idx(folder, name, "images", 3, dims, &set->pixels) &&
             read_idx(folder, name, "labels", 1, &count, &labels);
    if (ok && count != dims[0]) ok = fail(name, "images and labels differ in number");
    if (ok) {
        set->count = dims[0], set->height = dims[1], set->width = dims[2];
        set->labels = malloc(sizeof *set->labels * count);
        if (!set->labels) ok = fail(name, "no memory");
    }
    for (uint32_t i = 0; i < count && ok; i++)
        set->labels[i] = labels[i];
    free(labels);
    if (!ok) images_free(set);
    return ok;
}

void images_free(images *set) {
    free(set->pixels);
    free(set->labels);
    memset(set, 0, sizeof *set);
}
