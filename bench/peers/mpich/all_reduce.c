/* An all-reduce of one number of 8 bytes, often. Rank 0 says when that begins, and how long it has
   taken by the clock that it sees, in us: whoever reads the lines has the real time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void reduce(long times, int rank, int size)
{
    for (long i = 0; i < times; i++) {
        double sum, own = rank;
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2.0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int count, char **words)
{
    int rank, size;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* Connections are made meanwhile. */
    reduce(5, rank, size);
    if (rank == 0) {
        printf("begins\n");
        fflush(stdout);
    }
    double begin = MPI_Wtime();
    reduce(atol(words[1]), rank, size);
    if (rank == 0) {
        printf("took %.4f\n", (MPI_Wtime() - begin) * 1e6);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
