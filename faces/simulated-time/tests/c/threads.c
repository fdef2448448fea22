/* What threads of a simulated process do to each other. Each role prints when what happened. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

enum { THREADS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static int word, queue;
static volatile int runs;

static long long now(void)
{
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec - 1000000000000LL;
}

static struct timespec after(clockid_t clock, long nanoseconds)
{
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    time.tv_nsec += nanoseconds;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void start(pthread_t *threads, void *(*routine)(void *))
{
    for (intptr_t at = 0; at < THREADS; at++) {
        CHECK(pthread_create(&threads[at], NULL, routine, (void *)(at + 1)) == 0);
    }
}

static void join(pthread_t *threads)
{
    for (int at = 0; at < THREADS; at++) {
        void *result;
        CHECK(pthread_join(threads[at], &result) == 0 && (intptr_t)result == (at + 1) * 10);
    }
    printf("joined at %lld\n", now());
}

/* Between calls nobody else runs, however long that takes. */
static void alone(void)
{
    CHECK(runs == 0);
    runs = 1;
    for (volatile int at = 0; at < 300000; at++) {
    }
    runs = 0;
}

static void *locks_it(void *number_)
{
    intptr_t number = (intptr_t)number_;
    for (int round = 0; round < 3; round++) {
        alone();
        CHECK(pthread_mutex_lock(&mutex) == 0);
        printf("%d has it at %lld\n", (int)number, now());
        usleep(number * 10);
        alone();
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        usleep(1);
    }
    return (void *)(number * 10);
}

static void mutexes(void)
{
    pthread_t threads[THREADS];
    pthread_mutexattr_t attributes;
    pthread_mutex_t checked;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&checked, &attributes) == 0);
    CHECK(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
    start(threads, locks_it);
    usleep(5);
    struct timespec limit = after(CLOCK_REALTIME, 2000);
    long long begin = now();
    CHECK(pthread_mutex_timedlock(&mutex, &limit) == ETIMEDOUT);
    printf("in vain for %lld\n", now() - begin);
    CHECK(pthread_tryjoin_np(threads[0], NULL) == EBUSY);
    join(threads);
}

static void *takes(void *number_)
{
    intptr_t number = (intptr_t)number_;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (int round = 0; round < 2; round++) {
        while (queue == 0) {
            CHECK(pthread_cond_wait(&condition, &mutex) == 0);
        }
        queue--;
        printf("%d takes one at %lld\n", (int)number, now());
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    pthread_exit((void *)(number * 10));
}

static void conditions(void)
{
    pthread_t threads[THREADS];
    start(threads, takes);
    for (int at = 0; at < 4; at++) {
        usleep(100);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        queue++;
        CHECK(pthread_cond_signal(&condition) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    usleep(100);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    queue += 2;
    CHECK(pthread_cond_broadcast(&condition) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    join(threads);
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int at = 0; at < 2; at++) {
        pthread_condattr_t attributes;
        pthread_cond_t timed;
        CHECK(pthread_condattr_init(&attributes) == 0);
        CHECK(pthread_condattr_setclock(&attributes, clocks[at]) == 0);
        CHECK(pthread_cond_init(&timed, &attributes) == 0);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        struct timespec limit = after(clocks[at], 7000);
        long long begin = now();
        CHECK(pthread_cond_timedwait(&timed, &mutex, &limit) == ETIMEDOUT);
        printf("in vain for %lld\n", now() - begin);
        CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_cond_destroy(&timed) == 0);
    }
}

static void *meets(void *number_)
{
    intptr_t number = (intptr_t)number_;
    for (int round = 0; round < 2; round++) {
        usleep(number * 10);
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        printf("%d is past the barrier at %lld%s\n", (int)number, now(), result ? ", last" : "");
    }
    CHECK(sem_wait(&semaphore) == 0);
    printf("%d has the semaphore at %lld\n", (int)number, now());
    CHECK((number == 1 ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock)) == 0);
    printf("%d has the lock at %lld\n", (int)number, now());
    usleep(30);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    CHECK(pthread_spin_lock(&spin) == 0);
    usleep(3);
    CHECK(pthread_spin_unlock(&spin) == 0);
    printf("%d has been in turn at %lld\n", (int)number, now());
    return (void *)(number * 10);
}

static void others(void)
{
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0 && sem_init(&semaphore, 0, 0) == 0);
    CHECK(pthread_spin_init(&spin, 0) == 0);
    struct timespec limit = after(CLOCK_REALTIME, 900);
    long long begin = now();
    CHECK(sem_timedwait(&semaphore, &limit) == -1 && errno == ETIMEDOUT);
    printf("in vain for %lld\n", now() - begin);
    start(threads, meets);
    usleep(200);
    for (int at = 0; at < THREADS; at++) {
        usleep(5);
        CHECK(sem_post(&semaphore) == 0);
    }
    join(threads);
}

static long futex(int operation, int value, const struct timespec *limit, int bits)
{
    return syscall(SYS_futex, &word, operation, value, limit, NULL, bits);
}

static void *sleeps(void *number_)
{
    intptr_t number = (intptr_t)number_;
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) < number) {
        futex(FUTEX_WAIT_PRIVATE, number - 1, NULL, 0);
        usleep(1);
    }
    printf("%d sees %d at %lld\n", (int)number, word, now());
    return (void *)(number * 10);
}

static void futexes(void)
{
    pthread_t threads[THREADS];
    struct timespec limit = {0, 1500};
    long long begin = now();
    CHECK(futex(FUTEX_WAIT, 0, &limit, 0) == -1 && errno == ETIMEDOUT);
    printf("in vain for %lld\n", now() - begin);
    CHECK(futex(FUTEX_WAIT, 1, NULL, 0) == -1 && errno == EAGAIN);
    limit = after(CLOCK_MONOTONIC, 2500);
    begin = now();
    CHECK(futex(FUTEX_WAIT_BITSET_PRIVATE, 0, &limit, 1) == -1 && errno == ETIMEDOUT);
    printf("in vain for %lld\n", now() - begin);
    start(threads, sleeps);
    for (int at = 0; at < THREADS; at++) {
        usleep(50);
        __atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
        futex(FUTEX_WAKE_PRIVATE, 1000, NULL, 0);
    }
    join(threads);
}

/* A semaphore that two processes share. */
static void shared(void)
{
    sem_t *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(both != MAP_FAILED && sem_init(both, 1, 0) == 0);
    long long begin = now();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t threads[THREADS];
        usleep(40);
        CHECK(sem_post(both) == 0);
        start(threads, locks_it);
        join(threads);
        exit(0);
    }
    CHECK(sem_wait(both) == 0);
    printf("posted after %lld\n", now() - begin);
    fflush(stdout);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* What two processes share: a ball, and whom it is for. */
struct table {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int ball;
};

static void plays_at(struct table *table, int side)
{
    for (int round = 0; round < 3; round++) {
        CHECK(pthread_mutex_lock(&table->mutex) == 0);
        while (table->ball % 2 != side) {
            CHECK(pthread_cond_wait(&table->condition, &table->mutex) == 0);
        }
        printf("%d has ball %d at %lld\n", side, table->ball, now());
        fflush(stdout);
        usleep(10);
        table->ball++;
        CHECK((round == 1 ? pthread_cond_broadcast : pthread_cond_signal)(&table->condition) == 0);
        CHECK(pthread_mutex_unlock(&table->mutex) == 0);
    }
}

/* Two processes wait for each other at a condition variable in their memory; nobody calls at last. */
static void shared_condition(void)
{
    struct table *table = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    int status;
    CHECK(table != MAP_FAILED);
    CHECK(pthread_mutexattr_init(&of_mutex) == 0);
    CHECK(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&table->mutex, &of_mutex) == 0);
    CHECK(pthread_condattr_init(&of_condition) == 0);
    CHECK(pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_condattr_setclock(&of_condition, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&table->condition, &of_condition) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        plays_at(table, 1);
        exit(0);
    }
    plays_at(table, 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    long long begin = now();
    struct timespec until = after(CLOCK_MONOTONIC, 7000);
    CHECK(pthread_mutex_lock(&table->mutex) == 0);
    CHECK(pthread_cond_timedwait(&table->condition, &table->mutex, &until) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&table->mutex) == 0);
    printf("in vain for %lld\n", now() - begin);
    CHECK(pthread_cond_destroy(&table->condition) == 0);
    pthread_barrierattr_t of_barrier;
    CHECK(pthread_barrierattr_init(&of_barrier) == 0);
    CHECK(pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrier_init(&barrier, &of_barrier, 2) == ENOTSUP);
}

static volatile int ball;

static void *plays(void *number_)
{
    intptr_t number = (intptr_t)number_;
    for (int round = 0; round < 20; round++) {
        while (ball % THREADS != number - 1) {
        }
        usleep(number);
        ball = ball + 1;
        /* The others see it before this has slept. */
        usleep(2);
    }
    return (void *)(number * 10);
}

/* Who waits in a loop that makes no call goes on when what it waits for is written. */
static void loops(void)
{
    pthread_t threads[THREADS];
    start(threads, plays);
    while (ball != 20 * THREADS) {
    }
    printf("%d at %lld\n", ball, now());
    join(threads);
}

/* Memory that two processes share. */
static void shared_loop(void)
{
    volatile int *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(both != MAP_FAILED);
    long long begin = now();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int round = 0; round < 20; round++) {
            while (*both != 2 * round) {
            }
            usleep(10);
            *both = 2 * round + 1;
        }
        exit(0);
    }
    for (int round = 0; round < 20; round++) {
        while (*both != 2 * round + 1) {
        }
        usleep(5);
        *both = 2 * round + 2;
    }
    printf("after %lld\n", now() - begin);
    fflush(stdout);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void computes(void)
{
    volatile long at = 0;
    while (at < 1000000000) {
        at++;
    }
    printf("%ld at %lld\n", at, now());
}

/* The first to touch each page, a gigabyte of them. */
static void touches(void)
{
    size_t size = (size_t)128 << 20;
    volatile char *pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(madvise((void *)pages, size, MADV_NOHUGEPAGE) == 0);
    for (int round = 0; round < 8; round++) {
        for (size_t at = 0; at < size; at += 4096) {
            pages[at] = 1;
        }
        CHECK(madvise((void *)pages, size, MADV_DONTNEED) == 0);
    }
    printf("touched at %lld\n", now());
}

static void spins_forever(void)
{
    while (ball == 0) {
    }
}

static void *takes_both(void *unused)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    usleep(10);
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    return unused;
}

static void deadlock(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, takes_both, NULL) == 0);
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    usleep(10);
    CHECK(pthread_mutex_lock(&mutex) == 0);
}

static void *prints(void *unused)
{
    printf("printed at %lld\n", now());
    return unused;
}

/* The lock of stdout stands for that of malloc: nobody sees who waits for it. */
static void read_within(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, prints, NULL) == 0);
    flockfile(stdout);
    for (int reading = 0; reading < 100; reading++) {
        now();
    }
    CHECK(pthread_rwlock_rdlock(&lock) == 0);
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    printf("read at %lld\n", now());
    funlockfile(stdout);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int count, char **words)
{
    const char *role = count > 1 ? words[1] : "";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (strcmp(role, "mutexes") == 0) {
        mutexes();
    } else if (strcmp(role, "conditions") == 0) {
        conditions();
    } else if (strcmp(role, "others") == 0) {
        others();
    } else if (strcmp(role, "read-within") == 0) {
        read_within();
    } else if (strcmp(role, "futexes") == 0) {
        futexes();
    } else if (strcmp(role, "shared") == 0) {
        shared();
    } else if (strcmp(role, "shared-condition") == 0) {
        shared_condition();
    } else if (strcmp(role, "loops") == 0) {
        loops();
    } else if (strcmp(role, "shared-loop") == 0) {
        shared_loop();
    } else if (strcmp(role, "computes") == 0) {
        computes();
    } else if (strcmp(role, "touches") == 0) {
        touches();
    } else if (strcmp(role, "spins") == 0) {
        spins_forever();
    } else if (strcmp(role, "deadlock") == 0) {
        deadlock();
    } else {
        fprintf(stderr, "no role %s\n", role);
        return 1;
    }
    return 0;
}
