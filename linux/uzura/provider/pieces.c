// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests that are made piece by piece: kept from wr_start to wr_complete, which posts them as a list. What can't be made is told
 * there, and nothing of the list is posted.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"

#define OPERATIONS \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_SEND_WITH_INV)

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge segments[MOST_SEGMENTS];
	uint8_t data[MOST_INLINE];
};

struct pair {
	struct verbs_qp verbs; /* must be first */
	pthread_mutex_t lock; /* from wr_start on */
	int error;
	unsigned int made, room;
	/* One more than can be posted: who makes too many makes the last one again. */
	struct request requests[];
};

static struct pair *to_pair(struct ibv_qp_ex *qp)
{
	return (struct pair *)qp;
}

static struct request *last(struct ibv_qp_ex *qp)
{
	struct pair *pair = to_pair(qp);

	return &pair->requests[pair->made ? pair->made - 1 : 0];
}

static void fail(struct ibv_qp_ex *qp, int error)
{
	if (!to_pair(qp)->error)
		to_pair(qp)->error = error;
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct pair *pair = to_pair(qp);
	struct request *request;

	if (pair->made == pair->room)
		fail(qp, ENOMEM);
	else
		pair->made++;
	request = last(qp);
	request->wr = (struct ibv_send_wr){
		.wr_id = qp->wr_id, .opcode = opcode, .send_flags = qp->wr_flags, .sg_list = request->segments,
	};
	return &request->wr;
}

static struct ibv_send_wr *begin_at(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t key, uint64_t address)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	wr->wr.rdma.rkey = key;
	wr->wr.rdma.remote_addr = address;
	return wr;
}

static void atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t key, uint64_t address, uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	wr->wr.atomic.rkey = key;
	wr->wr.atomic.remote_addr = address;
	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void compare_and_swap(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint64_t compare, uint64_t swap)
{
	atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, key, address, compare, swap);
}

static void fetch_and_add(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint64_t add)
{
	atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address, add, 0);
}

static void rdma_read(struct ibv_qp_ex *qp, uint32_t key, uint64_t address)
{
	begin_at(qp, IBV_WR_RDMA_READ, key, address);
}

static void rdma_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t address)
{
	begin_at(qp, IBV_WR_RDMA_WRITE, key, address);
}

static void rdma_write_imm(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, __be32 immediate)
{
	begin_at(qp, IBV_WR_RDMA_WRITE_WITH_IMM, key, address)->imm_data = immediate;
}

static void send_plain(struct ibv_qp_ex *qp)
{
	begin(qp, IBV_WR_SEND);
}

static void send_imm(struct ibv_qp_ex *qp, __be32 immediate)
{
	begin(qp, IBV_WR_SEND_WITH_IMM)->imm_data = immediate;
}

static void send_inv(struct ibv_qp_ex *qp, uint32_t key)
{
	begin(qp, IBV_WR_SEND_WITH_INV)->invalidate_rkey = key;
}

static void set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t number, uint32_t qkey)
{
	struct ibv_send_wr *wr = &last(qp)->wr;

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = number;
	wr->wr.ud.remote_qkey = qkey;
}

static void set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	struct request *request = last(qp);

	if (count > MOST_SEGMENTS) {
		fail(qp, EINVAL);
		return;
	}
	memcpy(request->segments, list, count * sizeof(*list));
	request->wr.num_sge = count;
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t bytes)
{
	struct ibv_sge one = { .addr = address, .length = bytes, .lkey = key };

	set_sge_list(qp, 1, &one);
}

/* The caller may change its data before the request is posted. */
static void set_inline_data_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
	struct request *request = last(qp);
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		if (list[i].length > MOST_INLINE - bytes) {
			fail(qp, EINVAL);
			return;
		}
		memcpy(request->data + bytes, list[i].addr, list[i].length);
		bytes += list[i].length;
	}
	set_sge(qp, 0, (uintptr_t)request->data, bytes);
	request->wr.send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *qp, void *data, size_t bytes)
{
	struct ibv_data_buf one = { .addr = data, .length = bytes };

	set_inline_data_list(qp, 1, &one);
}

static void start(struct ibv_qp_ex *qp)
{
	struct pair *pair = to_pair(qp);

	pthread_mutex_lock(&pair->lock);
	pair->made = 0;
	pair->error = 0;
}

static int complete(struct ibv_qp_ex *qp)
{
	struct pair *pair = to_pair(qp);
	struct ibv_send_wr *bad;
	int error = pair->error;

	for (unsigned int i = 1; i < pair->made; i++)
		pair->requests[i - 1].wr.next = &pair->requests[i].wr;
	if (!error && pair->made)
		error = post_send(&qp->qp_base, &pair->requests[0].wr, &bad);
	pthread_mutex_unlock(&pair->lock);
	return error;
}

static void abort_all(struct ibv_qp_ex *qp)
{
	pthread_mutex_unlock(&to_pair(qp)->lock);
}

_Bool pieces_are_known(uint64_t operations)
{
	return !(operations & ~(uint64_t)OPERATIONS);
}

struct pair *pair_new(unsigned int many)
{
	struct pair *pair = calloc(1, sizeof(*pair) + (many ? many + 1 : 0) * sizeof(struct request));
	struct ibv_qp_ex *qp;

	if (!pair || !many)
		return pair;
	pthread_mutex_init(&pair->lock, NULL);
	pair->room = many;
	pair->verbs.comp_mask = VERBS_QP_EX;
	qp = &pair->verbs.qp_ex;
	qp->wr_atomic_cmp_swp = compare_and_swap;
	qp->wr_atomic_fetch_add = fetch_and_add;
	qp->wr_rdma_read = rdma_read;
	qp->wr_rdma_write = rdma_write;
	qp->wr_rdma_write_imm = rdma_write_imm;
	qp->wr_send = send_plain;
	qp->wr_send_imm = send_imm;
	qp->wr_send_inv = send_inv;
	qp->wr_set_ud_addr = set_ud_addr;
	qp->wr_set_inline_data = set_inline_data;
	qp->wr_set_inline_data_list = set_inline_data_list;
	qp->wr_set_sge = set_sge;
	qp->wr_set_sge_list = set_sge_list;
	qp->wr_start = start;
	qp->wr_complete = complete;
	qp->wr_abort = abort_all;
	return pair;
}

struct ibv_qp *pair_qp(struct pair *pair)
{
	return &pair->verbs.qp;
}

void pair_free(struct ibv_qp *qp)
{
	free(qp);
}
