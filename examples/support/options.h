/* Long options from a table. */
#ifndef OPTIONS_H
#define OPTIONS_H

typedef struct option_row {
    const char *flag, *help; /* "--steps" */
    const char **text;       /* exactly one of the four is set */
    long *number;
    double *real;
    int *on; /* takes no value */
} option_row;

/* 1: go on; 0: --help was printed; -1: a sentence about what is wrong was. n rows. */
int options_parse(int argc, char **argv, const char *what, const option_row *rows, int n);
/* The bytes of a file, NUL-ended, from malloc; NULL with a sentence on stderr. */
char *options_read_file(const char *path, long *bytes);

#endif
