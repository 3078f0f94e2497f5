/* Made by bench/golden_logits.py; do not edit. After tokens (7919 i + 1013) mod vocabulary, i <
 * GOLDEN_LENGTH: the best token, its logit, and the logits of tokens (104729 i + 11) mod
 * vocabulary. */
#ifndef BENCH_GOLDEN_LOGITS_H
#define BENCH_GOLDEN_LOGITS_H

#include <stdint.h>

enum { GOLDEN_LENGTH = 24, GOLDEN_PICKS = 16 };

typedef struct golden_logits {
    uint64_t file_bytes; /* tells the model */
    int32_t best;
    float best_logit, picked[GOLDEN_PICKS];
} golden_logits;

static const golden_logits golden[] = {
    {98362432,
     30,
     26.523708f,
     {10.297029f, 18.007252f, 17.512856f, 15.392612f, 19.173630f, 15.977316f, 13.127677f,
      17.506874f, 16.678200f, 14.225691f, 13.902467f, 15.678463f, 14.827990f, 17.058620f,
      14.125608f, 13.986360f}},
    {253113024,
     236743,
     -76.148659f,
     {-105.268295f, -87.428680f, -99.052666f, -92.470444f, -90.770912f, -102.792290f, -105.755623f,
      -106.180511f, -107.688202f, -89.441727f, -102.187248f, -82.868347f, -101.888428f, -93.196251f,
      -99.900169f, -102.193924f}},
};

#endif
