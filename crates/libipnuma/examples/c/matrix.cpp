// SPDX-License-Identifier: Apache-2.0
/*
 * A product of matrices on two machines: one reckons the lower half of its rows into the other's memory, as if it were its own.
 *
 *   matrix owner DIRECTORY SIZE &
 *   matrix helper DIRECTORY SIZE
 *
 * The owner's token is in the directory's file owner. The helper's rows are ordinary arrays behind a mapping that collects stores
 * to whole lines; a signal behind them says that they are there. Cells are integers, which are stored by plain moves: the kernel of
 * guests in the rack does not show vector registers to handlers of signals.
 */
#include <string>
#include <vector>

#include "common.h"

namespace {

using Cell = int64_t;

Cell left(size_t row, size_t column) { return 1 + static_cast<Cell>((row * 7 + column) % 11); }
Cell right(size_t row, size_t column) { return 2 - static_cast<Cell>((row + column * 5) % 13); }

/* Rows `from` to `to` of the product, into `rows`, of which the first one is row 0. */
void multiply(Cell *rows, size_t size, size_t from, size_t to) {
  for (size_t row = from; row < to; row++) {
    for (size_t column = 0; column < size; column++) {
      Cell sum = 0;
      for (size_t at = 0; at < size; at++) sum += left(row, at) * right(at, column);
      rows[row * size + column] = sum;
    }
  }
}

int owner(ipn_device *device, const std::string &path, size_t size) {
  const size_t cells = size * size, bytes = (cells + 1) * sizeof(Cell);
  ipn_region *region;
  ipn_token token;
  must(ipn_mem_alloc(device, bytes, &region), "ipn_mem_alloc");
  must(ipn_export(region, 0, bytes, IPN_WRITE, nullptr, &token), "ipn_export");
  give_token(path.c_str(), &token);
  auto *product = static_cast<Cell *>(ipn_mem_address(region));
  multiply(product, size, 0, size / 2);
  must(ipn_wait(region, cells * sizeof(Cell), 0, 60'000'000'000, nullptr), "ipn_wait");
  std::vector<Cell> expected(cells);
  multiply(expected.data(), size, 0, size);
  if (memcmp(product, expected.data(), cells * sizeof(Cell)) != 0) {
    fprintf(stderr, "matrix: the product is wrong\n");
    return 1;
  }
  printf("%zu rows, %zu of them from the helper, all right\n", size, size - size / 2);
  ipn_mem_free(region);
  return 0;
}

int helper(ipn_device *device, const std::string &path, size_t size) {
  ipn_window *window;
  void *page;
  ipn_token token = take_token(path.c_str());
  must_accept(ipn_connect(device, &token, &window), path.c_str());
  must(ipn_window_map(window, IPN_MAP_COMBINED, &page), "ipn_window_map");
  multiply(static_cast<Cell *>(page), size, size / 2, size);
  must(ipn_fence(window), "ipn_fence");
  must(ipn_put_signal(window, 0, nullptr, 0, size * size * sizeof(Cell), 1), "ipn_put_signal");
  settle(window);
  printf("%zu rows stored\n", size - size / 2);
  ipn_disconnect(window);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string side = argc == 4 ? argv[1] : "";
  if (side != "owner" && side != "helper") {
    fprintf(stderr, "usage: matrix owner|helper DIRECTORY SIZE\n");
    return 2;
  }
  const size_t size = number("SIZE", argv[3], 1024);
  ipn_device *device;
  must(ipn_open(nullptr, &device), "ipn_open");
  const std::string path = std::string(argv[2]) + "/owner";
  const int status = side == "owner" ? owner(device, path, size) : helper(device, path, size);
  ipn_close(device);
  return status;
}
