/* Labelled images in IDX files, the format of MNIST and its successors; gzip-compressed or not. */
#ifndef IMAGES_H
#define IMAGES_H

#include <stdint.h>

typedef struct images {
    int64_t count, height, width;
    uint8_t *pixels; /* [count, height, width] */
    int64_t *labels; /* [count] */
} images;

/* Reads FOLDER/NAME-images-idx3-ubyte and FOLDER/NAME-labels-idx1-ubyte (.gz). On failure returns 0 and
 * prints one sentence. Free with images_free. */
int images_read(images *set, const char *folder, const char *name);
void images_free(images *set);

#endif
