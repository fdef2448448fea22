/* Conjugate gradients, as the kernel CG of the NAS benchmarks uses them: a sparse, symmetric,
   positive definite matrix with entries far from its diagonal, in rows over the ranks, so that each
   product with it gathers a vector, and each step has two dot products. Checked: the solution is
   the one from which the right-hand side was made. The first argument is how many rows a rank has. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDES = 5, STEPS_MOST = 200 };

/* Entries beside the diagonal: so many columns to the right, and as many to the left, around. */
static const int STRIDE[STRIDES] = { 1, 2, 7, 61, 509 };

static int rank, size, rows, all_rows;

static void gather(const double *own, double *all)
{
    MPI_Allgather(own, rows, MPI_DOUBLE, all, rows, MPI_DOUBLE, MPI_COMM_WORLD);
}

static double dot(const double *a, const double *b)
{
    double own = 0, all;
    for (int i = 0; i < rows; i++)
        own += a[i] * b[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Our rows of the matrix times a vector. The diagonal is above the sum of what is beside it. */
static void multiply(const double *all, double *own)
{
    for (int i = 0; i < rows; i++) {
        int row = rank * rows + i;
        double sum = 0;
        for (int s = 0; s < STRIDES; s++) {
            double weight = 1.0 / (s + 1);
            int right = (row + STRIDE[s]) % all_rows;
            int left = (row + all_rows - STRIDE[s] % all_rows) % all_rows;
            sum += weight * (2.1 * all[row] - all[right] - all[left]);
        }
        own[i] = sum;
    }
}

static double wanted(int row)
{
    return 1.0 + (row % 10) * 0.125 - (row % 7) * 0.25;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = argc > 1 ? atoi(argv[1]) : 1024;
    all_rows = rows * size;
    double *x = calloc((size_t) rows, sizeof *x), *r = malloc(sizeof *r * (size_t) rows);
    double *p = malloc(sizeof *p * (size_t) rows), *q = malloc(sizeof *q * (size_t) rows);
    double *all = malloc(sizeof *all * (size_t) all_rows);
    for (int row = 0; row < all_rows; row++)
        all[row] = wanted(row);
    multiply(all, r);
    memcpy(p, r, sizeof *p * (size_t) rows);

    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    double first = dot(r, r), rho = first;
    int steps = 0;
    while (rho > first * 1e-24 && steps < STEPS_MOST) {
        gather(p, all);
        multiply(all, q);
        double alpha = rho / dot(p, q);
        for (int i = 0; i < rows; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double next = dot(r, r), beta = next / rho;
        for (int i = 0; i < rows; i++)
            p[i] = r[i] + beta * p[i];
        rho = next;
        steps++;
    }
    double took = MPI_Wtime() - begun;

    double far = 0, farthest;
    for (int i = 0; i < rows; i++)
        far = fmax(far, fabs(x[i] - wanted(rank * rows + i)));
    MPI_Allreduce(&far, &farthest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (!(farthest < 1e-9)) {
        fprintf(stderr, "cg: rank %d: the solution is wrong by up to %g\n", rank, farthest);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("cg: %d ranks, %d rows each, %d steps to a solution that is right: %.3f us\n", size,
               rows, steps, took * 1e6);
    free(x);
    free(r);
    free(p);
    free(q);
    free(all);
    MPI_Finalize();
    return 0;
}
