/* A Fourier transform of three dimensions, as the kernel FT of the NAS benchmarks has it: planes
   over the ranks, two dimensions where they are, an all-to-all, the third. Checked: a sum of waves
   becomes one peak for each wave and nothing beside, and the way back gives the waves again. The
   first argument is how many points an edge has, a power of two and a multiple of the ranks. */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAVES = 3 };

static const double PI = 3.14159265358979323846;

/* Each wave: how often it swings along x, y and z, and how high it is. */
static const struct {
    int x, y, z;
    double height;
} WAVE[WAVES] = { { 1, 2, 3, 1.0 }, { 5, 0, 7, 0.5 }, { 0, 6, 1, 0.25 } };

static int rank, size, n, planes;

static void fail(const char *what, double by)
{
    fprintf(stderr, "ft: rank %d: %s is wrong by %g\n", rank, what, by);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The transform of `n` points, `step` apart, forth (-1) or back (1). */
static void transform(double complex *points, size_t step, int sign)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex other = points[(size_t) i * step];
            points[(size_t) i * step] = points[(size_t) j * step];
            points[(size_t) j * step] = other;
        }
    }
    for (int length = 2; length <= n; length *= 2)
        for (int k = 0; k < length / 2; k++) {
            double complex turn = cexp(sign * 2 * PI * I * k / length);
            for (int at = k; at < n; at += length) {
                double complex *a = &points[(size_t) at * step];
                double complex *b = &points[(size_t) (at + length / 2) * step];
                double complex turned = turn * *b;
                *b = *a - turned;
                *a += turned;
            }
        }
}

/* From planes of z, each [y][x], to planes of x, each [y][z], and by the same way back. */
static void exchange(const double complex *from, double complex *to, double complex *room)
{
    size_t part = (size_t) planes * (size_t) planes * (size_t) n;
    double complex *out = room, *in = room + part * (size_t) size;
    for (int peer = 0; peer < size; peer++)
        for (int z = 0; z < planes; z++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < planes; x++)
                    out[part * (size_t) peer + (size_t) ((z * n + y) * planes + x)] =
                        from[(size_t) ((z * n + y) * n + peer * planes + x)];
    MPI_Alltoall(out, (int) part, MPI_C_DOUBLE_COMPLEX, in, (int) part, MPI_C_DOUBLE_COMPLEX,
                 MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        for (int z = 0; z < planes; z++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < planes; x++)
                    to[(size_t) ((x * n + y) * n + peer * planes + z)] =
                        in[part * (size_t) peer + (size_t) ((z * n + y) * planes + x)];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n = argc > 1 ? atoi(argv[1]) : 64;
    if (n < 8 || n & (n - 1) || n % size)
        fail("the edge, which is to be a power of two from 8 on and a multiple of the ranks,", n);
    planes = n / size;
    size_t points = (size_t) planes * (size_t) n * (size_t) n;
    double complex *space = malloc(sizeof *space * points), *turned = malloc(sizeof *space * points);
    double complex *room = malloc(sizeof *room * 2 * points);
    double complex *wave = malloc(sizeof *wave * points);
    for (size_t i = 0; i < points; i++) {
        int x = (int) (i % (size_t) n), y = (int) (i / (size_t) n % (size_t) n);
        int z = (int) (i / (size_t) n / (size_t) n) + rank * planes;
        wave[i] = 0;
        for (int w = 0; w < WAVES; w++)
            wave[i] += WAVE[w].height
                * cexp(2 * PI * I * (WAVE[w].x * x + WAVE[w].y * y + WAVE[w].z * z) / n);
        space[i] = wave[i];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (size_t plane = 0; plane < (size_t) planes; plane++)
        for (size_t i = 0; i < (size_t) n; i++) {
            transform(space + (plane * (size_t) n + i) * (size_t) n, 1, -1);
        }
    for (size_t plane = 0; plane < (size_t) planes; plane++)
        for (size_t i = 0; i < (size_t) n; i++)
            transform(space + plane * (size_t) n * (size_t) n + i, (size_t) n, -1);
    exchange(space, turned, room);
    for (size_t i = 0; i < (size_t) planes * (size_t) n; i++)
        transform(turned + i * (size_t) n, 1, -1);

    double volume = (double) n * n * n;
    for (size_t i = 0; i < points; i++) {
        int z = (int) (i % (size_t) n), y = (int) (i / (size_t) n % (size_t) n);
        int x = (int) (i / (size_t) n / (size_t) n) + rank * planes;
        double peak = 0;
        for (int w = 0; w < WAVES; w++)
            if (WAVE[w].x == x && WAVE[w].y == y && WAVE[w].z == z)
                peak = WAVE[w].height;
        double by = cabs(turned[i] / volume - peak);
        if (!(by < 1e-12))
            fail("the spectrum", by);
    }

    for (size_t i = 0; i < (size_t) planes * (size_t) n; i++)
        transform(turned + i * (size_t) n, 1, 1);
    exchange(turned, space, room);
    for (size_t plane = 0; plane < (size_t) planes; plane++)
        for (size_t i = 0; i < (size_t) n; i++) {
            transform(space + (plane * (size_t) n + i) * (size_t) n, 1, 1);
        }
    for (size_t plane = 0; plane < (size_t) planes; plane++)
        for (size_t i = 0; i < (size_t) n; i++)
            transform(space + plane * (size_t) n * (size_t) n + i, (size_t) n, 1);
    double took = MPI_Wtime() - begun;
    for (size_t i = 0; i < points; i++) {
        double by = cabs(space[i] / volume - wave[i]);
        if (!(by < 1e-12))
            fail("the way back", by);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("ft: %d ranks, %d points an edge, forth and back and right: %.3f us\n", size, n,
               took * 1e6);
    free(space);
    free(turned);
    free(room);
    free(wave);
    MPI_Finalize();
    return 0;
}
