/* A thread that asks epoll in a loop, which tells it the same at once each time, until another says
 * that it may do something about it. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            perror(#what); \
            exit(1); \
        } \
    } while (0)

static volatile int may_go_on;
static int reads_clock, timeout_ms, epoll;
static long long began, ended;

static long long now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *asks(void *unused)
{
    struct epoll_event events[4];
    (void)unused;
    began = now();
    do {
        CHECK(epoll_wait(epoll, events, 4, timeout_ms) == (timeout_ms != 0));
        if (reads_clock) {
            now();
        }
    } while (!may_go_on);
    ended = now();
    return NULL;
}

int main(int count, char **words)
{
    reads_clock = count > 1 && words[1][0] == 'c';
    timeout_ms = count > 1 && words[1][0] == 'n' ? 0 : -1;
    int length = reads_clock ? 225 : 200;
    struct epoll_event event = {.events = EPOLLIN};
    int counter = eventfd(timeout_ms != 0, 0);
    epoll = epoll_create1(0);
    CHECK(counter >= 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, asks, NULL) == 0);
    /* At something real, so that each step of the others counts. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct pollfd nothing = {.fd = ends[0], .events = POLLIN};
    CHECK(poll(&nothing, 1, 3) == 0);
    long long said = now();
    may_go_on = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* Between the two clock reads are whole calls, and the last is the first behind what was said. */
    long long late = ended - 25 - said;
    printf("%d on its grid, %d at once\n", (ended - 25 - began) % length == 0, late >= 0 && late <= length);
    return 0;
}
