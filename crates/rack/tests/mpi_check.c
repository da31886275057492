// SPDX-License-Identifier: Apache-2.0
// Ping-pong, all-reduce, all-to-all and messages out of order between all ranks of MPI, every byte compared. Prints half of a
// round in microseconds for each size, by rank 0 with rank 1, and "every byte was right".

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 16, ROUNDS = 10, DOUBLES = 500, TAGS = 8 };

static int rank, size;
static unsigned char buffer[LARGEST];

static unsigned char expected(int at, int bytes, int salt)
{
	return (unsigned char)(at * 7 + bytes + salt * 13);
}

static void fill(unsigned char *into, int bytes, int salt)
{
	for (int at = 0; at < bytes; at++)
		into[at] = expected(at, bytes, salt);
}

static void compare(const unsigned char *what, int bytes, int salt, const char *where)
{
	for (int at = 0; at < bytes; at++) {
		if (what[at] == expected(at, bytes, salt))
			continue;
		printf("rank %d, %s: byte %d of %d is wrong\n", rank, where, at, bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void round_trip(int bytes, int salt)
{
	if (rank == 0) {
		fill(buffer, bytes, salt);
		MPI_Send(buffer, bytes, MPI_BYTE, 1, salt, MPI_COMM_WORLD);
		memset(buffer, 0, bytes);
		MPI_Recv(buffer, bytes, MPI_BYTE, 1, salt, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		compare(buffer, bytes, salt, "ping-pong");
	} else if (rank == 1) {
		MPI_Recv(buffer, bytes, MPI_BYTE, 0, salt, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		compare(buffer, bytes, salt, "ping-pong");
		MPI_Send(buffer, bytes, MPI_BYTE, 0, salt, MPI_COMM_WORLD);
	}
}

static void ping_pong(void)
{
	for (int bytes = 1; bytes <= LARGEST; bytes *= 16) {
		round_trip(bytes, 0); // which connects, and registers memory
		double begun = MPI_Wtime();
		for (int salt = 1; salt <= ROUNDS; salt++)
			round_trip(bytes, salt);
		if (rank == 0)
			printf("%d bytes: %.3f us\n", bytes, (MPI_Wtime() - begun) / ROUNDS / 2 * 1e6);
	}
}

static void all_reduce(void)
{
	double mine[DOUBLES], sums[DOUBLES];

	for (int at = 0; at < DOUBLES; at++)
		mine[at] = rank * DOUBLES + at;
	MPI_Allreduce(mine, sums, DOUBLES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int at = 0; at < DOUBLES; at++) {
		if (sums[at] == size * at + size * (size - 1) / 2 * DOUBLES)
			continue;
		printf("rank %d: sum %d is %f\n", rank, at, sums[at]);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void all_to_all(int bytes)
{
	unsigned char *out = malloc((size_t)size * bytes), *in = malloc((size_t)size * bytes);

	for (int peer = 0; peer < size; peer++)
		fill(out + peer * bytes, bytes, rank * size + peer);
	MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
	for (int peer = 0; peer < size; peer++)
		compare(in + peer * bytes, bytes, peer * size + rank, "all-to-all");
	free(out);
	free(in);
}

/* To the next rank in a ring; what was sent last is received first. */
static void out_of_order(int bytes)
{
	MPI_Request requests[2 * TAGS];
	unsigned char *out = malloc((size_t)TAGS * bytes), *in = malloc((size_t)TAGS * bytes);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;

	for (int tag = 0; tag < TAGS; tag++) {
		fill(out + tag * bytes, bytes, tag);
		MPI_Isend(out + tag * bytes, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[tag]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int tag = TAGS - 1; tag >= 0; tag--)
		MPI_Irecv(in + tag * bytes, bytes, MPI_BYTE, before, tag, MPI_COMM_WORLD, &requests[TAGS + tag]);
	MPI_Waitall(2 * TAGS, requests, MPI_STATUSES_IGNORE);
	for (int tag = 0; tag < TAGS; tag++)
		compare(in + tag * bytes, bytes, tag, "out of order");
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	printf("rank %d of %d\n", rank, size);
	ping_pong();
	all_reduce();
	all_to_all(100);
	all_to_all(5000);
	out_of_order(100);
	out_of_order(20000); // longer than what is sent unasked
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("every byte was right\n");
	MPI_Finalize();
	return 0;
}
