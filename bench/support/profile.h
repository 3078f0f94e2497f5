/* Where the time of a subject goes: the library's own trace, added up by kernel. */
#ifndef BENCH_PROFILE_H
#define BENCH_PROFILE_H

#include "support/program.h"

/* Run `call` once with the context's profiler on and print the kernels that take most. What the
 * trace costs is in the figures: read shares from them, not speeds. */
void bench_profile(bench_program *p, const bench_library *l, int threads, bool (*call)(void *user),
                   void *user);

#endif
