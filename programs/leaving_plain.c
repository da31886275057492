// SPDX-License-Identifier: Apache-2.0
// The program that a connection of leaving.c goes to: the same, linked statically, so that it cannot have the library.
#include "leaving.c"
