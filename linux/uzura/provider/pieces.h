/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A queue pair whose requests are made piece by piece (`ibv_wr_*`) and posted together. */
#ifndef PIECES_H
#define PIECES_H

#include "verbs34.h"

/* Of a datagram; others have fewer. */
#define MOST_SEGMENTS 6
#define MOST_INLINE 64

struct pair;

/* One queue pair; with `many` requests that can be posted together, or none. */
struct pair *pair_new(unsigned int many);
struct ibv_qp *pair_qp(struct pair *pair);
void pair_free(struct ibv_qp *qp);
/* Whether these operations (IBV_QP_EX_WITH_*) can be asked for. */
_Bool pieces_are_known(uint64_t operations);

/* uzura.c */
int post_send(struct ibv_qp *to, struct ibv_send_wr *first, struct ibv_send_wr **bad);

#endif
