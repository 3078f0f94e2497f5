/* Settings of a training run: the scope "trainer". */
#ifndef MLSI_TRAIN_OPTIONS_H
#define MLSI_TRAIN_OPTIONS_H

#include "autodiff/checkpoint.h"
#include "run/program.h"

typedef enum mlsi_optimizer {
    MLSI_OPT_SGD = 0,
    MLSI_OPT_ADAM,
    MLSI_OPT_ADAMW,
    MLSI_OPT_ADAFACTOR,
    MLSI_OPT_LION,
    MLSI_OPT_MUON
} mlsi_optimizer;

/* Texts belong to the config, which must live as long as they are read. */
typedef struct mlsi_trainer_options {
    mlsi_optimizer optimizer;
    double momentum, dampening, beta1, beta2, eps, weight_decay;
    bool nesterov;
    const char *no_decay, *adam_for; /* comma-separated parts of names */
    int64_t decay_rank;
    double muon_eps, decay_rate, eps_w, update_clip; /* of muon; of adafactor: */
    bool relative;
    mlsi_attr_learning_rate schedule;
    double clip, ema; /* 0 = none */
    int64_t accumulate;
    bool accumulate_mean;
    mlsys_dtype precision;
    double loss_scale; /* the first one */
    bool scaled;       /* there is a loss scale */
    int64_t loss_scale_period;
    mlsi_checkpoint checkpoint;
    bool same_settings; /* demanded of a file that is loaded */
    mlsi_compile_options compile;
    /* what goes on to those scopes; owned */
    mlsys_config compile_config, gradient_config, narrow_config;
    mlsi_config *compile_pinned, *gradient_pinned, *narrow_pinned;
} mlsi_trainer_options;

const mlsi_config_key *mlsi_trainer_config_keys(int *n);
/* Checked and with the optimiser's defaults filled in. Free what it owns also after a failure. */
mlsys_status mlsi_trainer_options_read(mlsi_ctx *ctx, const mlsi_config *c,
                                       mlsi_trainer_options *o);
void mlsi_trainer_options_free(mlsi_trainer_options *o);
const char *mlsi_optimizer_name(mlsi_optimizer o);
/* Is one of the comma-separated parts a part of name? Empty parts are no part of anything. */
bool mlsi_name_listed(const char *list, const char *name);
/* All settings that decide about bits, one a line, for the digest of a run. */
void mlsi_trainer_options_text(const mlsi_trainer_options *o, mlsi_text *out);

#endif
