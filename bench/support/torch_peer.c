#include "support/torch_peer.h"

#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool start(torch_peer *p, const char *python, const char *script) {
    int in[2], out[2];
    pid_t child;
    char *argv[] = {(char *)(uintptr_t)python, (char *)(uintptr_t)script,
                    (char *)(uintptr_t) "--serve", NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(in)) return false;
    if (pipe(out)) return close(in[0]), close(in[1]), false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, in[i]);
        posix_spawn_file_actions_addclose(&actions, out[i]);
    }
    bool started = posix_spawnp(&child, python, &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    p->to = fdopen(in[1], "w");
    p->from = fdopen(out[0], "r");
    if (started) p->pid = child;
    return started && p->to && p->from;
}

bool torch_peer_ask(torch_peer *p, char *answer, size_t cap, const char *format, ...) {
    va_list list;
    va_start(list, format);
    bool sent = vfprintf(p->to, format, list) > 0 && fputc('\n', p->to) != EOF && !fflush(p->to);
    va_end(list);
    *answer = 0;
    if (!sent || !fgets(answer, (int)cap, p->from)) {
        snprintf(answer, cap, "the peer has ended");
        return false;
    }
    answer[strcspn(answer, "\n")] = 0;
    if (strncmp(answer, "ok", 2)) return false;
    memmove(answer, answer + 2 + (answer[2] == ' '), strlen(answer + 2 + (answer[2] == ' ')) + 1);
    return true;
}

bool torch_peer_open(torch_peer *p, const char *python, const char *script) {
    memset(p, 0, sizeof *p);
    signal(SIGPIPE, SIG_IGN); /* a peer that dies is an answer, not our end */
    if (start(p, python, script) &&
        torch_peer_ask(p, p->settings, sizeof p->settings, "versions") &&
        torch_peer_ask(p, p->names, sizeof p->names, "peers"))
        return true;
    fprintf(stderr, "bench: %s %s does not answer: %s\n", python, script, p->settings);
    torch_peer_close(p);
    return false;
}

void torch_peer_close(torch_peer *p) {
    if (p->to) fclose(p->to);
    if (p->from) fclose(p->from);
    if (p->pid) waitpid(p->pid, NULL, 0);
    memset(p, 0, sizeof *p);
}
