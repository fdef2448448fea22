/* A program that asks the system for io_uring, and goes on without. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static volatile int handled;

static void handler(int number)
{
    handled += number;
}

static long long now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* As liburing has it: no function of the C library is called. */
static long by_instruction(long number, long first, long second)
{
    long result;
    register long fourth __asm__("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(0L), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

static long asked(void)
{
    char parameters[120] = {0};
    return by_instruction(SYS_io_uring_setup, 8, (long)parameters);
}

static void *in_a_thread(void *unused)
{
    (void)unused;
    printf("thread %ld\n", asked());
    return NULL;
}

int main(int count, char **words)
{
    if (count > 1) {
        printf("started %ld\n", asked());
        return 0;
    }
    char parameters[120] = {0};
    long long start = now();
    errno = 77;
    long first = asked();
    printf("setup %ld, errno %d, took %lld\n", first, errno, now() - start);
    printf("enter %ld\n", by_instruction(SYS_io_uring_enter, 3, 0));
    printf("register %ld\n", by_instruction(SYS_io_uring_register, 3, 0));
    /* Those beside them are the system's: of no file and no process. */
    CHECK(by_instruction(SYS_pidfd_send_signal, -1, 0) != -ENOSYS);
    CHECK(by_instruction(SYS_open_tree, -1, 0) != -ENOSYS);
    CHECK(syscall(SYS_io_uring_setup, 8, parameters) == -1 && errno == ENOSYS);
    /* The signal is the program's own all the same, and cannot be masked. */
    struct sigaction own = {.sa_handler = handler}, old;
    CHECK(sigaction(SIGSYS, &own, NULL) == 0 && sigaction(SIGSYS, NULL, &old) == 0);
    CHECK(old.sa_handler == handler && raise(SIGSYS) == 0 && handled == SIGSYS);
    sigset_t all, before;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    printf("masked %ld\n", asked());
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0 && handled == SIGSYS);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    int status;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        printf("forked %ld\n", asked());
        fflush(stdout);
        execl(words[0], words[0], "again", NULL);
        _exit(9);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSYS, SIG_IGN);
        raise(SIGSYS);
        printf("ignored\n");
        fflush(stdout);
        signal(SIGSYS, SIG_DFL);
        raise(SIGSYS);
        _exit(9);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    start = now();
    usleep(1000);
    printf("goes on %lld\n", now() - start);
    return 0;
}
