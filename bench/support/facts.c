/* What the system tells about itself. A fact that cannot be read says so: "not readable". */
#include "support/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The first line of a file, without its end; false when there is none. */
static bool first_line(const char *path, char *out, size_t cap) {
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool ok = fgets(out, (int)cap, f) != NULL;
    fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

/* Value of the first line "key ... : value" of /proc/cpuinfo; the caller frees it. */
static char *cpuinfo(const char *key) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    char *line = NULL, *value = NULL;
    size_t cap = 0;
    while (f && !value && getline(&line, &cap, f) > 0) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) || !colon) continue;
        colon += 1 + strspn(colon + 1, " ");
        colon[strcspn(colon, "\n")] = 0;
        value = strdup(colon);
    }
    free(line);
    if (f) fclose(f);
    return value;
}

int bench_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    return CPU_COUNT(&set);
}

uint64_t bench_cache_bytes(int level) {
    char path[96], text[64];
    for (int i = 0; i < 8; i++) {
        char unit = 'K';
        unsigned long n = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!first_line(path, text, sizeof text)) break;
        if (atoi(text) != level) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (first_line(path, text, sizeof text) && !strcmp(text, "Instruction")) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (first_line(path, text, sizeof text) && sscanf(text, "%lu%c", &n, &unit) >= 1)
            return (uint64_t)n * (unit == 'M' ? 1u << 20 : 1u << 10);
    }
    long n = sysconf(level == 1   ? _SC_LEVEL1_DCACHE_SIZE
                     : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                                  : _SC_LEVEL3_CACHE_SIZE);
    return n > 0 ? (uint64_t)n : 0;
}

uint64_t bench_memory_bytes(void) {
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t bench_peak_memory(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}

static void set_file(bench_record *r, const char *key, const char *path) {
    char text[256];
    bench_set_text(r, key, first_line(path, text, sizeof text) && *text ? text : "not readable");
}

static void set_cpuinfo(bench_record *r, const char *key, const char *name, const char *other) {
    char *value = cpuinfo(name);
    if (!value && other) value = cpuinfo(other);
    bench_set_text(r, key, value && *value ? value : "not readable");
    free(value);
}

void bench_machine_facts(bench_record *out) {
    struct utsname u;
    struct timespec tick = {0, 0};
    char text[512], *flags = cpuinfo("flags");
    set_cpuinfo(out, "cpu", "model name", "CPU part");
    set_cpuinfo(out, "flags", "flags", "Features");
    set_cpuinfo(out, "mhz", "cpu MHz", NULL);
    bench_set_number(out, "processors", (double)sysconf(_SC_NPROCESSORS_ONLN));
    bench_set_number(out, "processors_usable", bench_processors());
    set_file(out, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    bench_set_text(out, "hypervisor", flags && strstr(flags, "hypervisor") ? "yes" : "not told");
    free(flags);
    bench_set_number(out, "l1d_bytes", (double)bench_cache_bytes(1));
    bench_set_number(out, "l2_bytes", (double)bench_cache_bytes(2));
    bench_set_number(out, "l3_bytes", (double)bench_cache_bytes(3));
    bench_set_number(out, "memory_bytes", (double)bench_memory_bytes());
    set_file(out, "huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled");
    if (!uname(&u)) {
        snprintf(text, sizeof text, "%s %s %s", u.sysname, u.release, u.machine);
        bench_set_text(out, "kernel", text);
    }
    clock_getres(CLOCK_MONOTONIC, &tick);
    snprintf(text, sizeof text, "CLOCK_MONOTONIC, resolution %ld ns", tick.tv_nsec);
    bench_set_text(out, "clock", text);
}

double bench_load(void) {
    double load[1];
    return getloadavg(load, 1) == 1 ? load[0] : -1;
}

void bench_date(char *out, size_t cap) {
    time_t now = time(NULL);
    struct tm tm;
    strftime(out, cap, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}
