/* Collectives, whose results are checked, and how long each takes: the slowest rank's mean, in us.
   The first argument is how often each is done; a second and a third name one that is done alone,
   with so many numbers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static int rank, size;
static long *in, *out;

static void check(int right, const char *what, long where)
{
    if (!right) {
        fprintf(stderr, "collectives: rank %d: %s is wrong at %ld\n", rank, what, where);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void barrier(int count)
{
    (void) count;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void broadcast(int count)
{
    for (int i = 0; i < count; i++)
        out[i] = rank == size - 1 ? 7L * i : -1;
    MPI_Bcast(out, count, MPI_LONG, size - 1, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        check(out[i] == 7L * i, "broadcast", i);
}

static void all_reduce(int count)
{
    for (int i = 0; i < count; i++)
        in[i] = rank + i;
    MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        check(out[i] == (long) size * (size - 1) / 2 + (long) i * size, "allreduce", i);
}

static void reduce_scatter(int count)
{
    for (int i = 0; i < count * size; i++)
        in[i] = rank + i;
    MPI_Reduce_scatter_block(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        check(out[i] == (long) size * (size - 1) / 2 + (long) (rank * count + i) * size,
              "reduce-scatter", i);
}

static void all_gather(int count)
{
    for (int i = 0; i < count; i++)
        in[i] = rank * 1000003L + i;
    MPI_Allgather(in, count, MPI_LONG, out, count, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; i++)
        check(out[i] == (i / count) * 1000003L + i % count, "allgather", i);
}

static void all_to_all(int count)
{
    for (int i = 0; i < count * size; i++)
        in[i] = rank * 1000003L + i;
    MPI_Alltoall(in, count, MPI_LONG, out, count, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; i++)
        check(out[i] == (i / count) * 1000003L + (long) rank * count + i % count, "all-to-all", i);
}

static const struct {
    const char *name;
    void (*run)(int count);
    int count;
} COLLECTIVES[] = {
    { "barrier", barrier, 0 },
    { "broadcast", broadcast, 1 },
    { "broadcast", broadcast, MOST },
    { "allreduce", all_reduce, 1 },
    { "allreduce", all_reduce, MOST },
    { "reduce-scatter", reduce_scatter, 16 },
    { "allgather", all_gather, 16 },
    { "all-to-all", all_to_all, 16 },
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    size_t room = sizeof(long) * (size_t) (size * 16 > MOST ? size * 16 : MOST);
    in = malloc(room);
    out = malloc(room);
    for (size_t which = 0; which < sizeof COLLECTIVES / sizeof *COLLECTIVES; which++) {
        if (argc > 3 && (strcmp(argv[2], COLLECTIVES[which].name) != 0
                         || atoi(argv[3]) != COLLECTIVES[which].count))
            continue;
        COLLECTIVES[which].run(COLLECTIVES[which].count);
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        for (int round = 0; round < rounds; round++)
            COLLECTIVES[which].run(COLLECTIVES[which].count);
        double took = MPI_Wtime() - begun, slowest;
        MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("collectives: %d ranks, %14s of %5zu B %10.3f us\n", size,
                   COLLECTIVES[which].name, sizeof(long) * (size_t) COLLECTIVES[which].count,
                   slowest * 1e6 / rounds);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
