/* The schedules that a tuner looks through: a space of choices per nest and target, from which programs are made. A point
 * is one option per choice; not every point is legal, which the schedule itself decides. Everything is a function of nest,
 * target and seed. */
#ifndef MLSI_SCHEDULE_SPACE_H
#define MLSI_SCHEDULE_SPACE_H

#include "ir/loop/schedule.h"

typedef struct mlsi_schedule_target {
    bool gpu;            /* loops are bound to grid and lanes, else parallel and vector */
    int64_t local_bytes; /* of one copy in LOCAL memory, at most; 0 = no copies */
} mlsi_schedule_target;

enum {
    MLSI_SPACE_BAND = 4,  /* loops of the perfect nest around all */
    MLSI_SPACE_INNER = 6, /* loops inside of it */
    MLSI_SPACE_READS = 3,
    MLSI_SPACE_CHOICES = 2 * MLSI_SPACE_BAND + 3 * MLSI_SPACE_INNER + MLSI_SPACE_READS + 4
};

typedef enum mlsi_choice_kind {
    MLSI_CHOICE_SPLIT = 1, /* of band loop which: factor, 1 = none */
    MLSI_CHOICE_ORDER,     /* rotation of the band's loops */
    MLSI_CHOICE_FUSE,      /* the two outermost loops */
    MLSI_CHOICE_PARALLEL,  /* how many of the outermost loops */
    MLSI_CHOICE_VECTOR,    /* the innermost loop of the band */
    MLSI_CHOICE_UNROLL,    /* the one around it */
    MLSI_CHOICE_INNER_SPLIT,
    MLSI_CHOICE_INNER_VECTOR,
    MLSI_CHOICE_RFACTOR,
    MLSI_CHOICE_READ, /* copy input which at the innermost outer tile */
    MLSI_CHOICE_WRITE /* the same of the output */
} mlsi_choice_kind;

typedef struct mlsi_choice {
    mlsi_choice_kind kind;
    int32_t which, options; /* 1 or more */
} mlsi_choice;

typedef struct mlsi_schedule_space {
    mlsi_schedule_target target;
    int32_t n_band, n_inner, n_reads, n_choices;
    char band[MLSI_SPACE_BAND][MLSI_STEP_NAME];   /* outer first */
    char inner[MLSI_SPACE_INNER][MLSI_STEP_NAME]; /* the innermost loops inside of the band */
    bool reduces[MLSI_SPACE_INNER];
    char reads[MLSI_SPACE_READS][MLSI_STEP_NAME];
    char write[MLSI_STEP_NAME];
    mlsi_choice choices[MLSI_SPACE_CHOICES];
} mlsi_schedule_space;

typedef struct mlsi_point {
    int32_t option[MLSI_SPACE_CHOICES];
} mlsi_point;

/* UNSUPPORTED for a nest without loops. n as it was lowered: all loops serial. */
mlsys_status mlsi_schedule_space_of(const mlsi_nest *n, const mlsi_schedule_target *target,
                                    mlsi_schedule_space *out);
/* How many points there are, saturating. */
int64_t mlsi_schedule_space_size(const mlsi_schedule_space *s);
/* Point number i of [0, size); 0 changes nothing. */
mlsi_point mlsi_schedule_space_point(const mlsi_schedule_space *s, int64_t i);
/* Appends the point's program. */
mlsys_status mlsi_schedule_space_program(const mlsi_schedule_space *s, const mlsi_point *p,
                                         mlsi_schedule *out);
/* Applies the program of a point to a copy (made; free it when *legal). Failures other than a refusal are returned. */
mlsys_status mlsi_schedule_space_try(const mlsi_schedule_space *s, const mlsi_nest *n,
                                     const mlsi_point *p, mlsi_nest *made, bool *legal);
/* A legal point by seed and number. NOTFOUND when none of many tries is legal. */
mlsys_status mlsi_schedule_space_draw(const mlsi_schedule_space *s, const mlsi_nest *n,
                                      uint64_t seed, uint64_t number, mlsi_point *out);
/* A legal point that differs from one parent in a few choices, and takes others from the second (NULL = none). */
mlsys_status mlsi_schedule_space_mutate(const mlsi_schedule_space *s, const mlsi_nest *n,
                                        const mlsi_point *parent, const mlsi_point *second,
                                        uint64_t seed, uint64_t number, mlsi_point *out);

#endif
