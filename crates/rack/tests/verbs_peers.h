/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of two machines have in common that test verbs: a connection of TCP to meet at, and bytes that both know. */
#ifndef VERBS_PEERS_H
#define VERBS_PEERS_H

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "7471"

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

static int peer;
static uint32_t random_state;

/* xorshift, so that a seed is all that says what is done. */
static uint32_t draw(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % below;
}

/* A byte that depends on the turn and its place. */
static uint8_t pattern(uint32_t turn, uint32_t at)
{
	uint32_t x = turn * 2654435761u + at * 40503u;

	x ^= x >> 13;
	x *= 2246822519u;
	return x >> 24;
}

static void fill(uint8_t *to, uint32_t bytes, uint32_t turn)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = pattern(turn, i);
}

static void compare(const uint8_t *from, uint32_t bytes, uint32_t turn, const char *what)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (from[i] != pattern(turn, i)) {
			fprintf(stderr, "%s of %u bytes: byte %u is %02x\n", what, bytes, i, from[i]);
			exit(1);
		}
}

static void swap_sides(const void *own, void *other, size_t bytes)
{
	CHECK(write(peer, own, bytes) == (ssize_t)bytes);
	CHECK(recv(peer, other, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

/* Both are here. */
static void meet(void)
{
	char own = 'm', other;

	swap_sides(&own, &other, 1);
}

static void join(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *found;
	int on = 1, fd;

	CHECK(!getaddrinfo(host, PORT, &hints, &found));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	if (host) {
		CHECK(!connect(fd, found->ai_addr, found->ai_addrlen));
		CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
		peer = fd;
		return;
	}
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	CHECK(!bind(fd, found->ai_addr, found->ai_addrlen));
	CHECK(!listen(fd, 1));
	peer = accept(fd, NULL, NULL);
	CHECK(peer >= 0);
	CHECK(!setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

#endif
