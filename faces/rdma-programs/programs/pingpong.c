/* Ping-pong of ranks 0 and 1 from a byte to a megabyte, every byte of which is checked: the time of
   one way, in us. The other ranks, in pairs of their own, do the same at the same time. An argument
   is the one size that is measured. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, WARM = 10, ROUNDS = 100 };

static int rank, size;

static void check(const unsigned char *buffer, int bytes, unsigned char wanted)
{
    for (int i = 0; i < bytes; i++)
        if (buffer[i] != wanted) {
            fprintf(stderr, "pingpong: rank %d: byte %d of %d is wrong\n", rank, i, bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int peer = rank ^ 1;
    unsigned char *buffer = malloc(MOST);
    int only = argc > 1 ? atoi(argv[1]) : 0;
    for (int bytes = only ? only : 1; bytes <= MOST && peer < size; bytes = only ? MOST + 1 : bytes * 8) {
        double begun = 0;
        for (int round = 0; round < WARM + ROUNDS; round++) {
            if (round == WARM)
                begun = MPI_Wtime();
            unsigned char mark = (unsigned char) (round + bytes);
            if (rank < peer) {
                memset(buffer, mark, (size_t) bytes);
                MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                check(buffer, bytes, (unsigned char) ~mark);
            } else {
                MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                check(buffer, bytes, mark);
                memset(buffer, ~mark, (size_t) bytes);
                MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            }
        }
        if (rank == 0)
            printf("pingpong: %7d B %10.3f us one way\n", bytes,
                   (MPI_Wtime() - begun) * 1e6 / ROUNDS / 2);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
