// SPDX-License-Identifier: Apache-2.0
// What a way to send messages has to provide to the ping-pong benchmark.
#ifndef PINGPONG_H
#define PINGPONG_H

#include <stddef.h>

enum { MAX_SIZE = 4096 };

/// What the two processes agree on before they open their ends.
struct setup {
  const char *way;
  size_t size;
  int in, out; // pipes from and to the other process
};

/// A way to send messages: opens one of two ends, then sends and receives whole messages.
struct way {
  void *(*open)(int side, const struct setup *setup);
  void (*send)(void *end, const void *data, size_t size);
  void (*receive)(void *end, void *data, size_t size);
};

/// Exchange addresses, tokens and the like with the other process.
void tell(const struct setup *setup, const void *data, size_t size);
void hear(const struct setup *setup, void *data, size_t size);

/// End the benchmark with a sentence.
_Noreturn void fail(const char *what);

/// Those of libipnuma: a ring each way, and bare lines.
extern const struct way ring, line;

#endif
