/* What programs do on simulated hosts. Each role prints what it saw: the same in every run. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static long long nanoseconds(clockid_t clock)
{
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* From the start of the run. */
static long long now(void)
{
    return nanoseconds(CLOCK_MONOTONIC) - 1000000000000LL;
}

static void clocks(void)
{
    struct timeval day;
    struct timespec length = {0, 1500}, resolution;
    struct utsname names;
    char name[64];
    long long start = now();
    printf("start %lld\n", start);
    CHECK(nanosleep(&length, NULL) == 0);
    printf("nanosleep %lld\n", now() - start);
    start = now();
    CHECK(usleep(7) == 0 && sleep(2) == 0);
    printf("usleep, sleep %lld\n", now() - start);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &length) == 0);
    length.tv_sec += 1;
    start = now();
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &length, NULL) == 0);
    printf("until %lld\n", now() - start);
    CHECK(gettimeofday(&day, NULL) == 0);
    printf("day %lld.%06lld %lld\n", (long long)day.tv_sec, (long long)day.tv_usec, (long long)time(NULL));
    CHECK(clock_getres(CLOCK_REALTIME, &resolution) == 0);
    printf("resolution %lld\n", (long long)resolution.tv_nsec);
    length.tv_nsec = 1000000000;
    CHECK(nanosleep(&length, NULL) == -1 && errno == EINVAL);
    printf("processor %ld\n", (long)clock());
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_stime.tv_usec == 0);
    printf("used %ld.%06ld\n", (long)used.ru_utime.tv_sec, (long)used.ru_utime.tv_usec);
    CHECK(gethostname(name, sizeof name) == 0 && uname(&names) == 0);
    printf("name %s %s\n", name, names.nodename);
}

static void names(void)
{
    char name[64];
    CHECK(gethostname(name, sizeof name) == 0);
    printf("name %s\nclock %lld\n", name, nanoseconds(CLOCK_REALTIME));
}

static void counter(void)
{
    unsigned processor = 7;
    unsigned long long first = __rdtsc(), second = __rdtscp(&processor), third;
    struct timespec length = {0, 1000000};
    printf("reads %llu processor %u\n", second - first, processor);
    first = __rdtsc();
    CHECK(nanosleep(&length, NULL) == 0);
    second = __rdtsc();
    printf("a millisecond %llu\n", second - first);
    first = __rdtsc();
    for (volatile int at = 0; at < 10000000; at++) {
    }
    second = __rdtsc();
    printf("computing %llu\n", second - first);
    third = nanoseconds(CLOCK_MONOTONIC);
    printf("clock less counter %lld\n", (long long)(third - second));
    /* As programs find how fast the counter is. */
    struct timeval begin, end;
    CHECK(gettimeofday(&begin, NULL) == 0);
    first = __rdtsc();
    do {
        CHECK(gettimeofday(&end, NULL) == 0);
    } while ((end.tv_sec - begin.tv_sec) * 1000000 + end.tv_usec - begin.tv_usec < 20000);
    second = __rdtsc();
    printf("20 ms %llu\n", second - first);
}

static void on_fault(int number)
{
    printf("fault %d\n", number);
    fflush(stdout);
    _exit(0);
}

static void fault(void)
{
    struct sigaction mine, seen;
    sigset_t all;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = on_fault;
    CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
    CHECK(sigaction(SIGSEGV, NULL, &seen) == 0 && seen.sa_handler == on_fault);
    sigfillset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    /* The counter is read all the same. */
    unsigned long long first = __rdtsc();
    printf("reads %llu\n", __rdtsc() - first);
    sigemptyset(&all);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

static int listening(int family, int port)
{
    int one = 1, socket_ = socket(family, SOCK_STREAM, 0);
    CHECK(socket_ >= 0);
    CHECK(setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    if (family == AF_INET) {
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
        CHECK(bind(socket_, (struct sockaddr *)&any, sizeof any) == 0);
    } else {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        CHECK(bind(socket_, (struct sockaddr *)&any, sizeof any) == 0);
    }
    CHECK(listen(socket_, 5) == 0);
    return socket_;
}

static int connected(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo(host, port, &hints, &found) == 0);
    int socket_ = socket(found->ai_family, SOCK_STREAM, 0);
    CHECK(socket_ >= 0);
    CHECK(connect(socket_, found->ai_addr, found->ai_addrlen) == 0);
    freeaddrinfo(found);
    return socket_;
}

/* Small pieces are sent at once, whatever the program says. */
static int is_sent_at_once(int socket_)
{
    int value = 0;
    socklen_t length = sizeof value;
    CHECK(getsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &value, &length) == 0);
    return value;
}

static void print_peer(int socket_)
{
    struct sockaddr_storage peer;
    char name[64];
    socklen_t length = sizeof peer;
    CHECK(getpeername(socket_, (struct sockaddr *)&peer, &length) == 0);
    CHECK(getnameinfo((struct sockaddr *)&peer, length, name, sizeof name, NULL, 0, NI_NUMERICHOST) == 0);
    printf("peer %s\n", name);
}

static void server(int port, int family)
{
    char byte;
    int each, all = listening(family, port);
    each = accept(all, NULL, NULL);
    CHECK(each >= 0 && is_sent_at_once(each));
    printf("accepted at %lld\n", now());
    print_peer(each);
    for (int at = 0; at < 5; at++) {
        CHECK(read(each, &byte, 1) == 1);
        printf("ping %d at %lld\n", byte, now());
        usleep(3);
        CHECK(write(each, &byte, 1) == 1);
    }
    CHECK(read(each, &byte, 1) == 0);
    printf("end at %lld\n", now());
}

static void client(const char *host, const char *port)
{
    int each = connected(host, port);
    CHECK(is_sent_at_once(each));
    printf("connected at %lld\n", now());
    print_peer(each);
    for (char at = 0; at < 5; at++) {
        char byte;
        usleep(10);
        CHECK(send(each, &at, 1, 0) == 1);
        CHECK(recv(each, &byte, 1, 0) == 1 && byte == at);
        printf("pong %d at %lld\n", byte, now());
    }
    usleep(50);
}

enum { BULK = 8 << 20 };

/* More than any buffer holds: both sides wait for each other again and again. */
static void sink(int port)
{
    char *bytes = malloc(BULK);
    int each, all = listening(AF_INET, port);
    CHECK(bytes && (each = accept(all, NULL, NULL)) >= 0);
    usleep(100);
    CHECK(recv(each, bytes, BULK, MSG_WAITALL) == BULK);
    for (int at = 0; at < BULK; at++) {
        CHECK((unsigned char)bytes[at] == (unsigned char)(at * 7));
    }
    CHECK(send(each, "x", 1, 0) == 1);
    printf("all at %lld\n", now() / 1000000);
}

static void bulk_source(const char *host, const char *port)
{
    char *bytes = malloc(BULK), byte;
    int each = connected(host, port);
    CHECK(bytes);
    for (int at = 0; at < BULK; at++) {
        bytes[at] = (char)(at * 7);
    }
    CHECK(write(each, bytes, BULK) == BULK);
    CHECK(recv(each, &byte, 1, 0) == 1);
    printf("answered at %lld\n", now() / 1000000);
}

static void waits(void)
{
    int ends[2], other[2];
    char byte = 5;
    long long start;
    CHECK(pipe(ends) == 0 && pipe(other) == 0);
    struct pollfd entry = {.fd = ends[0], .events = POLLIN};
    start = now();
    CHECK(poll(&entry, 1, 3) == 0);
    printf("poll %lld\n", now() - start);
    struct timespec length = {0, 2500};
    start = now();
    CHECK(ppoll(&entry, 1, &length, NULL) == 0);
    printf("ppoll %lld\n", now() - start);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval half = {0, 500};
    start = now();
    CHECK(select(ends[0] + 1, &set, NULL, NULL, &half) == 0 && !FD_ISSET(ends[0], &set));
    printf("select %lld\n", now() - start);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 9}, seen;
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    start = now();
    CHECK(epoll_wait(epoll, &seen, 1, 4) == 0);
    printf("epoll %lld\n", now() - start);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(20);
        CHECK(write(ends[1], &byte, 1) == 1);
        usleep(20);
        CHECK(write(other[1], &byte, 1) == 1);
        usleep(20);
        _exit(3);
    }
    start = now();
    CHECK(epoll_wait(epoll, &seen, 1, -1) == 1 && seen.data.u32 == 9);
    printf("child's first %lld\n", now() - start);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 5);
    FD_ZERO(&set);
    FD_SET(other[0], &set);
    CHECK(select(other[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(other[0], &set));
    printf("child's second %lld\n", now() - start);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    printf("child's end %lld\n", now() - start);
    CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    /* More than a pipe holds goes to a child and back. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char part[10000];
        long sum = 0;
        close(ends[1]);
        for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0; sum += got) {
            usleep(1);
        }
        _exit(sum == 1000000 ? 0 : 1);
    }
    char *million = calloc(1, 1000000);
    CHECK(million && write(ends[1], million, 1000000) == 1000000);
    close(ends[1]);
    CHECK(wait(&status) == child && status == 0);
    printf("a million %d\n", now() - start > 100000);
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    handled = signal;
}

/* A child that ends, or that sends a signal to its parent, 20 us after it began. */
static pid_t child_that(int signal)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(20);
        CHECK(signal == SIGCHLD || kill(getppid(), signal) == 0);
        _exit(0);
    }
    return child;
}

/* Waits for signals, as shells and servers do. */
static void signals(void)
{
    sigset_t some, before;
    struct sigaction action = {.sa_handler = handle};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&some);
    sigaddset(&some, SIGCHLD);
    sigaddset(&some, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &some, &before) == 0);
    pid_t child = child_that(SIGCHLD);
    long long start = now();
    CHECK(sigsuspend(&before) == -1 && errno == EINTR && handled == SIGCHLD);
    printf("suspended %lld\n", now() - start);
    CHECK(wait(NULL) == child);
    /* The mask is as it was: this one waits. */
    child = child_that(SIGUSR1);
    handled = 0;
    start = now();
    int signal;
    CHECK(sigwait(&some, &signal) == 0 && signal == SIGUSR1 && handled == 0);
    printf("waited %lld\n", now() - start);
    CHECK(wait(NULL) == child);
    siginfo_t about;
    CHECK(sigwaitinfo(&some, &about) == SIGCHLD && about.si_pid == child);
    struct timespec length = {.tv_nsec = 3000};
    start = now();
    CHECK(sigtimedwait(&some, &about, &length) == -1 && errno == EAGAIN);
    printf("in vain %lld\n", now() - start);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    CHECK(sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL) == 0);
    child = child_that(SIGUSR1);
    start = now();
    CHECK(pause() == -1 && errno == EINTR && handled == SIGUSR1);
    printf("paused %lld\n", now() - start);
    CHECK(wait(NULL) == child);
    start = now();
    CHECK(system("sleep 0 & sleep 0; wait") == 0);
    printf("a shell %d\n", now() - start > 1000);
}

static long long handled_at;

/* As programs do that measure for some seconds: the first alarm sets the next. */
static void handle_and_go_on(int signal)
{
    handled_at = now();
    handled += signal;
    if (handled == signal) {
        CHECK(alarm(2) == 0);
    }
}

static void called(union sigval value)
{
    handled_at = now();
    handled = value.sival_int;
}

/* Timers by all that sets them: each is due at its time, and ends waits. */
static void timers(void)
{
    struct sigaction action = {.sa_handler = handle};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    long long start = now();
    CHECK(alarm(3) == 0 && pause() == -1 && errno == EINTR && handled == SIGALRM);
    printf("paused %lld\n", now() - start);
    CHECK(alarm(9) == 0);
    CHECK(usleep(1500000) == 0);
    CHECK(alarm(0) == 8);
    struct itimerval each = {{0, 2000}, {0, 3000}};
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
    struct timespec length = {0, 20000000}, rest;
    start = now();
    CHECK(nanosleep(&length, &rest) == -1 && errno == EINTR);
    printf("slept %lld, rest %ld\n", now() - start, rest.tv_nsec);
    start = now();
    CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR);
    printf("polled %lld\n", now() - start);
    start = now();
    CHECK(select(0, NULL, NULL, NULL, &(struct timeval){1, 0}) == -1 && errno == EINTR);
    printf("selected %lld\n", now() - start);
    CHECK(sleep(4) == 4);
    CHECK(getitimer(ITIMER_REAL, &each) == 0 && each.it_interval.tv_usec == 2000);
    each = (struct itimerval){{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &each, NULL) == 0);
    /* A loop that looks at a clock until an alarm has come twice. */
    action.sa_handler = handle_and_go_on;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    handled = 0;
    start = now();
    CHECK(alarm(1) == 0);
    while (handled < 2 * SIGALRM) {
        usleep(1000);
    }
    printf("alarms until %lld\n", (handled_at - start) / 1000);
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &some, NULL) == 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    event.sigev_value.sival_int = 77;
    struct itimerspec when = {{0, 4000}, {0, 5000}}, left;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    start = now();
    CHECK(timer_settime(timer, 0, &when, NULL) == 0);
    siginfo_t about;
    for (int at = 0; at < 2; at++) {
        CHECK(sigwaitinfo(&some, &about) == SIGUSR1);
        CHECK(about.si_code == SI_TIMER && about.si_value.sival_int == 77);
        printf("signal %lld\n", now() - start);
    }
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 4000);
    CHECK(timer_delete(timer) == 0 && timer_delete(timer) == -1);
    event = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = called};
    event.sigev_value.sival_int = 5;
    CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
    when = (struct itimerspec){{0, 0}, {0, 8000}};
    start = now();
    CHECK(timer_settime(timer, 0, &when, NULL) == 0 && usleep(100) == 0 && handled == 5);
    printf("called %lld\n", handled_at - start);
    /* One that is read: blocking, after some have gone by, and by poll. */
    int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t count;
    when = (struct itimerspec){{0, 10000}, {0, 20000}};
    start = now();
    CHECK(descriptor >= 0 && timerfd_settime(descriptor, 0, &when, NULL) == 0);
    CHECK(read(descriptor, &count, sizeof count) == sizeof count && count == 1);
    printf("read %lld\n", now() - start);
    CHECK(usleep(45) == 0 && read(descriptor, &count, sizeof count) == sizeof count && count == 4);
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    CHECK(poll(&entry, 1, -1) == 1);
    printf("again %lld\n", now() - start);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &when.it_value) == 0);
    when.it_value.tv_sec += 1;
    start = now();
    CHECK(timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &when, NULL) == 0);
    CHECK(poll(&entry, 1, -1) == 1);
    printf("until %lld\n", now() - start);
    CHECK(close(descriptor) == 0);
}

/* What a process has computed is seen when its clock says so: here by reading clocks. */
static void ahead(void)
{
    int ends[2], status;
    char byte;
    eventfd_t count;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(5010)};
    CHECK(pipe(ends) == 0);
    int counter = eventfd(0, 0), listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(counter >= 0 && bind(listener, (struct sockaddr *)&own, sizeof own) == 0);
    const struct hostent *host = gethostbyname("host0");
    CHECK(host != NULL);
    memcpy(&own.sin_addr, host->h_addr_list[0], sizeof own.sin_addr);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        long long start = now();
        while (now() - start < 4000) {
        }
        close(ends[1]);
        while (now() - start < 8000) {
        }
        CHECK(eventfd_write(counter, 3) == 0);
        while (now() - start < 12000) {
        }
        CHECK(listen(listener, 1) == 0);
        while (now() - start < 16000) {
        }
        exit(0);
    }
    long long start = now();
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 0);
    printf("closed %lld\n", now() - start);
    CHECK(eventfd_read(counter, &count) == 0 && count == 3);
    printf("counted %lld\n", now() - start);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(connection, (struct sockaddr *)&own, sizeof own) == 0);
    printf("heard %lld\n", now() - start);
    CHECK(wait(&status) == child && status == 0);
    printf("ended %lld\n", now() - start);
}

/* What is outside of the simulation: a service of this machine that answers after a while. */
static void outside(const char *port)
{
    char byte;
    int each = connected("127.0.0.1", port);
    CHECK(read(each, &byte, 1) == 1);
    printf("answer %c at %lld\n", byte, now());
}

static void says_bytes(const unsigned char *bytes, int count)
{
    for (int place = 0; place < count; place++)
        printf("%02x", bytes[place]);
    printf("\n");
}

/* Random numbers, a line each. Ends what it has printed, so that a child does not print it too. */
static void draws(void)
{
    unsigned char bytes[300];
    CHECK(getrandom(bytes, 20, 0) == 20);
    says_bytes(bytes, 20);
    CHECK(getentropy(bytes, 9) == 0);
    says_bytes(bytes, 9);
    CHECK(syscall(SYS_getrandom, bytes, 8, GRND_NONBLOCK) == 8);
    says_bytes(bytes, 8);
    CHECK(getrandom(bytes, 8, 0x8000) == -1 && errno == EINVAL);
    CHECK(getentropy(bytes, sizeof bytes) == -1 && errno == EIO);
    /* A newer C library has these. */
    if (dlsym(RTLD_NEXT, "arc4random")) {
        unsigned (*number)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "arc4random");
        void (*fill)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "arc4random_buf");
        unsigned (*below)(unsigned) =
            (unsigned (*)(unsigned))dlsym(RTLD_DEFAULT, "arc4random_uniform");
        printf("%08x\n", number());
        fill(bytes, 13);
        says_bytes(bytes, 13);
        for (int turn = 0; turn < 100; turn++)
            CHECK(below(10) < 10 && below(0xc0000000) < 0xc0000000 && below(1) == 0);
        printf("%08x\n", below(0xffffffff));
    }
    fflush(stdout);
}

/* How another library finds the state of this process. */
static void symbol(void)
{
    const void *(*table)(void) = (const void *(*)(void))dlsym(RTLD_DEFAULT, "viaduct_turns_1");
    CHECK(table);
    printf("table %d\n", table() != NULL);
}

static void programs(const char *self)
{
    char *words[] = {(char *)self, "says", "spawned", NULL};
    extern char **environ;
    int status;
    pid_t child;
    long long start = now();
    CHECK(posix_spawn(&child, self, NULL, NULL, words, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("spawned took %lld\n", now() - start);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(execl("/nowhere", "/nowhere", "a", "b", "c", "d", "e", "f", NULL) == -1 && errno == ENOENT);
        unsigned long long first = __rdtsc();
        printf("not replaced %llu\n", __rdtsc() - first);
        fflush(stdout);
        usleep(5);
        execl(self, self, "says", "replaced", "1", "2", "3", "4", "5", "6", NULL);
        _exit(9);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("replaced took %lld\n", now() - start);
    fflush(stdout);
    char line[4096];
    snprintf(line, sizeof line, "%s says first && %s says second", self, self);
    CHECK(system(line) == 0);
    printf("shell took %d\n", now() - start > 10000);
}

int main(int count, char **words)
{
    const char *role = count > 1 ? words[1] : "";
    if (strcmp(role, "clocks") == 0) {
        clocks();
    } else if (strcmp(role, "names") == 0) {
        names();
    } else if (strcmp(role, "counter") == 0) {
        counter();
    } else if (strcmp(role, "fault") == 0) {
        fault();
    } else if (strcmp(role, "server") == 0) {
        server(atoi(words[2]), AF_INET);
    } else if (strcmp(role, "server6") == 0) {
        server(atoi(words[2]), AF_INET6);
    } else if (strcmp(role, "client") == 0) {
        client(words[2], words[3]);
    } else if (strcmp(role, "sink") == 0) {
        sink(atoi(words[2]));
    } else if (strcmp(role, "source") == 0) {
        bulk_source(words[2], words[3]);
    } else if (strcmp(role, "waits") == 0) {
        waits();
    } else if (strcmp(role, "programs") == 0) {
        programs(words[0]);
    } else if (strcmp(role, "late") == 0) {
        usleep(500);
        server(atoi(words[2]), AF_INET);
    } else if (strcmp(role, "signals") == 0) {
        signals();
    } else if (strcmp(role, "timers") == 0) {
        timers();
    } else if (strcmp(role, "ahead") == 0) {
        ahead();
    } else if (strcmp(role, "outside") == 0) {
        outside(words[2]);
    } else if (strcmp(role, "symbol") == 0) {
        symbol();
    } else if (strcmp(role, "lines") == 0) {
        int lines = atoi(words[2]), status;
        for (int line = 0; line < lines; line++) {
            printf("line %d\n", line);
            fprintf(stderr, "error %d\n", line);
        }
        fflush(stdout);
        /* Those that it starts write to the same. */
        pid_t child = fork();
        if (child == 0) {
            execl(words[0], words[0], "says", "child", NULL);
            _exit(9);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else if (strcmp(role, "numbers") == 0) {
        /* As UCX's library does, if it is loaded. */
        extern unsigned long ucs_generate_uuid(unsigned long) __attribute__((weak));
        int status;
        CHECK(ucs_generate_uuid != NULL);
        for (int made = 0; made < 3; made++)
            printf("%lx\n", ucs_generate_uuid((unsigned long) getpid()));
        fflush(stdout);
        if (count > 2) {
            pid_t child = fork();
            if (child == 0) {
                execl(words[0], words[0], role, NULL);
                _exit(9);
            }
            printf("%lx\n", ucs_generate_uuid(0));
            fflush(stdout);
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    } else if (strcmp(role, "draws") == 0) {
        draws();
        if (count > 2) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                draws();
                _exit(0);
            }
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            draws();
        }
    } else if (strcmp(role, "says") == 0) {
        usleep(10);
        printf("%s, %d words\n", words[2], count);
    } else {
        fprintf(stderr, "no role %s\n", role);
        return 1;
    }
    return 0;
}
