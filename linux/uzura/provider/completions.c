// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A completion queue that is read piece by piece: each completion is taken from the kernel whole, and its pieces from there. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "completions.h"

struct queue {
	struct ibv_cq_ex ex; /* must be first: libibverbs takes it for a struct ibv_cq */
	_Bool one_thread;
	pthread_mutex_t lock; /* from start_poll to end_poll, if there are several */
	struct ibv_wc wc; /* where it is */
};

static struct queue *to_queue(struct ibv_cq_ex *ex)
{
	return (struct queue *)ex;
}

static void unlock(struct queue *queue)
{
	if (!queue->one_thread)
		pthread_mutex_unlock(&queue->lock);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct queue *queue = to_queue(ex);
	int found = ibv_cmd_poll_cq(ibv_cq_ex_to_cq(ex), 1, &queue->wc);

	if (found < 0)
		return errno ? errno : EIO;
	if (!found)
		return ENOENT;
	ex->status = queue->wc.status;
	ex->wr_id = queue->wc.wr_id;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct queue *queue = to_queue(ex);
	int error;

	if (attr->comp_mask)
		return EINVAL;
	if (!queue->one_thread)
		pthread_mutex_lock(&queue->lock);
	error = next_poll(ex);
	/* Then nobody calls end_poll. */
	if (error)
		unlock(queue);
	return error;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	unlock(to_queue(ex));
}

#define READ(type, name, piece) \
	static type read_##name(struct ibv_cq_ex *ex) \
	{ \
		return to_queue(ex)->wc.piece; \
	}
READ(enum ibv_wc_opcode, opcode, opcode)
READ(uint32_t, vendor_err, vendor_err)
READ(uint32_t, byte_len, byte_len)
READ(__be32, imm_data, imm_data)
READ(uint32_t, qp_num, qp_num)
READ(uint32_t, src_qp, src_qp)
READ(unsigned int, wc_flags, wc_flags)
READ(uint32_t, slid, slid)
READ(uint8_t, sl, sl)
READ(uint8_t, dlid_path_bits, dlid_path_bits)
#undef READ

_Bool completions_are_known(const struct ibv_cq_init_attr_ex *attr)
{
	return !(attr->comp_mask & ~IBV_CQ_INIT_ATTR_MASK_FLAGS) && !(attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) &&
	       !(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
}

struct ibv_cq_ex *completions_new(const struct ibv_cq_init_attr_ex *attr)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	pthread_mutex_init(&queue->lock, NULL);
	queue->one_thread = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	queue->ex.start_poll = start_poll;
	queue->ex.next_poll = next_poll;
	queue->ex.end_poll = end_poll;
	queue->ex.read_opcode = read_opcode;
	queue->ex.read_vendor_err = read_vendor_err;
	queue->ex.read_byte_len = read_byte_len;
	queue->ex.read_imm_data = read_imm_data;
	queue->ex.read_qp_num = read_qp_num;
	queue->ex.read_src_qp = read_src_qp;
	queue->ex.read_wc_flags = read_wc_flags;
	queue->ex.read_slid = read_slid;
	queue->ex.read_sl = read_sl;
	queue->ex.read_dlid_path_bits = read_dlid_path_bits;
	return &queue->ex;
}
