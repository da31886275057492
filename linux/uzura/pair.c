// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Queue pairs: their states, and what is posted to them. Each has a page of doorbells of its own, that of its number. */
#include <linux/log2.h>
#include <linux/uaccess.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "uzura.h"

/* 0 and 1 are the subnet's, which there is none of, and the managers'. */
#define MANAGERS_NUMBER 1
#define FIRST_NUMBER 2
#define QKEY_OWN BIT(31)

static int queue_make(struct nic *nic, struct queue *queue, u32 requests, size_t bytes)
{
	queue->log2 = ilog2(roundup_pow_of_two(max(requests, 1U)));
	queue->bytes = bytes << queue->log2;
	queue->next = 0;
	queue->done = 0;
	spin_lock_init(&queue->lock);
	queue->ids = kcalloc(1U << queue->log2, sizeof(*queue->ids), GFP_KERNEL);
	if (!queue->ids)
		return -ENOMEM;
	queue->ring = dma_alloc_coherent(&nic->pci->dev, queue->bytes, &queue->at, GFP_KERNEL);
	if (!queue->ring) {
		kfree(queue->ids);
		return -ENOMEM;
	}
	return 0;
}

static void queue_free(struct nic *nic, struct queue *queue)
{
	if (queue->ring)
		dma_free_coherent(&nic->pci->dev, queue->bytes, queue->ring, queue->at);
	kfree(queue->ids);
}

static bool queue_full(const struct queue *queue)
{
	return queue->next - queue->done >= 1U << queue->log2;
}

static u32 most_sent(const struct qp *qp)
{
	return is_datagram(qp) ? MAX_DATAGRAM_SEGMENTS : MAX_SEND_SEGMENTS;
}

static bool cap_is_possible(const struct qp *qp, const struct ib_qp_cap *cap)
{
	return cap->max_send_wr <= 1 << MAX_LOG2 && cap->max_recv_wr <= 1 << MAX_LOG2 &&
	       cap->max_send_sge <= most_sent(qp) && cap->max_recv_sge <= MAX_RECEIVE_SEGMENTS &&
	       cap->max_inline_data <= MAX_INLINE;
}

/* One with a shared receive queue has none of its own. */
static int receive_make(struct nic *nic, struct qp *qp, struct ib_qp_cap *cap)
{
	int error;

	if (qp->srq)
		return 0;
	qp->receive.segments_log2 = ilog2(roundup_pow_of_two(max(cap->max_recv_sge, 1U)));
	error = queue_make(nic, &qp->receive, cap->max_recv_wr, sizeof(struct segment) << qp->receive.segments_log2);
	if (error)
		return error;
	cap->max_recv_wr = 1U << qp->receive.log2;
	cap->max_recv_sge = 1U << qp->receive.segments_log2;
	return 0;
}

int uzura_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct qp *qp = to_qp(ib);
	struct ib_qp_cap *cap = &init->cap;
	unsigned long flags;
	int number, error;

	if (init->create_flags ||
	    (init->qp_type != IB_QPT_RC && init->qp_type != IB_QPT_UD && init->qp_type != IB_QPT_GSI))
		return -EOPNOTSUPP;
	qp->srq = init->srq ? to_srq(init->srq) : NULL;
	if (qp->srq)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (!cap_is_possible(qp, cap))
		return -EINVAL;
	if (init->qp_type == IB_QPT_GSI)
		number = ida_alloc_range(&nic->qp_numbers, MANAGERS_NUMBER, MANAGERS_NUMBER, GFP_KERNEL);
	else
		number = ida_alloc_range(&nic->qp_numbers, FIRST_NUMBER, QUEUE_PAIRS - 1, GFP_KERNEL);
	if (number < 0)
		return number;
	error = queue_make(nic, &qp->send, cap->max_send_wr, sizeof(struct send_entry));
	if (error)
		goto out_number;
	error = receive_make(nic, qp, cap);
	if (error)
		goto out_send;

	qp->number = number;
	qp->user = udata;
	qp->all_signaled = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->attr.qp_state = IB_QPS_RESET;
	cap->max_send_wr = 1U << qp->send.log2;
	cap->max_send_sge = most_sent(qp);
	cap->max_inline_data = MAX_INLINE;
	qp->cap = *cap;
	ib->qp_num = number;
	spin_lock_irqsave(&nic->lock, flags);
	nic->qps[number] = qp;
	spin_unlock_irqrestore(&nic->lock, flags);
	return 0;

out_send:
	queue_free(nic, &qp->send);
out_number:
	ida_free(&nic->qp_numbers, number);
	return error;
}

static enum state state_of(enum ib_qp_state state)
{
	switch (state) {
	case IB_QPS_RESET:
		return STATE_RESET;
	case IB_QPS_INIT:
		return STATE_INIT;
	case IB_QPS_RTR:
		return STATE_RTR;
	case IB_QPS_RTS:
		return STATE_RTS;
	default:
		return STATE_ERROR;
	}
}

static u32 address_ip(const struct rdma_ah_attr *attr)
{
	return be32_to_cpu(*(__be32 *)&rdma_ah_read_grh(attr)->dgid.raw[12]);
}

/* The engine has the first byte on the wire on top. */
static u64 address_mac(const struct rdma_ah_attr *attr)
{
	return ether_addr_to_u64(attr->roce.dmac);
}

static bool address_is_ipv4(const struct rdma_ah_attr *attr)
{
	return attr->type == RDMA_AH_ATTR_TYPE_ROCE && rdma_ah_get_ah_flags(attr) & IB_AH_GRH &&
	       ipv6_addr_v4mapped((struct in6_addr *)&rdma_ah_read_grh(attr)->dgid);
}

static void qp_words(const struct qp *qp, u64 *words)
{
	const struct ib_qp_attr *attr = &qp->attr;
	bool ud = is_datagram(qp);
	u64 reads = clamp_t(u64, attr->max_rd_atomic, 1, MAX_READS);
	u64 rights = (attr->qp_access_flags & IB_ACCESS_REMOTE_WRITE ? RIGHT_REMOTE_WRITE : 0) |
		     (attr->qp_access_flags & IB_ACCESS_REMOTE_READ ? RIGHT_REMOTE_READ : 0) |
		     (attr->qp_access_flags & IB_ACCESS_REMOTE_ATOMIC ? RIGHT_REMOTE_ATOMIC : 0);
	u16 port = rdma_get_udp_sport(rdma_ah_read_grh(&attr->ah_attr)->flow_label, qp->number, attr->dest_qp_num);

	/* A datagram is a packet. */
	words[0] = qp->number | (u64)state_of(attr->qp_state) << 8 | (u64)ud << 11 |
		   (u64)(ud ? MAX_MTU : attr->path_mtu) << 12 | (u64)attr->timeout << 16 |
		   (u64)attr->retry_cnt << 24 | (u64)attr->rnr_retry << 28 | (u64)attr->min_rnr_timer << 32 |
		   rights << 40 | reads << 44 | (u64)to_pd(qp->ib.pd)->number << 48;
	words[1] = attr->dest_qp_num | (u64)to_cq(qp->ib.send_cq)->number << 24 |
		   (u64)to_cq(qp->ib.recv_cq)->number << 32 | (u64)qp->receive.segments_log2 << 38 | (u64)qp->send.log2 << 40 |
		   (u64)qp->receive.log2 << 44 | (u64)port << 48;
	words[2] = qp->send.at;
	words[3] = qp->receive.at;
	words[4] = (u64)attr->qkey << 32 | (ud ? 0 : address_ip(&attr->ah_attr));
	words[5] = ud ? 0 : address_mac(&attr->ah_attr);
	if (qp->srq)
		words[5] |= (u64)(qp->srq->number | QP_HAS_SHARED) << QP_SHARED_SHIFT;
	words[6] = (attr->sq_psn & 0xFFFFFF) | (u64)(attr->rq_psn & 0xFFFFFF) << 32;
}

static void ring_receive(struct nic *nic, struct qp *qp)
{
	nic_door(nic, qp->number, DOOR_RECEIVE,
		 (u64)qp->number << DOOR_NUMBER_SHIFT | (qp->receive.next & 0xFFFF));
}

/* Each queue pair that completes to this queue. */
void qp_fail_those_of(struct nic *nic, const struct cq *cq)
{
	u64 words[7];
	u32 i;

	lockdep_assert_held(&nic->control);
	lockdep_assert_held(&nic->lock);
	for (i = 0; i < QUEUE_PAIRS; i++) {
		struct qp *qp = nic->qps[i];

		if (!qp || !qp_runs(qp) || (qp->ib.send_cq != &cq->ib && qp->ib.recv_cq != &cq->ib))
			continue;
		qp->attr.qp_state = IB_QPS_ERR;
		qp_words(qp, words);
		if (!nic_command_locked(nic, COMMAND_SET_QP, qp->number, words, ARRAY_SIZE(words)))
			ring_receive(nic, qp);
	}
}

static bool attr_is_possible(const struct ib_qp_attr *attr, int mask)
{
	return !(mask & IB_QP_PATH_MTU && (attr->path_mtu < IB_MTU_256 || attr->path_mtu > MAX_MTU)) &&
	       !(mask & IB_QP_TIMEOUT && attr->timeout > 31) && !(mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7) &&
	       !(mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7) &&
	       !(mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31) &&
	       !(mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > MAX_READS) &&
	       !(mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > MAX_READS) &&
	       !(mask & IB_QP_AV && !address_is_ipv4(&attr->ah_attr));
}

static void take(struct ib_qp_attr *to, const struct ib_qp_attr *from, int mask)
{
	if (mask & IB_QP_STATE)
		to->qp_state = from->qp_state;
	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IB_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IB_QP_QKEY)
		to->qkey = from->qkey;
	if (mask & IB_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
}

/* The engine forgets what a queue pair in reset had under way: it would wait for its time-out for ever. */
static int qp_forget(struct nic *nic, struct qp *qp, const u64 words[7])
{
	int error = qp->srq ? srq_release(nic, qp) : 0;

	return error ?: nic_command(nic, COMMAND_BEGIN_QP, qp->number, words, 7);
}

int uzura_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct qp *qp = to_qp(ib);
	struct ib_qp_attr former = qp->attr;
	enum ib_qp_state from = former.qp_state, to = mask & IB_QP_STATE ? attr->qp_state : from;
	enum command command = COMMAND_SET_QP;
	u64 words[7];
	int error;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS || to == IB_QPS_SQD || to == IB_QPS_SQE)
		return -EOPNOTSUPP;
	if (!ib_modify_qp_is_ok(from, to, ib->qp_type, mask))
		return -EINVAL;
	if (!attr_is_possible(attr, mask))
		return -EINVAL;
	take(&qp->attr, attr, mask);
	qp_words(qp, words);
	/* What was expected, and posted, begins anew: at first all of it, with the peer's first number again, and behind it
	 * what was posted meanwhile; then only what is sent, since the peer may have begun.
	 */
	if (to != from && (to == IB_QPS_INIT || to == IB_QPS_RTR))
		command = COMMAND_BEGIN_QP;
	else if (to != from && to == IB_QPS_RTS)
		command = COMMAND_RESUME_QP;
	error = nic_command(nic, command, qp->number, words, ARRAY_SIZE(words));
	if (error) {
		qp->attr = former;
		return error;
	}
	/* The engine looks at a queue pair when it is rung for; at one in error it ends all that is posted. */
	if (command == COMMAND_BEGIN_QP || (to != from && to == IB_QPS_ERR))
		ring_receive(nic, qp);
	if (to == IB_QPS_RESET) {
		error = qp_forget(nic, qp, words);
		if (error)
			return error;
		qp->ended = false;
		cq_forget(to_cq(ib->send_cq), qp);
		cq_forget(to_cq(ib->recv_cq), qp);
		qp->send.next = qp->send.done = 0;
		qp->receive.next = qp->receive.done = 0;
	}
	return 0;
}

int uzura_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct qp *qp = to_qp(ib);

	*attr = qp->attr;
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;
	memset(init, 0, sizeof(*init));
	init->cap = qp->cap;
	init->qp_type = ib->qp_type;
	init->send_cq = ib->send_cq;
	init->recv_cq = ib->recv_cq;
	init->srq = ib->srq;
	init->sq_sig_type = qp->all_signaled ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	return 0;
}

int uzura_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct qp *qp = to_qp(ib);
	unsigned long flags;
	u64 words[7];
	int error;

	qp->attr.qp_state = IB_QPS_RESET;
	qp_words(qp, words);
	error = nic_command(nic, COMMAND_SET_QP, qp->number, words, ARRAY_SIZE(words));
	if (!error)
		error = qp_forget(nic, qp, words);
	if (error)
		return error;
	cq_forget(to_cq(ib->send_cq), qp);
	cq_forget(to_cq(ib->recv_cq), qp);
	spin_lock_irqsave(&nic->lock, flags);
	nic->qps[qp->number] = NULL;
	spin_unlock_irqrestore(&nic->lock, flags);
	ida_free(&nic->qp_numbers, qp->number);
	queue_free(nic, &qp->send);
	queue_free(nic, &qp->receive);
	return 0;
}

/* ---- Posting ---------------------------------------------------------------------------------------------------- */

static int operation_of(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
		return OPERATION_SEND;
	case IB_WR_SEND_WITH_IMM:
		return OPERATION_SEND_IMM;
	case IB_WR_SEND_WITH_INV:
		return OPERATION_SEND_INV;
	case IB_WR_RDMA_WRITE:
		return OPERATION_WRITE;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return OPERATION_WRITE_IMM;
	case IB_WR_RDMA_READ:
		return OPERATION_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return OPERATION_COMPARE_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return OPERATION_FETCH_ADD;
	default:
		return -EOPNOTSUPP;
	}
}

/* Data that go into the entry. Those of a program are where it says; it is this process. */
static int take_inline(const struct qp *qp, struct send_entry *entry, const struct ib_send_wr *wr)
{
	u8 *to = entry->data;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > entry->data + MAX_INLINE - to)
			return -EINVAL;
		if (!qp->user)
			memcpy(to, (void *)(uintptr_t)sge->addr, sge->length);
		else if (copy_from_user(to, u64_to_user_ptr(sge->addr), sge->length))
			return -EFAULT;
		to += sge->length;
	}
	entry->bytes = cpu_to_le32(to - entry->data);
	return 0;
}

static void take_segments(struct send_entry *entry, const struct ib_send_wr *wr)
{
	u64 bytes = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		bytes += wr->sg_list[i].length;
		if (i && i < MAX_SEND_SEGMENTS)
			set_segment(&entry->more[i - 1], &wr->sg_list[i]);
	}
	/* The engine ends a request that is too long as one. */
	entry->bytes = cpu_to_le32(min_t(u64, bytes, U32_MAX));
	entry->local = cpu_to_le64(wr->sg_list->addr);
	entry->local_key = cpu_to_le32(wr->sg_list->lkey);
	if (wr->num_sge > 1) {
		entry->first_bytes = cpu_to_le32(wr->sg_list->length);
		entry->flags |= cpu_to_le32((u32)(wr->num_sge - 1) << SEND_MORE_SHIFT);
	}
	if (wr->num_sge == MAX_DATAGRAM_SEGMENTS) {
		entry->remote = cpu_to_le64(wr->sg_list[MAX_SEND_SEGMENTS].addr);
		entry->remote_key = cpu_to_le32(wr->sg_list[MAX_SEND_SEGMENTS].lkey);
		entry->sixth_bytes = cpu_to_le32(wr->sg_list[MAX_SEND_SEGMENTS].length);
	}
}

static int send_entry_of(const struct qp *qp, const struct ib_send_wr *wr, struct send_entry *entry)
{
	int operation = operation_of(wr->opcode), error = 0;
	u32 flags;

	if (operation < 0)
		return operation;
	if (wr->num_sge > most_sent(qp))
		return -EINVAL;
	memset(entry, 0, sizeof(*entry));
	flags = operation | (qp->all_signaled || wr->send_flags & IB_SEND_SIGNALED ? SEND_SIGNALED : 0) |
		(wr->send_flags & IB_SEND_SOLICITED ? SEND_SOLICITED : 0) |
		(wr->send_flags & IB_SEND_INLINE ? SEND_INLINE : 0) |
		(wr->send_flags & IB_SEND_FENCE ? SEND_FENCE : 0);
	entry->flags = cpu_to_le32(flags);
	if (flags & SEND_INLINE)
		error = take_inline(qp, entry, wr);
	else if (wr->num_sge)
		take_segments(entry, wr);
	switch (operation) {
	case OPERATION_SEND_IMM:
	case OPERATION_WRITE_IMM:
		entry->imm = cpu_to_le32(be32_to_cpu(wr->ex.imm_data));
		break;
	case OPERATION_SEND_INV:
		entry->imm = cpu_to_le32(wr->ex.invalidate_rkey);
		break;
	}
	switch (operation) {
	case OPERATION_WRITE:
	case OPERATION_WRITE_IMM:
	case OPERATION_READ:
		entry->remote = cpu_to_le64(rdma_wr(wr)->remote_addr);
		entry->remote_key = cpu_to_le32(rdma_wr(wr)->rkey);
		break;
	case OPERATION_COMPARE_SWAP:
		entry->remote = cpu_to_le64(atomic_wr(wr)->remote_addr);
		entry->remote_key = cpu_to_le32(atomic_wr(wr)->rkey);
		entry->compare = cpu_to_le64(atomic_wr(wr)->compare_add);
		entry->swap = cpu_to_le64(atomic_wr(wr)->swap);
		break;
	case OPERATION_FETCH_ADD:
		entry->remote = cpu_to_le64(atomic_wr(wr)->remote_addr);
		entry->remote_key = cpu_to_le32(atomic_wr(wr)->rkey);
		entry->swap = cpu_to_le64(atomic_wr(wr)->compare_add);
		break;
	}
	if (is_datagram(qp)) {
		const struct ib_ud_wr *ud = ud_wr(wr);
		const struct ah *ah = to_ah(ud->ah);
		u32 qkey = ud->remote_qkey & QKEY_OWN ? qp->attr.qkey : ud->remote_qkey;

		entry->to = cpu_to_le32(ud->remote_qpn);
		entry->swap = cpu_to_le64((u64)ah->ip << 32 | qkey);
		entry->compare = cpu_to_le64(ah->mac);
	}
	return error;
}

/* The last entry goes with the doorbell, if it is given here: the engine need not read it. */
static void ring_send(struct nic *nic, struct qp *qp, const struct send_entry *last)
{
	u64 flag = 0;

	lockdep_assert_held(&qp->send.lock);
	dma_wmb();
	if (last) {
		bool whole = le32_to_cpu(last->flags) & (SEND_INLINE | SEND_MORE);

		nic_copy(nic, qp->number, last, whole ? sizeof(*last) : offsetof(struct send_entry, data));
		flag = DOOR_FLAG;
	}
	nic_door(nic, qp->number, DOOR_SEND,
		 flag | (u64)qp->number << DOOR_NUMBER_SHIFT | (qp->send.next & 0xFFFF));
	nic_charge(store_ns);
}

/* A program's next look in vain puts it not yet to sleep. */
static void not_idle(struct ib_cq *ib)
{
	struct context *context = to_cq(ib)->context;

	if (context)
		WRITE_ONCE(context->vain, 0);
}

int uzura_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct qp *qp = to_qp(ib);
	struct nic *nic = to_nic(ib->device);
	struct queue *queue = &qp->send;
	unsigned long flags;
	bool owed = false;
	int error = 0;

	if (qp->attr.qp_state < IB_QPS_RTS) {
		*bad = wr;
		return -EINVAL;
	}
	not_idle(ib->send_cq);
	for (; wr; wr = wr->next) {
		struct send_entry entry;

		/* It may have to wait for the program's memory. */
		error = send_entry_of(qp, wr, &entry);
		spin_lock_irqsave(&queue->lock, flags);
		if (!error && queue_full(queue))
			error = -ENOMEM;
		if (!error) {
			u32 at = queue->next++ & ((1U << queue->log2) - 1);

			((struct send_entry *)queue->ring)[at] = entry;
			queue->ids[at] = wr->wr_id;
		}
		if (!error && !wr->next)
			ring_send(nic, qp, &entry);
		else if (error && owed)
			ring_send(nic, qp, NULL);
		spin_unlock_irqrestore(&queue->lock, flags);
		if (error) {
			*bad = wr;
			break;
		}
		owed = true;
	}
	return error;
}

int uzura_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct qp *qp = to_qp(ib);
	struct queue *queue = &qp->receive;
	unsigned long flags;
	int error = 0;

	if (qp->attr.qp_state == IB_QPS_RESET || qp->srq) {
		*bad = wr;
		return -EINVAL;
	}
	not_idle(ib->recv_cq);
	spin_lock_irqsave(&queue->lock, flags);
	for (; wr; wr = wr->next) {
		u32 at = queue->next & ((1U << queue->log2) - 1);
		int most = 1 << queue->segments_log2, i;
		struct segment *entry = (struct segment *)queue->ring + (at << queue->segments_log2);

		if (queue_full(queue) || wr->num_sge > most) {
			error = wr->num_sge > most ? -EINVAL : -ENOMEM;
			*bad = wr;
			break;
		}
		memset(entry, 0, sizeof(*entry) << queue->segments_log2);
		for (i = 0; i < wr->num_sge; i++)
			set_segment(&entry[i], &wr->sg_list[i]);
		queue->ids[at] = wr->wr_id;
		queue->next++;
	}
	dma_wmb();
	ring_receive(to_nic(ib->device), qp);
	nic_charge(store_ns);
	spin_unlock_irqrestore(&queue->lock, flags);
	return error;
}

/* ---- Addresses of datagrams ------------------------------------------------------------------------------------- */

int uzura_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct ah *ah = to_ah(ib);

	if (!address_is_ipv4(init->ah_attr))
		return -EINVAL;
	ah->ip = address_ip(init->ah_attr);
	ah->mac = address_mac(init->ah_attr);
	return 0;
}

int uzura_destroy_ah(struct ib_ah *ib, u32 flags)
{
	return 0;
}
