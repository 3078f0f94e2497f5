/* How functions and tables of headers whose text goes into generated code are declared. Device code has its own way, set before
 * (cuda/gen_device.h). */
#ifndef MLSI_TEXT_FN_H
#define MLSI_TEXT_FN_H

#ifndef MLSI_TEXT_FN
#define MLSI_TEXT_FN    static inline __attribute__((unused))
#define MLSI_TEXT_CONST static const
#endif

#endif
