/* Feed a corpus to a fuzz target without libFuzzer: any compiler, any sanitizer, in `make check`.
 * Without arguments the inputs are the files of tests/fuzz/corpus/NAME, NAME from the program's name. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, room = 0, got;
    do {
        if (size == room) {
            room = room ? 2 * room : 4096;
            uint8_t *more = realloc(data, room);
            if (!more) abort();
            data = more;
        }
        got = fread(data + size, 1, room - size, f);
        size += got;
    } while (got > 0);
    fclose(f);
    /* A copy of exactly the size, so that a sanitizer sees every read past the end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    free(data);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

static int replay_folder(const char *folder, int *files) {
    DIR *d = opendir(folder);
    if (!d) {
        perror(folder);
        return 1;
    }
    int bad = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        bad += replay_file(path);
        ++*files;
    }
    closedir(d);
    return bad;
}

int main(int argc, char **argv) {
    int bad = 0, files = argc - 1;
    for (int i = 1; i < argc; i++) bad += replay_file(argv[i]);
    if (argc == 1) {
        char folder[4096];
        const char *name = strstr(argv[0], "replay_");
        snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name ? name + 7 : "");
        bad += replay_folder(folder, &files);
    }
    printf("%d inputs replayed\n", files);
    return bad || files == 0;
}
