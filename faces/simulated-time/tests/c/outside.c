/* A program that asks somebody outside of the simulation by one pipe, and looks at once whether there
 * is an answer: in another pipe, or by the end of a child. And who is asked, which computes before it
 * answers. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            perror(#what); \
            exit(1); \
        } \
    } while (0)

/* Whether a process has ended, for which its parent has yet to wait. */
static int has_ended(pid_t process)
{
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    FILE *file = fopen(name, "r");
    CHECK(file && fscanf(file, "%*d %*s %c", &state) == 1 && fclose(file) == 0);
    return state == 'Z';
}

/* Answers each question, which is the number of a process to end, or 0. */
static void answers(const char *questions, const char *into)
{
    int from = open(questions, O_RDONLY), to = open(into, O_WRONLY);
    pid_t process;
    CHECK(from >= 0 && to >= 0);
    while (read(from, &process, sizeof process) == sizeof process) {
        clock_t end = clock() + CLOCKS_PER_SEC / 50;
        while (clock() < end) {
        }
        if (process == 0) {
            CHECK(write(to, "y", 1) == 1);
            continue;
        }
        CHECK(kill(process, SIGKILL) == 0);
        while (!has_ended(process)) {
        }
    }
}

static void asks(const char *questions, const char *from)
{
    int ask = open(questions, O_WRONLY), answer = open(from, O_RDONLY | O_NONBLOCK);
    struct pollfd entry = {.fd = answer, .events = POLLIN};
    pid_t nobody = 0, child = fork();
    char byte;
    CHECK(ask >= 0 && answer >= 0 && child >= 0);
    if (child == 0) {
        close(ask);
        sleep(1000);
        _exit(0);
    }
    CHECK(write(ask, &nobody, sizeof nobody) == sizeof nobody);
    printf("read %zd\n", read(answer, &byte, 1));
    CHECK(write(ask, &nobody, sizeof nobody) == sizeof nobody);
    printf("poll %d\n", poll(&entry, 1, 0));
    CHECK(read(answer, &byte, 1) == 1);
    CHECK(write(ask, &child, sizeof child) == sizeof child);
    printf("wait %d\n", waitpid(child, NULL, WNOHANG) == child);
}

int main(int count, char **words)
{
    CHECK(count == 4);
    if (strcmp(words[1], "asks") == 0) {
        asks(words[2], words[3]);
    } else {
        answers(words[2], words[3]);
    }
    return 0;
}
