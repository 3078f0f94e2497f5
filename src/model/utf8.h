/* UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef MLSI_UTF8_H
#define MLSI_UTF8_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the well-formed sequence at p[0..n), n > 0; 0 when it is malformed or cut short.
 * cp receives the code point; it is untouched on 0. */
static inline int mlsi_utf8_decode(const char *p, uint64_t n, uint32_t *cp) {
    const unsigned char *b = (const unsigned char *)p;
    if (b[0] < 0x80) {
        *cp = b[0];
        return 1;
    }
    int len = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || n < (uint64_t)len) return 0;
    uint32_t v = b[0] & (0x7fu >> len);
    for (int i = 1; i < len; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
        v = v << 6 | (b[i] & 0x3f);
    }
    if (len == 3 && (v < 0x800 || (v >= 0xd800 && v < 0xe000))) return 0;
    if (len == 4 && (v < 0x10000 || v > 0x10ffff)) return 0;
    *cp = v;
    return len;
}

/* Writes the 1 to 4 bytes of a scalar value. */
static inline int mlsi_utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(cp | (0xf00u >> len & 0xff));
    return len;
}

/* Bytes at the start of p[0..n) that are well-formed. */
static inline uint64_t mlsi_utf8_valid_prefix(const char *p, uint64_t n) {
    uint64_t i = 0;
    while (i < n) {
        uint64_t eight;
        while (i + 8 <= n && (memcpy(&eight, p + i, 8), !(eight & 0x8080808080808080ull)))
            i += 8;
        if (i == n) break;
        uint32_t cp;
        int len = mlsi_utf8_decode(p + i, n - i, &cp);
        if (!len) break;
        i += (uint64_t)len;
    }
    return i;
}

/* Bytes (0 to 3) at the end of p[0..n) that begin a sequence which more bytes could complete. */
static inline int mlsi_utf8_incomplete_tail(const char *p, uint64_t n) {
    const unsigned char *b = (const unsigned char *)p;
    for (uint64_t k = 1; k <= 3 && k <= n; k++) {
        unsigned lead = b[n - k];
        if ((lead & 0xc0) == 0x80) continue;
        uint64_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (lead < 0xc2 || lead > 0xf4 || k >= len) return 0;
        if (k == 1) return 1;
        /* The second byte decides surrogates, overlong forms and the upper end. */
        unsigned second = b[n - k + 1];
        if (lead == 0xe0 && second < 0xa0) return 0;
        if (lead == 0xed && second > 0x9f) return 0;
        if (lead == 0xf0 && second < 0x90) return 0;
        if (lead == 0xf4 && second > 0x8f) return 0;
        return (int)k;
    }
    return 0;
}

/* Unicode's White_Space property. */
static inline bool mlsi_is_white_space(uint32_t c) {
    return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

#endif
