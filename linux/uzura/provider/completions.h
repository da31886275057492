/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A completion queue whose completions are read piece by piece (`ibv_start_poll`). */
#ifndef COMPLETIONS_H
#define COMPLETIONS_H

#include "verbs34.h"

/* Whether all that is asked for is there. */
_Bool completions_are_known(const struct ibv_cq_init_attr_ex *attr);
/* Without its place in the kernel; free() ends it. */
struct ibv_cq_ex *completions_new(const struct ibv_cq_init_attr_ex *attr);

#endif
