/* No vocabulary yet: goes when the one of src/cuda/gen_device.h is embedded. */
#include "cuda/jit.h"

__attribute__((weak)) const char mlsi_gen_device_text[] = "";
