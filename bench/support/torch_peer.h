/* bench/compiler_torch.py as a peer that stays: asked for one sample at a time over two pipes, so that samples of ours and of
 * the peer alternate though they come from two processes. */
#ifndef BENCH_TORCH_PEER_H
#define BENCH_TORCH_PEER_H

#include "support/harness.h"

#include <stdio.h>

typedef struct torch_peer {
    int pid;
    FILE *to, *from;
    char settings[BENCH_TEXT]; /* versions, as the peer tells them */
    char names[BENCH_TEXT];    /* of the compilers that it has: "torch.compile onnxruntime" */
} torch_peer;

/* Start `python SCRIPT`; false, with a line on standard error, when it does not answer. */
bool torch_peer_open(torch_peer *p, const char *python, const char *script);
/* Ask and read the answer's words after "ok"; false when it begins with anything else, which then is the answer. */
bool torch_peer_ask(torch_peer *p, char *answer, size_t cap, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void torch_peer_close(torch_peer *p);

#endif
