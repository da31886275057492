// SPDX-License-Identifier: Apache-2.0
/*
 * libipnuma: the version, and what errors mean.
 *
 * ipnuma.h includes this, and says at its head what holds for all functions.
 *
 * Generated from crates/libipnuma/src/status.rs by 'cargo run -p libipnuma --example header -- --write'; do not edit.
 */

#ifndef IPNUMA_STATUS_H
#define IPNUMA_STATUS_H

#include <stddef.h>
#include <stdint.h>

// Version of this header: major in bits 31:16, minor in bits 15:0.
#define IPN_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library, as a number.
//
// DESCRIPTION
// Major version in bits 31:16, minor in bits 15:0. A program that was built for a minor version runs with every later one.
//
// RETURN
// The version; compare it with IPN_VERSION, that of the header.
//
// ERRORS
// None.
//
// THREADS
// Any thread, at any time.
//
// EXAMPLE
// @code
// if (ipn_version() < IPN_VERSION) puts("libipnuma is older than this program");
// @endcode
uint32_t ipn_version(void);

// What an error number means.
//
// DESCRIPTION
// As strerror(3), for what the functions of this library return: 0 or a negative errno. A positive number is taken as the
// errno itself. More about the calling thread's last error: ipn_error_message().
//
// RETURN
// A string that stays valid for ever.
//
// ERRORS
// None: an unknown number gives "unknown error".
//
// THREADS
// Any thread, at any time.
//
// EXAMPLE
// @code
// int status = ipn_open(NULL, &device);
// if (status != 0) fprintf(stderr, "ipn_open: %s\n", ipn_strerror(status));
// @endcode
const char *ipn_strerror(int status);

// What was wrong with the calling thread's last call that failed, as a sentence.
//
// DESCRIPTION
// Copies a sentence that names the thing, the place and the remedy to `buffer`, cut to `size` bytes with the zero at its
// end. Calls that succeed, and those that return -EAGAIN, leave or empty it. A plain access to a mapped window that ended in SIGBUS
// (ipn_window_map()) is such a call, too, and the handler of SIGBUS may ask.
//
// UNITS
// `size` in bytes.
//
// RETURN
// Bytes of the whole sentence without the zero, as snprintf(3); 0 if nothing is known.
//
// ERRORS
// None: a NULL `buffer` is taken as `size` 0.
//
// THREADS
// Any thread; each sees its own.
//
// EXAMPLE
// @code
// char why[256];
// if (ipn_connect(device, &token, &window) != 0 && ipn_error_message(why, sizeof why) > 0) puts(why);
// @endcode
size_t ipn_error_message(char *buffer,
                         size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IPNUMA_STATUS_H */
