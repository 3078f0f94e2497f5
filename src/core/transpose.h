/* Transposition of a plane of 1, 2, 4 or 8-byte units: the inner loop of copies whose two sides run
 * along different dims. */
#ifndef MLSI_TRANSPOSE_H
#define MLSI_TRANSPOSE_H

#include <stdint.h>

/* dst[r * dst_row + c * unit] = src[c * src_row + r * unit] (bytes) for r < rows, c < cols. The
 * planes do not overlap; unit is 1, 2, 4 or 8; any alignment. */
void mlsi_transpose(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows,
                    int64_t cols, int64_t unit);

#endif
