// SPDX-License-Identifier: Apache-2.0
// What the parts of host.so share.
#ifndef HOST_H
#define HOST_H

// A process that the kernel is about to make a guest's own: what it has to be told.
void counter_begin(void);

#endif
