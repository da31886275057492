// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: devices.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/device.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_DEVICE_H
#define IPNUMA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

// A way to other memory: a board, or the daemon. Opened by ipn_open().
typedef struct ipn_device ipn_device;

// How a device is opened. Set everything to 0 and struct_size to sizeof(ipn_options).
typedef struct ipn_options {
  // sizeof(ipn_options).
  size_t struct_size;
  // Back end: "soft", "pcie" or "rack"; NULL: as configured.
  const char *backend;
  // Configuration file; NULL: $IPNUMA_CONFIG, ~/.config/ipnuma/config.toml or /etc/ipnuma.toml.
  const char *config;
  // Socket of the daemon; NULL: as configured.
  const char *daemon;
  // How long waits spin before they sleep, nanoseconds; 0: as configured; negative: not at all.
  int64_t spin_ns;
} ipn_options;

// What a device is and can do. Set struct_size to sizeof(ipn_info) before the call.
typedef struct ipn_info {
  // sizeof(ipn_info).
  size_t struct_size;
  // Back end: "soft", "pcie" or "rack".
  char backend[16];
  // Bytes that one store takes at most without being split.
  size_t max_store;
  // 1 if a line of 64 bytes arrives whole (ipn_put64()).
  uint32_t line_atomic;
  // 1 if windows can be mapped (ipn_window_map()).
  uint32_t mappable;
  // 1 if the network can be reached.
  uint32_t link_up;
  // Other machines that are known.
  uint32_t peers;
} ipn_info;

// What was done with a device. Set struct_size to sizeof(ipn_statistics) before the call.
typedef struct ipn_statistics {
  // sizeof(ipn_statistics).
  size_t struct_size;
  // Regions there are.
  uint64_t regions;
  // Windows there are.
  uint64_t windows;
  // Ends of rings there are.
  uint64_t rings;
  // Tokens handed out.
  uint64_t exported;
  // Tokens taken back by ipn_revoke().
  uint64_t revoked;
  // Tokens that ipn_connect() and ipn_ring_connect() were refused.
  uint64_t refused;
} ipn_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens a device.
//
// DESCRIPTION
// With `options` NULL, as the configuration file and the environment say (IPNUMA_BACKEND, IPNUMA_DAEMON, IPNUMA_SPIN_US); else
// what is set there counts. The soft back end needs a daemon (ipnuma daemon). After fork(2) the child opens a device of
// its own and leaves the parent's alone.
//
// UNITS
// spin_ns in nanoseconds.
//
// RETURN
// 0, and the device in `*device`; close it with ipn_close(). On an error `*device` is NULL.
//
// ERRORS
// -EINVAL: `device` is NULL, or options or configuration are wrong. -ECONNREFUSED: there is no daemon. -EACCES: the daemon
// belongs to another user. -EPROTO: it is of another version. -ENODEV: there is no such board.
//
// THREADS
// Any thread. The device may be used by several threads at a time.
//
// EXAMPLE
// @code
// ipn_device *device;
// int status = ipn_open(NULL, &device);
// if (status != 0) return fprintf(stderr, "%s\n", ipn_strerror(status)), 1;
// @endcode
int ipn_open(const ipn_options *options,
             ipn_device **device);

// Closes a device.
//
// DESCRIPTION
// Its regions, windows and rings stay usable until they are closed themselves; new ones can't be made.
//
// RETURN
// 0. NULL is closed already.
//
// ERRORS
// None.
//
// THREADS
// No other thread may use the handle meanwhile or afterwards.
//
// EXAMPLE
// @code
// ipn_close(device);
// @endcode
int ipn_close(ipn_device *device);

// Says what a device is and can do.
//
// DESCRIPTION
// Fills `*info` as far as its struct_size says. link_up and peers are those of this moment.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or struct_size is not set.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_info info = {.struct_size = sizeof info};
// if (ipn_query(device, &info) == 0) printf("%s\n", info.backend);
// @endcode
int ipn_query(const ipn_device *device, ipn_info *info);

// Says what was done with a device.
//
// DESCRIPTION
// Fills `*statistics` as far as its struct_size says. The counts are of this handle, not of the machine.
//
// RETURN
// 0.
//
// ERRORS
// -EINVAL: a pointer is NULL, or struct_size is not set.
//
// THREADS
// Any thread.
//
// EXAMPLE
// @code
// ipn_statistics now = {.struct_size = sizeof now};
// if (ipn_stats(device, &now) == 0) printf("%llu windows\n", (unsigned long long)now.windows);
// @endcode
int ipn_stats(const ipn_device *device, ipn_statistics *statistics);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_DEVICE_H */
