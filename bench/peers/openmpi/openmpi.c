/* MPI between two ranks: KIND is mpi. Started by mpirun; both sides spin, as MPI does. */
#include "peer.h"

#include <mpi.h>

enum { TAG = 1 };

static int other;
static MPI_Request sends[PEER_SLOTS];
static MPI_Request receives[PEER_SLOTS];

static void end_post(int slot, size_t bytes)
{
    MPI_Isend(peer_sending[slot], (int)bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &sends[slot]);
}

static void end_settle(int slot)
{
    MPI_Wait(&sends[slot], MPI_STATUS_IGNORE);
}

static void end_expect(int slot, size_t bytes)
{
    MPI_Irecv(peer_receiving[slot], (int)bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
              &receives[slot]);
}

static void end_receive(int slot, size_t bytes)
{
    (void)bytes;
    MPI_Wait(&receives[slot], MPI_STATUS_IGNORE);
}

static uint64_t end_sum(int slot, size_t bytes)
{
    return peer_sum(peer_receiving[slot], bytes);
}

static void end_release(int slot)
{
    (void)slot;
}

int main(int count, char **arguments)
{
    peer_begin(count, arguments);
    MPI_Init(&count, &arguments);
    int side;
    MPI_Comm_rank(MPI_COMM_WORLD, &side);
    other = !side;
    peer_pin(side);
    char version[64];
#ifdef OMPI_MAJOR_VERSION
    snprintf(version, sizeof version, "%d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
             OMPI_RELEASE_VERSION);
#else
    snprintf(version, sizeof version, "MPI %d.%d", MPI_VERSION, MPI_SUBVERSION);
#endif
    peer_measure(side, version);
    MPI_Finalize();
    return 0;
}
