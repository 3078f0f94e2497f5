/* Kernels whose schedules the tuner has to find: bodies of IR text, and schedules written by hand (docs/schedules.md), which
 * name the loops of the nests that --print shows. */
#ifndef TUNE_SHAPES_H
#define TUNE_SHAPES_H

enum { TUNE_HANDS = 8 };

typedef struct tune_shape {
    const char *name, *ir, *caller;    /* bodies of the kernel's function, of main */
    const char *hands[TUNE_HANDS + 1]; /* ended by NULL; the default takes part as well */
} tune_shape;

static const tune_shape tune_shapes[] = {
    {"softmax, short rows",
     "%0 = input \"x0\" : f32[16384,64]\n"
     "%1 = mul(%0, %0) : f32[16384,64]\n"
     "%2 = reduce_max(%1) {axes=[1], keep=true} : f32[16384,1]\n"
     "%3 = sub(%1, %2) : f32[16384,64]\n"
     "%4 = exp(%3) : f32[16384,64]\n"
     "%5 = reduce_sum(%4) {axes=[1], keep=true} : f32[16384,1]\n"
     "%6 = div(%4, %5) : f32[16384,64]\n"
     "output \"y\" %6\n",
     "%0 = input \"x0\" : f32[16384,64]\n"
     "%1 = call(%0) {fn1=1} : f32[16384,64]\n"
     "output \"y\" %1\n",
     {"split(i_0, 64) -> a, b; parallel(a); vectorize(k_1); vectorize(k_2); vectorize(j_3);",
      "split(i_0, 16) -> a, b; parallel(a); vectorize(k_1); vectorize(k_2); vectorize(j_3);",
      "split(i_0, 256) -> a, b; cache_read(in0, b); parallel(a); vectorize(k_1); vectorize(k_2); "
      "vectorize(j_3);",
      NULL}},
    {"softmax, long rows",
     "%0 = input \"x0\" : f32[256,8192]\n"
     "%1 = mul(%0, %0) : f32[256,8192]\n"
     "%2 = reduce_max(%1) {axes=[1], keep=true} : f32[256,1]\n"
     "%3 = sub(%1, %2) : f32[256,8192]\n"
     "%4 = exp(%3) : f32[256,8192]\n"
     "%5 = reduce_sum(%4) {axes=[1], keep=true} : f32[256,1]\n"
     "%6 = div(%4, %5) : f32[256,8192]\n"
     "output \"y\" %6\n",
     "%0 = input \"x0\" : f32[256,8192]\n"
     "%1 = call(%0) {fn1=1} : f32[256,8192]\n"
     "output \"y\" %1\n",
     {"split(i_0, 4) -> a, b; parallel(a); vectorize(k_1); vectorize(k_2); vectorize(j_3);",
      "parallel(i_0); vectorize(k_1); vectorize(k_2); split(j_3, 256) -> c, d; vectorize(d);",
      NULL}},
    {"layer norm, residual",
     "%0 = input \"x0\" : f32[2048,768]\n"
     "%1 = input \"x1\" : f32[2048,768]\n"
     "%2 = input \"x2\" : f32[768]\n"
     "%3 = input \"x3\" : f32[768]\n"
     "%4 = full() {dtype=f32, shape=[], value=768} : f32[]\n"
     "%5 = full() {dtype=f32, shape=[], value=0.001} : f32[]\n"
     "%6 = add(%0, %1) : f32[2048,768]\n"
     "%7 = reduce_sum(%6) {axes=[1], keep=true} : f32[2048,1]\n"
     "%8 = div(%7, %4) : f32[2048,1]\n"
     "%9 = sub(%6, %8) : f32[2048,768]\n"
     "%10 = mul(%9, %9) : f32[2048,768]\n"
     "%11 = reduce_sum(%10) {axes=[1], keep=true} : f32[2048,1]\n"
     "%12 = div(%11, %4) : f32[2048,1]\n"
     "%13 = add(%12, %5) : f32[2048,1]\n"
     "%14 = rsqrt(%13) : f32[2048,1]\n"
     "%15 = mul(%9, %14) : f32[2048,768]\n"
     "%16 = mul(%15, %2) : f32[2048,768]\n"
     "%17 = add(%16, %3) : f32[2048,768]\n"
     "output \"y\" %17\n",
     "%0 = input \"x0\" : f32[2048,768]\n"
     "%1 = input \"x1\" : f32[2048,768]\n"
     "%2 = input \"x2\" : f32[768]\n"
     "%3 = input \"x3\" : f32[768]\n"
     "%4 = call(%0, %1, %2, %3) {fn1=1} : f32[2048,768]\n"
     "output \"y\" %4\n",
     {"split(i_0, 16) -> a, b; parallel(a); vectorize(k_1); vectorize(k_2); vectorize(j_3);",
      "split(i_0, 64) -> a, b; parallel(a); vectorize(k_1); vectorize(k_2); vectorize(j_3);",
      NULL}},
    {"rms norm, gate",
     "%0 = input \"x0\" : f32[4096,576]\n"
     "%1 = input \"x1\" : f32[576]\n"
     "%2 = full() {dtype=f32, shape=[], value=576} : f32[]\n"
     "%3 = full() {dtype=f32, shape=[], value=0.001} : f32[]\n"
     "%4 = mul(%0, %0) : f32[4096,576]\n"
     "%5 = reduce_sum(%4) {axes=[1], keep=true} : f32[4096,1]\n"
     "%6 = div(%5, %2) : f32[4096,1]\n"
     "%7 = add(%6, %3) : f32[4096,1]\n"
     "%8 = rsqrt(%7) : f32[4096,1]\n"
     "%9 = mul(%0, %8) : f32[4096,576]\n"
     "%10 = mul(%9, %1) : f32[4096,576]\n"
     "%11 = sigmoid(%10) : f32[4096,576]\n"
     "%12 = mul(%10, %11) : f32[4096,576]\n"
     "output \"y\" %12\n",
     "%0 = input \"x0\" : f32[4096,576]\n"
     "%1 = input \"x1\" : f32[576]\n"
     "%2 = call(%0, %1) {fn1=1} : f32[4096,576]\n"
     "output \"y\" %2\n",
     {"split(i_0, 16) -> a, b; parallel(a); vectorize(k_1); vectorize(j_2);",
      "split(i_0, 64) -> a, b; parallel(a); vectorize(k_1); vectorize(j_2);", NULL}},
    {"squares, long rows",
     "%0 = input \"x0\" : f32[64,65536]\n"
     "%1 = mul(%0, %0) : f32[64,65536]\n"
     "%2 = reduce_sum(%1) {axes=[1], keep=false} : f32[64]\n"
     "output \"y\" %2\n",
     "%0 = input \"x0\" : f32[64,65536]\n"
     "%1 = call(%0) {fn1=1} : f32[64]\n"
     "output \"y\" %1\n",
     {"split(i_0, 4) -> a, b; parallel(a); vectorize(k_1);",
      "split(i_0, 16) -> a, b; parallel(a); vectorize(k_1);", NULL}},
    {"squares, columns",
     "%0 = input \"x0\" : f32[4096,1024]\n"
     "%1 = mul(%0, %0) : f32[4096,1024]\n"
     "%2 = reduce_sum(%1) {axes=[0], keep=false} : f32[1024]\n"
     "output \"y\" %2\n",
     "%0 = input \"x0\" : f32[4096,1024]\n"
     "%1 = call(%0) {fn1=1} : f32[1024]\n"
     "output \"y\" %1\n",
     {"split(i_0, 16) -> a, b; parallel(a); vectorize(b);",
      "split(i_0, 32) -> a, b; parallel(a); vectorize(b);",
      "split(i_0, 64) -> a, b; parallel(a); vectorize(b);",
      "split(i_0, 256) -> a, b; parallel(a); vectorize(b);", NULL}},
    {"maximum, middle axis",
     "%0 = input \"x0\" : f32[64,128,512]\n"
     "%1 = abs(%0) : f32[64,128,512]\n"
     "%2 = reduce_max(%1) {axes=[1], keep=false} : f32[64,512]\n"
     "output \"y\" %2\n",
     "%0 = input \"x0\" : f32[64,128,512]\n"
     "%1 = call(%0) {fn1=1} : f32[64,512]\n"
     "output \"y\" %1\n",
     {"split(i_1, 16) -> a, b; parallel(i_0); parallel(a); vectorize(b);",
      "split(i_1, 32) -> a, b; parallel(i_0); parallel(a); vectorize(b);",
      "split(i_1, 64) -> a, b; parallel(i_0); parallel(a); vectorize(b);",
      "split(i_1, 256) -> a, b; parallel(i_0); parallel(a); vectorize(b);", NULL}},
    {"transposed sum",
     "%0 = input \"x0\" : f32[2048,2048]\n"
     "%1 = input \"x1\" : f32[2048,2048]\n"
     "%2 = transpose(%0) {perm=[1, 0]} : f32[2048,2048]\n"
     "%3 = add(%2, %1) : f32[2048,2048]\n"
     "%4 = abs(%3) : f32[2048,2048]\n"
     "output \"y\" %4\n",
     "%0 = input \"x0\" : f32[2048,2048]\n"
     "%1 = input \"x1\" : f32[2048,2048]\n"
     "%2 = call(%0, %1) {fn1=1} : f32[2048,2048]\n"
     "output \"y\" %2\n",
     {"tile(i_0, i_1, 8, 8) -> a, b, c, d; parallel(a); parallel(b);",
      "tile(i_0, i_1, 16, 16) -> a, b, c, d; parallel(a); parallel(b);",
      "tile(i_0, i_1, 32, 32) -> a, b, c, d; parallel(a); parallel(b);",
      "tile(i_0, i_1, 64, 64) -> a, b, c, d; parallel(a); parallel(b);",
      "tile(i_0, i_1, 256, 16) -> a, b, c, d; parallel(a); parallel(b);",
      "tile(i_0, i_1, 16, 256) -> a, b, c, d; parallel(a); parallel(b);", NULL}},
    {"bias, scale, gate",
     "%0 = input \"x0\" : f32[4096,1024]\n"
     "%1 = input \"x1\" : f32[1024]\n"
     "%2 = input \"x2\" : f32[1024]\n"
     "%3 = mul(%0, %1) : f32[4096,1024]\n"
     "%4 = add(%3, %2) : f32[4096,1024]\n"
     "%5 = sigmoid(%4) : f32[4096,1024]\n"
     "%6 = mul(%4, %5) : f32[4096,1024]\n"
     "output \"y\" %6\n",
     "%0 = input \"x0\" : f32[4096,1024]\n"
     "%1 = input \"x1\" : f32[1024]\n"
     "%2 = input \"x2\" : f32[1024]\n"
     "%3 = call(%0, %1, %2) {fn1=1} : f32[4096,1024]\n"
     "output \"y\" %3\n",
     {"split(i_0, 16) -> a, b; parallel(a); vectorize(i_1);",
      "split(i_0, 64) -> a, b; parallel(a); vectorize(i_1);",
      "split(i_1, 256) -> a, b; parallel(i_0); vectorize(b);", NULL}},
    {"elementwise",
     "%0 = input \"x0\" : f32[8388608]\n"
     "%1 = input \"x1\" : f32[8388608]\n"
     "%2 = mul(%0, %1) : f32[8388608]\n"
     "%3 = add(%2, %0) : f32[8388608]\n"
     "%4 = abs(%3) : f32[8388608]\n"
     "output \"y\" %4\n",
     "%0 = input \"x0\" : f32[8388608]\n"
     "%1 = input \"x1\" : f32[8388608]\n"
     "%2 = call(%0, %1) {fn1=1} : f32[8388608]\n"
     "output \"y\" %2\n",
     {"split(tile_0, 4) -> a, b; parallel(a); vectorize(i_1);",
      "split(tile_0, 16) -> a, b; parallel(a); vectorize(i_1);",
      "split(i_1, 256) -> a, b; parallel(tile_0); vectorize(b);", NULL}},
    {"window of three",
     "%0 = input \"x0\" : f32[1024,4098]\n"
     "%1 = slice(%0) {starts=[0, 0], stops=[1024, 4096]} : f32[1024,4096]\n"
     "%2 = slice(%0) {starts=[0, 1], stops=[1024, 4097]} : f32[1024,4096]\n"
     "%3 = slice(%0) {starts=[0, 2], stops=[1024, 4098]} : f32[1024,4096]\n"
     "%4 = max(%1, %2) : f32[1024,4096]\n"
     "%5 = max(%4, %3) : f32[1024,4096]\n"
     "output \"y\" %5\n",
     "%0 = input \"x0\" : f32[1024,4098]\n"
     "%1 = call(%0) {fn1=1} : f32[1024,4096]\n"
     "output \"y\" %1\n",
     {"split(i_0, 16) -> a, b; parallel(a); vectorize(i_1);",
      "split(i_1, 256) -> a, b; parallel(i_0); vectorize(b);",
      "split(i_0, 64) -> a, b; parallel(a); vectorize(i_1);", NULL}},
    {"softmax gradient",
     "%0 = input \"x0\" : f32[512,4096]\n"
     "%1 = input \"x1\" : f32[512,4096]\n"
     "%2 = mul(%0, %1) : f32[512,4096]\n"
     "%3 = reduce_sum(%2) {axes=[1], keep=true} : f32[512,1]\n"
     "%4 = sub(%1, %3) : f32[512,4096]\n"
     "%5 = mul(%0, %4) : f32[512,4096]\n"
     "output \"y\" %5\n",
     "%0 = input \"x0\" : f32[512,4096]\n"
     "%1 = input \"x1\" : f32[512,4096]\n"
     "%2 = call(%0, %1) {fn1=1} : f32[512,4096]\n"
     "output \"y\" %2\n",
     {"split(i_0, 4) -> a, b; parallel(a); vectorize(k_1); vectorize(j_2);",
      "split(i_0, 16) -> a, b; parallel(a); vectorize(k_1); vectorize(j_2);",
      "parallel(i_0); vectorize(k_1); split(j_2, 256) -> c, d; vectorize(d);", NULL}},
};

static const int tune_shape_count = (int)(sizeof tune_shapes / sizeof tune_shapes[0]);

#endif
