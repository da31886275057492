// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: memory of other machines.
 *
 * A server allocates a region, exports a range of it as a token of 64 bytes, and gives the token away. Whoever connects with
 * the token gets a window and stores into it; the server polls, or waits for signals. Rings carry messages on top.
 *
 * Status numbers are 0 or a negative errno. Handles and other pointers are NULL where a function says so, or valid as C wants
 * them: from the function that made the handle until the one that ends it, and with room for what is said at the argument.
 * Structs that may grow begin with struct_size. There is nothing to initialise and no state but in handles and, for
 * ipn_error_message(), in threads. Calls that may be made by several threads at a time say "any thread".
 *
 * Generated from crates/libipnuma/src by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_H
#define IPNUMA_H

#include "ipnuma/status.h"
#include "ipnuma/device.h"
#include "ipnuma/region.h"
#include "ipnuma/window.h"
#include "ipnuma/ring.h"

#endif  /* IPNUMA_H */
