/* A trainer's state as a safetensors file (docs/training.md). */
#ifndef MLSI_STATE_FILE_H
#define MLSI_STATE_FILE_H

#include "train/trainer.h"

/* Whatever happens, the path holds a whole file: the old one or the new one. */
mlsys_status mlsi_trainer_save(const mlsi_trainer *t, const char *path);
/* Everything is checked before anything changes. Errors FORMAT: broken, or of another run; names what differs. */
mlsys_status mlsi_trainer_load(mlsi_trainer *t, const char *path);

#endif
