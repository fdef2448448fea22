/* A mix of what programs of MPI do, every byte of which is checked: ping-pong from a byte to a
   megabyte, all-to-all, allreduce, and windows with put, get, accumulate and fetch-and-op. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int right, const char *what, long where)
{
    if (!right) {
        fprintf(stderr, "mix: rank %d: %s is wrong at %ld\n", rank, what, where);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char byte_of(long from, long round, long index)
{
    return (unsigned char) (from * 31 + round * 7 + index * 13 + (index >> 8));
}

static void ping_pong(void)
{
    enum { MOST = 1 << 20 };
    unsigned char *buffer = malloc(MOST);
    int peer = rank ^ 1;
    for (long bytes = 1; bytes <= MOST && peer < size; bytes *= 4) {
        for (long round = 0; round < 5; round++) {
            for (int turn = 0; turn < 2; turn++) {
                if ((rank & 1) == turn) {
                    for (long i = 0; i < bytes; i++)
                        buffer[i] = byte_of(rank, round, i);
                    MPI_Send(buffer, (int) bytes, MPI_BYTE, peer, (int) round, MPI_COMM_WORLD);
                } else {
                    MPI_Status status;
                    int count;
                    memset(buffer, 0, (size_t) bytes);
                    MPI_Recv(buffer, MOST, MPI_BYTE, peer, (int) round, MPI_COMM_WORLD, &status);
                    MPI_Get_count(&status, MPI_BYTE, &count);
                    check(count == bytes, "the length of a message", bytes);
                    for (long i = 0; i < bytes; i++)
                        check(buffer[i] == byte_of(peer, round, i), "a message", i);
                }
            }
        }
    }
    free(buffer);
}

static void all_to_all(long count)
{
    int *out = malloc(sizeof(int) * (size_t) (count * size));
    int *in = malloc(sizeof(int) * (size_t) (count * size));
    for (long i = 0; i < count * size; i++)
        out[i] = rank * 1000003 + (int) i;
    MPI_Alltoall(out, (int) count, MPI_INT, in, (int) count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (long i = 0; i < count; i++)
            check(in[from * count + i] == from * 1000003 + (int) (rank * count + i), "all-to-all", i);
    free(out);
    free(in);
}

static void all_reduce(long count)
{
    long *out = calloc((size_t) count, sizeof(long));
    long *in = calloc((size_t) count, sizeof(long));
    for (long i = 0; i < count; i++)
        out[i] = rank + i;
    MPI_Allreduce(out, in, (int) count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < count; i++)
        check(in[i] == (long) size * (size - 1) / 2 + i * size, "allreduce", i);
    free(out);
    free(in);
}

static void windows(void)
{
    enum { WORDS = 8192 };
    long *memory;
    MPI_Win window;
    MPI_Win_allocate(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &window);
    long *mine = malloc(WORDS * sizeof(long));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (long i = 0; i < WORDS; i++) {
        memory[i] = -1;
        mine[i] = rank * 100000 + i;
    }
    MPI_Win_fence(0, window);
    MPI_Put(mine, WORDS, MPI_LONG, right, 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (long i = 0; i < WORDS; i++)
        check(memory[i] == left * 100000 + i, "what was put", i);
    MPI_Win_fence(0, window);
    memset(mine, 0, WORDS * sizeof(long));
    MPI_Get(mine, WORDS, MPI_LONG, right, 0, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (long i = 0; i < WORDS; i++)
        check(mine[i] == rank * 100000 + i, "what was got", i);
    MPI_Win_fence(0, window);
    for (long i = 0; i < WORDS; i++)
        memory[i] = 0;
    MPI_Win_fence(0, window);
    for (int to = 0; to < size; to++) {
        long add = rank + 1;
        MPI_Accumulate(&add, 1, MPI_LONG, to, 5, 1, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    check(memory[5] == (long) size * (size + 1) / 2, "what was accumulated", 5);
    MPI_Win_fence(0, window);
    long one = 1, last = -1;
    MPI_Win_lock_all(0, window);
    for (int turn = 0; turn < 50; turn++) {
        long before;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 6, MPI_SUM, window);
        MPI_Win_flush(0, window);
        check(before > last, "a counter that all add to", turn);
        last = before;
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    long seen;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&seen, 1, MPI_LONG, 0, 6, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    check(seen == 50L * size, "the sum of that counter", 6);
    MPI_Barrier(MPI_COMM_WORLD);
    free(mine);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ping_pong();
    all_to_all(1);
    all_to_all(1000);
    all_to_all(20000);
    all_reduce(1);
    all_reduce(10000);
    windows();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("mix: %d ranks, every check passed\n", size);
    MPI_Finalize();
    return 0;
}
