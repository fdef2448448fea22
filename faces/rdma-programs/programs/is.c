/* Integer sort, as the kernel IS of the NAS benchmarks has it: each rank draws keys, all count how
   many lie in each bucket, buckets are shared out so that ranks get about as many keys, the keys go
   where they belong, and each rank sorts its own. Checked: the keys are in order across ranks, as
   many as were drawn, and the same, by their sum and a sum of their hashes. The first argument is
   how many keys a rank draws. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, KEY_BITS = 20, ROUNDS = 3 };

static int rank, size;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "is: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static uint64_t hash(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The mean of four draws: more keys in the middle than at the ends. */
static uint32_t draw(uint64_t number)
{
    uint64_t drawn = hash(number + 0x9e3779b97f4a7c15u);
    uint64_t sum = 0;
    for (int part = 0; part < 4; part++)
        sum += drawn >> (16 * part) & 0xffff;
    return (uint32_t) (sum << (KEY_BITS - 16) >> 2);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

/* How many, their sum and the sum of their hashes, over all ranks. */
static void sums(const uint32_t *keys, int count, uint64_t all[3])
{
    uint64_t own[3] = { (uint64_t) count, 0, 0 };
    for (int i = 0; i < count; i++) {
        own[1] += keys[i];
        own[2] += hash(keys[i]);
    }
    MPI_Allreduce(own, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* Which rank has each bucket: each takes buckets until it has its share. */
static void share_out(const int all[BUCKETS], uint64_t total, int owner[BUCKETS])
{
    uint64_t before = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        owner[bucket] = (int) (before * (uint64_t) size / total);
        before += (uint64_t) all[bucket];
    }
}

static void sort(int count, uint64_t seed)
{
    uint32_t *keys = calloc((size_t) count, sizeof *keys);
    for (int i = 0; i < count; i++)
        keys[i] = draw(seed + (uint64_t) rank * (uint64_t) count + (uint64_t) i);
    uint64_t drawn[3], sorted[3];
    sums(keys, count, drawn);

    static int own[BUCKETS], all[BUCKETS], owner[BUCKETS];
    memset(own, 0, sizeof own);
    for (int i = 0; i < count; i++)
        own[keys[i] >> (KEY_BITS - 10)]++;
    MPI_Allreduce(own, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    share_out(all, drawn[0], owner);

    int *out_count = calloc((size_t) size, sizeof(int)), *out_at = calloc((size_t) size, sizeof(int));
    int *in_count = calloc((size_t) size, sizeof(int)), *in_at = calloc((size_t) size, sizeof(int));
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        out_count[owner[bucket]] += own[bucket];
    MPI_Alltoall(out_count, 1, MPI_INT, in_count, 1, MPI_INT, MPI_COMM_WORLD);
    int got = in_count[0];
    for (int to = 1; to < size; to++) {
        out_at[to] = out_at[to - 1] + out_count[to - 1];
        in_at[to] = in_at[to - 1] + in_count[to - 1];
        got += in_count[to];
    }
    uint32_t *out = malloc(sizeof *out * (size_t) count), *in = malloc(sizeof *in * (size_t) (got + 1));
    int *next = malloc(sizeof(int) * (size_t) size);
    memcpy(next, out_at, sizeof(int) * (size_t) size);
    for (int i = 0; i < count; i++)
        out[next[owner[keys[i] >> (KEY_BITS - 10)]]++] = keys[i];
    MPI_Alltoallv(out, out_count, out_at, MPI_UINT32_T, in, in_count, in_at, MPI_UINT32_T,
                  MPI_COMM_WORLD);
    qsort(in, (size_t) got, sizeof *in, compare);

    sums(in, got, sorted);
    check(memcmp(drawn, sorted, sizeof drawn) == 0, "the keys are not those that were drawn");
    /* The last key of this rank, or of the ranks before it where it has none. */
    int64_t last = got > 0 ? (int64_t) in[got - 1] : -1, before = -1;
    MPI_Exscan(&last, &before, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    check(rank == 0 || got == 0 || before <= (int64_t) in[0], "the keys are not in order");
    check(got <= 2 * count + BUCKETS, "a rank has far more keys than its share");
    free(keys);
    free(out);
    free(in);
    free(next);
    free(out_count);
    free(out_at);
    free(in_count);
    free(in_at);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = argc > 1 ? atoi(argv[1]) : 1 << 14;
    sort(count, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int round = 0; round < ROUNDS; round++)
        sort(count, 1000003u * (uint64_t) (round + 2));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("is: %d ranks, %d keys each, sorted and checked %d times: %.3f us each\n", size,
               count, ROUNDS, (MPI_Wtime() - begun) * 1e6 / ROUNDS);
    MPI_Finalize();
    return 0;
}
