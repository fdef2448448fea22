/* Waits that a signal ends, in simulated time. Each role prints when what happened. */
#define _GNU_SOURCE
/* For siginterrupt. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <errno.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
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
static pthread_t handled_by;
static int ends[2], full[2], pair[2], listener;
static sem_t *semaphore;
static int *word;
static pid_t waited;

static long long now(void)
{
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec - 1000000000000LL;
}

static void handle(int number)
{
    handled += number;
    handled_by = pthread_self();
}

static void handle_with(int number, siginfo_t *about, void *context)
{
    CHECK(about->si_signo == number && context != NULL);
    handled += number;
}

static void set(int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

/* A child that sends the signal after 20 us, and after as many more does what ends the wait. */
static pid_t child_that_signals(void)
{
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(20);
        CHECK(kill(parent, SIGUSR1) == 0);
        usleep(20);
        char bytes[4096];
        CHECK(write(ends[1], "x", 1) == 1 && write(pair[1], "x", 1) == 1 && sem_post(semaphore) == 0);
        *word = 1;
        CHECK(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
        for (int number = 0; number < 16; number++) {
            CHECK(read(full[0], bytes, sizeof bytes) > 0);
        }
        int connection = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in address;
        socklen_t length = sizeof address;
        CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
        CHECK(connect(connection, (struct sockaddr *)&address, length) == 0);
        _exit(0);
    }
    return child;
}

enum call {
    SLEEP, POLL, SELECT, EPOLL, READ, RECEIVE, ACCEPT, CONNECT, WRITE, SEMAPHORE, TIMED, FUTEX, FUTEX_TIMED, CHILD,
    SIGNAL, CALLS
};

static const char *const names[CALLS] = {
    "nanosleep", "poll", "select", "epoll_wait", "read", "recv", "accept", "connect", "write", "sem_wait",
    "sem_timedwait", "futex", "futex, timed", "waitpid", "sigtimedwait"
};

static int wait_in(enum call call)
{
    static char bytes[1 << 16];
    struct timespec length = {1, 0}, until;
    struct pollfd entry = {.fd = ends[0], .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9)};
    const struct hostent *host;
    fd_set set;
    sigset_t some;
    int descriptor, result;
    switch (call) {
    case SLEEP:
        return nanosleep(&length, &length);
    case POLL:
        return poll(&entry, 1, 1000);
    case SELECT:
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        return select(ends[0] + 1, &set, NULL, NULL, NULL);
    case EPOLL:
        descriptor = epoll_create1(0);
        CHECK(epoll_ctl(descriptor, EPOLL_CTL_ADD, ends[0], &event) == 0);
        result = epoll_wait(descriptor, &event, 1, -1);
        close(descriptor);
        return result;
    case READ:
        return read(ends[0], bytes, 1);
    case RECEIVE:
        return recv(pair[0], bytes, 1, 0);
    case ACCEPT:
        return accept(listener, NULL, NULL);
    case CONNECT:
        /* Nobody listens on host 1, which may yet begin to. */
        host = gethostbyname("host1");
        CHECK(host != NULL);
        memcpy(&nobody.sin_addr, host->h_addr_list[0], sizeof nobody.sin_addr);
        descriptor = socket(AF_INET, SOCK_STREAM, 0);
        result = connect(descriptor, (struct sockaddr *)&nobody, sizeof nobody);
        close(descriptor);
        return result;
    case WRITE:
        return write(full[1], bytes, 4096);
    case SEMAPHORE:
        return sem_wait(semaphore);
    case TIMED:
        CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
        until.tv_sec += 1;
        return sem_timedwait(semaphore, &until);
    case FUTEX:
        return syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
    case FUTEX_TIMED:
        return syscall(SYS_futex, word, FUTEX_WAIT, 0, &length, NULL, 0);
    case CHILD:
        return waitpid(waited, NULL, 0);
    case SIGNAL:
        sigemptyset(&some);
        sigaddset(&some, SIGUSR2);
        return sigtimedwait(&some, NULL, &length);
    default:
        return 0;
    }
}

static void make_all(void)
{
    char page[4096] = {0};
    struct sockaddr_in any = {.sin_family = AF_INET};
    CHECK(pipe(ends) == 0 && pipe(full) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    for (int number = 0; number < 16; number++) {
        CHECK(write(full[1], page, sizeof page) == sizeof page);
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, 4) == 0);
    semaphore = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(semaphore != MAP_FAILED && sem_init(semaphore, 1, 0) == 0);
    word = (int *)(semaphore + 1);
}

/* Each call in turn, in a process of its own. */
static void all_calls(int flags)
{
    for (enum call call = 0; call < CALLS; call++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process > 0) {
            int status;
            CHECK(waitpid(process, &status, 0) == process && status == 0);
            continue;
        }
        make_all();
        set(flags);
        waited = child_that_signals();
        long long start = now();
        int result = wait_in(call), error = errno;
        const char *how = result >= 0 ? "done" : error == EINTR ? "EINTR" : strerror(error);
        printf("%s %s %lld, handled %d\n", names[call], how, (now() - start) / 1000, handled == SIGUSR1);
        fflush(stdout);
        /* The child may have nobody left to write to. */
        kill(waited, SIGKILL);
        waitpid(waited, NULL, 0);
        _exit(0);
    }
}

static void *read_in_thread(void *unused)
{
    char byte;
    (void)unused;
    long long start = now();
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    printf("thread's read EINTR %lld, in it %d\n", now() - start, pthread_equal(handled_by, pthread_self()) != 0);
    return NULL;
}

/* A signal to a thread ends its wait, and no other's. */
static void threads(void)
{
    pthread_t thread;
    CHECK(pipe(ends) == 0);
    set(0);
    CHECK(pthread_create(&thread, NULL, read_in_thread, NULL) == 0);
    usleep(50);
    long long start = now();
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    struct timespec length = {0, 3000};
    CHECK(nanosleep(&length, NULL) == 0);
    printf("slept %lld\n", now() - start);
    CHECK(pthread_join(thread, NULL) == 0);
    /* One's own signal has been handled when the call returns, and ends no later wait. */
    handled = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0 && handled == SIGUSR1 && raise(SIGUSR1) == 0 && handled == 2 * SIGUSR1);
    CHECK(nanosleep(&length, NULL) == 0);
}

/* What was set is told, and does what it says. */
static void actions(void)
{
    struct sigaction action = {.sa_sigaction = handle_with, .sa_flags = SA_SIGINFO | SA_RESETHAND}, old;
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_sigaction == handle_with);
    CHECK(old.sa_flags & SA_SIGINFO && old.sa_flags & SA_RESETHAND);
    CHECK(raise(SIGUSR1) == 0 && handled == SIGUSR1);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGUSR1, handle) == SIG_DFL && signal(SIGUSR1, handle) == handle);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == handle);
    CHECK(!(old.sa_flags & SA_SIGINFO) && old.sa_flags & SA_RESTART);
    CHECK(siginterrupt(SIGUSR1, 1) == 0 && sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(!(old.sa_flags & SA_RESTART) && signal(SIGUSR1, handle) == handle);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && !(old.sa_flags & SA_RESTART));
    CHECK(signal(SIGUSR1, SIG_IGN) == handle && raise(SIGUSR1) == 0 && handled == SIGUSR1);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(99, &action, NULL) == -1 && errno == EINVAL);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
    printf("as set\n");
}

int main(int count, char **words)
{
    CHECK(count == 2);
    if (strcmp(words[1], "plain") == 0) {
        all_calls(0);
    } else if (strcmp(words[1], "restart") == 0) {
        all_calls(SA_RESTART);
    } else if (strcmp(words[1], "threads") == 0) {
        threads();
    } else {
        actions();
    }
    return 0;
}
