/* Saving and resuming a training run: a program that is killed at random moments, also while it saves, and started
 * again ends with the weights of one that nobody disturbed; a full disk, a broken or a foreign file is an error that
 * changes nothing. */
#include "support/skip.h"
#include "support/training.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 120, SAVE_EVERY = 4, RUNS = 20 };
static const char run_settings[] =
    "optimizer=adamw rate=0.01 weight_decay=0.1 ema=0.99 accumulate=3 "
    "loss_scale=16 loss_scale_period=7 clip=1";

/* ---- the program that is killed ------------------------------------------------------------ */

/* Goes on from the file, if it is there; prints the hash of the weights at the end. */
static const char *file;
START_TEST(train) {
    training t;
    char hash[65];
    tn_open(&t, 2);
    mlsys_trainer trainer = tn_create(&t, run_settings);
    if (access(file, F_OK) == 0) OK(mlsys_trainer_load(trainer, file));
    for (int64_t i = (int64_t)tn_stat(trainer, "batches"); i < STEPS; i++) {
        tn_steps(&t, trainer, i, i + 1);
        if ((i + 1) % SAVE_EVERY == 0) OK(mlsys_trainer_save(trainer, file));
    }
    tn_hash(trainer, hash);
    OK(mlsys_release(trainer));
    tn_close(&t);
    printf("%s\n", hash);
}
END_TEST

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}

/* Starts the program; kills it after so many seconds (< 0: not). true: it came to its end, with this hash. */
static bool launch(const char *at, double kill_after, char hash[65]) {
    int ends[2], status;
    ck_assert(pipe(ends) == 0);
    pid_t child = fork();
    ck_assert(child >= 0);
    if (!child) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "check_resume", "--train", at, (char *)NULL);
        _exit(98);
    }
    close(ends[1]);
    if (kill_after >= 0) {
        wait_for(kill_after);
        kill(child, SIGKILL);
    }
    FILE *f = fdopen(ends[0], "r");
    bool said = fscanf(f, "%64s", hash) == 1;
    fclose(f);
    ck_assert(waitpid(child, &status, 0) == child);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ck_assert_msg(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "status %x", status);
    return said;
}

static char folder[64], path[96];

static void setup(void) {
    strcpy(folder, "/tmp/mlsys-resume-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.safetensors", folder);
}

static void teardown(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert(system(command) == 0);
}

START_TEST(killed_and_resumed) {
    char want[65], hash[65];
    kc_rng r = kc_seed((uint64_t)getpid());
    int kills = 0, equal = 0;
    double start = now();
    ck_assert(launch(path, -1, want));
    double whole = now() - start;
    for (int i = 0; i < RUNS; i++) {
        unlink(path);
        int times = 1 + i % 3;
        bool done = false;
        for (int k = 0; k < times && !done; k++) {
            double within = 0.9 * whole / times;
            done = launch(path, kc_uniform(&r, 0, within), hash);
            for (; done && k == 0; within /= 2) { /* it was faster than the one that was timed */
                unlink(path);
                done = launch(path, kc_uniform(&r, 0, within), hash);
            }
            kills += !done;
        }
        if (!done) done = launch(path, -1, hash);
        equal += done && !strcmp(hash, want);
    }
    printf("resume: %d of %d equal after %d kills, %.0f ms undisturbed\n", equal, RUNS, kills,
           1e3 * whole);
    ck_assert_int_eq(equal, RUNS);
    ck_assert_int_ge(kills, RUNS);
}
END_TEST

/* ---- files that are refused ---------------------------------------------------------------- */

static training tr;
static mlsys_trainer trainer;
static char state[65];

static void begin(const char *settings) {
    setup();
    tn_open(&tr, 1);
    trainer = tn_create(&tr, settings);
    tn_steps(&tr, trainer, 0, 5);
    tn_hash(trainer, state);
}
static void begin_default(void) { begin("rate=0.02 ema=0.9"); }
static void end(void) {
    OK(mlsys_release(trainer));
    tn_close(&tr);
    teardown();
}

static char *read_whole(size_t *n) {
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    char *all = malloc(1 << 18);
    *n = fread(all, 1, 1 << 18, f);
    fclose(f);
    return all;
}

static void write_whole(const char *p, size_t n) {
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert(fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static void unchanged(void) {
    char hash[65];
    tn_hash(trainer, hash);
    ck_assert_str_eq(hash, state);
}

START_TEST(truncated) {
    size_t n;
    kc_rng r = kc_seed(3);
    OK(mlsys_trainer_save(trainer, path));
    char *all = read_whole(&n);
    uint64_t header;
    memcpy(&header, all, 8);
    tn_steps(&tr, trainer, 5, 6);
    tn_hash(trainer, state);
    for (size_t i = 0; i < 8 + header + 100; i++) {
        size_t cut =
            i < 8 + header ? i : 8 + header + (size_t)kc_uniform(&r, 0, (double)(n - 9 - header));
        write_whole(all, cut);
        ck_assert_msg(mlsys_trainer_load(trainer, path) == MLSYS_E_FORMAT, "%zu of %zu bytes: %s",
                      cut, n, mlsys_last_error());
    }
    unchanged();
    write_whole(all, n);
    free(all);
    OK(mlsys_trainer_load(trainer, path));
    ck_assert(tn_stat(trainer, "step") == 5);
}
END_TEST

START_TEST(one_flipped_bit) {
    size_t n;
    kc_rng r = kc_seed(4);
    OK(mlsys_trainer_save(trainer, path));
    char *all = read_whole(&n);
    uint64_t header;
    memcpy(&header, all, 8);
    for (size_t i = 0; i < 8 + header + 200; i++) {
        size_t at =
            i < 8 + header ? i : 8 + header + (size_t)kc_uniform(&r, 0, (double)(n - 8 - header));
        int bit = (int)kc_uniform(&r, 0, 8);
        all[at] ^= (char)(1 << bit);
        write_whole(all, n);
        mlsys_status st = mlsys_trainer_load(trainer, path);
        ck_assert_msg(st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED, "bit %d of byte %zu: %s",
                      bit, at, mlsys_last_error());
        all[at] ^= (char)(1 << bit);
    }
    unchanged();
    write_whole(all, n);
    OK(mlsys_trainer_load(trainer, path));
    unchanged();
    free(all);
}
END_TEST

static void load_into(const char *settings, mlsys_status code, const char *text) {
    mlsys_trainer other = tn_create(&tr, settings);
    char before[65], after[65];
    tn_hash(other, before);
    pc_expect(mlsys_trainer_load(other, path), code, text);
    tn_hash(other, after);
    if (code)
        ck_assert_str_eq(before, after);
    else
        ck_assert_str_eq(state, after);
    OK(mlsys_release(other));
}

START_TEST(foreign) {
    OK(mlsys_trainer_save(trainer, path));
    load_into("rate=0.02 ema=0.9", 0, "");
    load_into("rate=0.02 ema=0.9 optimizer=lion", MLSYS_E_FORMAT,
              "its optimizer is adamw, this one's lion");
    load_into("rate=0.02", MLSYS_E_FORMAT, "it has w0.ema, which is none here");
    load_into("rate=0.02 ema=0.9 accumulate=2", MLSYS_E_FORMAT, "it has no w0.sum");
    load_into("rate=0.03 ema=0.9", MLSYS_E_FORMAT,
              "its setting is \"rate 0.02\", this one's \"rate 0.029999999999999999\"");
    load_into("rate=0.03 ema=0.9 resume=state", 0, "");
    pc_expect(mlsys_trainer_load(trainer, "/nowhere/file"), MLSYS_E_NOTFOUND, "/nowhere/file");
    mlsys_tensor t;
    const char *name = "w0";
    OK(mlsys_trainer_tensor(trainer, name, &t));
    OK(mlsys_tensors_save(path, 1, &name, &t, 0, NULL, NULL));
    OK(mlsys_release(t));
    pc_expect(mlsys_trainer_load(trainer, path), MLSYS_E_FORMAT, "not a trainer's file");
    pc_expect(mlsys_trainer_load(trainer, "/dev/null"), MLSYS_E_IO, "not a regular file");
    unchanged();
}
END_TEST

/* y = mean((x @ w)^2), with a weight of n columns under a name. */
static mlsys_trainer small(const char *name, int64_t n, const char *op) {
    mlsys_graph g;
    mlsys_value v[2], loss;
    mlsys_trainer out;
    const int64_t xs[2] = {3, 2}, ws[2] = {2, n};
    float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    OK(mlsys_graph_create(tr.pc.ctx_handle, &g));
    OK(mlsys_graph_input(g, "x", MLSYS_F32, 2, xs, &v[0]));
    OK(mlsys_graph_input(g, name, MLSYS_F32, 2, ws, &v[1]));
    mlsys_tensor first = pc_tensor(&tr.pc, MLSYS_F32, 2, ws, w);
    mlsys_value param = v[1];
    OK(mlsys_graph_op(g, "matmul", 2, v, NULL, 1, &loss));
    OK(mlsys_graph_op(g, op, 1, &loss, NULL, 1, &loss));
    OK(mlsys_graph_op(g, "reduce_mean", 1, &loss, NULL, 1, &loss));
    OK(mlsys_trainer_create(g, loss, 1, &param, &first, tr.pc.stream, NULL, &out));
    OK(mlsys_release(first));
    OK(mlsys_release(g));
    return out;
}

START_TEST(another_model) {
    static const struct {
        const char *name;
        int64_t n;
        const char *op, *text;
    } others[] = {{"v", 4, "silu", "it has no v"},
                  {"w", 3, "silu", "its w is f32[2,4], this one's f32[2,3]"},
                  {"w", 4, "gelu", "the model's graph differs"}};
    mlsys_trainer mine = small("w", 4, "silu");
    OK(mlsys_trainer_save(mine, path));
    OK(mlsys_trainer_load(mine, path));
    OK(mlsys_release(mine));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        mlsys_trainer other = small(others[i].name, others[i].n, others[i].op);
        pc_expect(mlsys_trainer_load(other, path), MLSYS_E_FORMAT, others[i].text);
        OK(mlsys_release(other));
    }
}
END_TEST

static int entries(void) {
    char command[128], line[16] = "";
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    pclose(f);
    return atoi(line);
}

/* A limit on a file's size stands for a full disk: writing fails in the middle of the file. */
START_TEST(disk_full) {
    struct rlimit limit = {0, 0}, old;
    size_t n, after;
    OK(mlsys_trainer_save(trainer, path));
    char *all = read_whole(&n);
    tn_steps(&tr, trainer, 5, 6);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert(getrlimit(RLIMIT_FSIZE, &old) == 0);
    for (size_t room = 0; room < n; room += n / 7 + 1) {
        limit = old;
        limit.rlim_cur = room;
        ck_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        mlsys_status st = mlsys_trainer_save(trainer, path);
        ck_assert(setrlimit(RLIMIT_FSIZE, &old) == 0);
        pc_expect(st, MLSYS_E_IO, "cannot write the file");
        char *now_there = read_whole(&after);
        ck_assert(after == n && !memcmp(all, now_there, n));
        free(now_there);
        ck_assert_int_eq(entries(), 1);
    }
    free(all);
    OK(mlsys_trainer_load(trainer, path));
    unchanged();
    tn_steps(&tr, trainer, 5, 6);
    OK(mlsys_trainer_save(trainer, path));
}
END_TEST

/* Nothing but the contents decide: two saves of one state are the same file. */
START_TEST(same_state_same_file) {
    size_t n, m;
    OK(mlsys_trainer_save(trainer, path));
    char *a = read_whole(&n);
    OK(mlsys_trainer_load(trainer, path));
    OK(mlsys_trainer_save(trainer, path));
    char *b = read_whole(&m);
    ck_assert(n == m && !memcmp(a, b, n));
    free(a);
    free(b);
}
END_TEST

START_TEST(absent) {
    pc_expect(mlsys_trainer_save(trainer, path), MLSYS_E_UNSUPPORTED, "built without jansson");
    TEST_SKIP("save and resume: built without jansson");
}
END_TEST

/* One test, in this process. */
static int run_train(void) {
    Suite *s = suite_create("train");
    TCase *tc = tcase_create("train");
    tcase_add_test(tc, train);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_run_all(r, CK_SILENT);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--train")) {
        file = argv[2];
        return run_train();
    }
    Suite *s = suite_create("resume");
    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 120);
    tcase_add_checked_fixture(files, begin_default, end);
    TCase *killed = tcase_create("killed");
    tcase_set_timeout(killed, 300);
    tcase_add_checked_fixture(killed, setup, teardown);
    suite_add_tcase(s, files);
    suite_add_tcase(s, killed);
    const bool present = mlsys_has_feature("jansson");
    if (!present) tcase_add_test(files, absent);
    if (present) tcase_add_test(killed, killed_and_resumed);
    if (present) tcase_add_test(files, truncated);
    if (present) tcase_add_test(files, one_flipped_bit);
    if (present) tcase_add_test(files, foreign);
    if (present) tcase_add_test(files, another_model);
    if (present) tcase_add_test(files, disk_full);
    if (present) tcase_add_test(files, same_state_same_file);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
