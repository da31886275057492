// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Completion queues. A program that polls an empty one sleeps until a core that polls would have seen something. */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/log2.h>
#include <rdma/ib_pack.h>
#include <rdma/uverbs_ioctl.h>

#include "uzura.h"

/* A program that polls in vain gets its turn again after so long: it may have other work. */
#define MOST_SLEEP_NS 1000000
/* Looks in vain that do not put it to sleep: of one that asks for several completions the provider looks for more, too. */
#define VAIN_LOOKS 2

static u32 entries(const struct cq *cq)
{
	return 1U << cq->log2;
}

/* What a program has posted may end in this time before it finds that its queue must not become so small: between its calls none passes. */
#define SHRINK_US 100

/* Programs find out of what sort the header in front of a datagram is where mlx5 tells them: bit 3 UDP, 2:0 IPv4. */
#define SL_IPV4_UDP 0xA

/* How many are to be read before those of the ring are. */
static u32 cq_kept(const struct cq *cq)
{
	s32 left = cq->joint - cq->next;

	return left > 0 ? left : 0;
}

/* The next completion, if it is there: in odd turns of the ring the owner is 1. */
static struct cqe *cq_look(struct cq *cq)
{
	u32 at = cq->next - cq->joint;
	struct cqe *here = &cq->ring[at & (entries(cq) - 1)];
	bool owner = le64_to_cpu(READ_ONCE(here->status)) & COMPLETION_OWNER;

	if (cq_kept(cq))
		return &cq->kept[cq->keeps - cq_kept(cq)];
	if (owner == (at >> cq->log2 & 1))
		return NULL;
	dma_rmb();
	return here;
}

/*
 * Twice as many as are asked for, and whole pages: the engine is told of half of them at a time what has been read. 0: there are no
 * queues of so many.
 */
static u32 cq_log2(u32 count)
{
	if (!count || count > 1 << (MAX_CQ_LOG2 - 1))
		return 0;
	return max_t(u32, ilog2(roundup_pow_of_two(count)) + 1, PAGE_SHIFT - ilog2(sizeof(struct cqe)));
}

/* The engine begins it at its first entry. */
static int cq_place(struct nic *nic, u32 number, dma_addr_t at, u32 log2)
{
	u64 words[] = { at, log2 };

	return nic_command(nic, COMMAND_SET_CQ, number, words, ARRAY_SIZE(words));
}

int uzura_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct cq *cq = to_cq(ib);
	unsigned long flags;
	int number, error;

	if (attr->flags)
		return -EOPNOTSUPP;
	cq->log2 = cq_log2(attr->cqe);
	if (!cq->log2)
		return -EINVAL;
	cq->context = udata ? rdma_udata_to_drv_context(udata, struct context, ib) : NULL;
	spin_lock_init(&cq->lock);
	cq->ring = dma_alloc_coherent(&nic->pci->dev, entries(cq) * sizeof(*cq->ring), &cq->at, GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	number = ida_alloc_max(&nic->cq_numbers, COMPLETION_QUEUES - 1, GFP_KERNEL);
	if (number < 0) {
		error = number;
		goto out_ring;
	}
	cq->number = number;
	error = cq_place(nic, number, cq->at, cq->log2);
	if (error)
		goto out_number;
	ib->cqe = attr->cqe;
	spin_lock_irqsave(&nic->lock, flags);
	nic->cqs[number] = cq;
	spin_unlock_irqrestore(&nic->lock, flags);
	return 0;

out_number:
	ida_free(&nic->cq_numbers, number);
out_ring:
	dma_free_coherent(&nic->pci->dev, entries(cq) * sizeof(*cq->ring), cq->ring, cq->at);
	return error;
}

/* Its queue pairs are gone, so that nothing is written to it any more. */
int uzura_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct cq *cq = to_cq(ib);
	unsigned long flags;

	spin_lock_irqsave(&nic->lock, flags);
	nic->cqs[cq->number] = NULL;
	spin_unlock_irqrestore(&nic->lock, flags);
	ida_free(&nic->cq_numbers, cq->number);
	dma_free_coherent(&nic->pci->dev, entries(cq) * sizeof(*cq->ring), cq->ring, cq->at);
	kvfree(cq->kept);
	return 0;
}

/* What is still unread of a queue pair that goes is nobody's. */
void cq_forget(struct cq *cq, struct qp *qp)
{
	unsigned long flags;
	struct cqe *here;
	u32 next;

	spin_lock_irqsave(&cq->lock, flags);
	next = cq->next;
	while ((here = cq_look(cq))) {
		cq->next++;
		if ((le64_to_cpu(here->pairs) & 0xFFFFFF) != qp->number)
			continue;
		here->pairs = 0;
		if (qp->srq && le64_to_cpu(here->what) & COMPLETION_RECEIVE)
			srq_end(qp->srq, le64_to_cpu(here->what) & 0xFFFF);
	}
	cq->next = next;
	spin_unlock_irqrestore(&cq->lock, flags);
}

static enum ib_wc_opcode sent_opcode(u32 operation)
{
	switch (operation) {
	case OPERATION_WRITE:
	case OPERATION_WRITE_IMM:
		return IB_WC_RDMA_WRITE;
	case OPERATION_READ:
		return IB_WC_RDMA_READ;
	case OPERATION_COMPARE_SWAP:
		return IB_WC_COMP_SWAP;
	case OPERATION_FETCH_ADD:
		return IB_WC_FETCH_ADD;
	default:
		return IB_WC_SEND;
	}
}

/* Of what was received the engine tells the opcode of its last packet. */
static enum ib_wc_opcode received_opcode(u32 opcode)
{
	switch (opcode) {
	case IB_OPCODE_RC_RDMA_WRITE_LAST_WITH_IMMEDIATE:
	case IB_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE:
		return IB_WC_RECV_RDMA_WITH_IMM;
	default:
		return IB_WC_RECV;
	}
}

/* The work request of a completion of the queue pair's own queue, which is the queue's oldest one, or behind some that are not signaled. */
static u64 queue_end(struct queue *queue, u32 index)
{
	u64 id;

	spin_lock(&queue->lock);
	id = queue->ids[index & ((1U << queue->log2) - 1)];
	queue->done += (u16)(index + 1 - queue->done);
	spin_unlock(&queue->lock);
	return id;
}

/*
 * Where the header in front of a datagram goes, if the buffer's first segment has room for it. Who posts another buffer in its
 * place has yet to be told of this one, or, of a shared queue's, this comes before it is free.
 */
static dma_addr_t header_address(const struct qp *qp, u32 index)
{
	const struct segment *ring = qp->receive.ring;
	u32 at = index & ((1U << qp->receive.log2) - 1);
	const struct segment *first = &ring[at << qp->receive.segments_log2];

	if (qp->srq)
		return srq_address(qp->srq, index, HEADER_BYTES);
	return le32_to_cpu(first->bytes) < HEADER_BYTES ? 0 : le64_to_cpu(first->address);
}

/* False: it was of a queue pair that is gone. */
static bool cq_translate(struct nic *nic, struct cq *cq, const struct cqe *here, struct ib_wc *wc)
{
	u64 what = le64_to_cpu(here->what), pairs = le64_to_cpu(here->pairs);
	u32 number = pairs & 0xFFFFFF;
	struct qp *qp = number < QUEUE_PAIRS ? READ_ONCE(nic->qps[number]) : NULL;
	bool received = what & COMPLETION_RECEIVE;
	dma_addr_t header = 0;

	if (!qp)
		return false;
	memset(wc, 0, sizeof(*wc));
	wc->qp = &qp->ib;
	wc->status = le64_to_cpu(here->status) & 0xFF;
	/* With its first error the engine has ended it. */
	if (wc->status != IB_WC_SUCCESS && qp_runs(qp))
		qp->attr.qp_state = IB_QPS_ERR;
	if (received && is_datagram(qp))
		header = header_address(qp, what & 0xFFFF);
	if (received && qp->srq)
		wc->wr_id = srq_end(qp->srq, what & 0xFFFF);
	else
		wc->wr_id = queue_end(received ? &qp->receive : &qp->send, what & 0xFFFF);
	wc->byte_len = le32_to_cpu(here->bytes);
	wc->port_num = 1;
	if (!received) {
		wc->opcode = sent_opcode(what >> 16 & 0xFF);
		return true;
	}
	wc->opcode = received_opcode(what >> 16 & 0xFF);
	if (what & COMPLETION_HAS_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = cpu_to_be32(le32_to_cpu(here->imm));
	}
	if (what & COMPLETION_HAS_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = what >> 32;
	}
	if (!is_datagram(qp) || wc->status != IB_WC_SUCCESS)
		return true;
	wc->wc_flags |= IB_WC_GRH;
	wc->src_qp = pairs >> 24 & 0xFFFFFF;
	if (qp->user) {
		wc->sl = SL_IPV4_UDP;
		cq->datagram = header;
		cq->datagram_from = what >> 32;
	} else if (header) {
		kernel_set_header(nic, header, what >> 32);
		wc->wc_flags |= IB_WC_WITH_NETWORK_HDR_TYPE;
		wc->network_hdr_type = RDMA_NETWORK_IPV4;
	}
	return true;
}

/* Up to where there are completions that can be seen. */
static u32 cq_known(struct cq *cq)
{
	u32 next = cq->next, known;

	while (cq_look(cq))
		cq->next++;
	known = cq->next;
	cq->next = next;
	return known;
}

/* An index of the ring as the engine has it: it knows of no earlier one. */
static u16 cq_index(const struct cq *cq, u32 count)
{
	s32 at = count - cq->joint;

	return at > 0 ? at : 0;
}

static void cq_tell(struct nic *nic, struct cq *cq, u64 flag)
{
	/* It may be at another ring already; when it certainly is it is told all. */
	if (cq->moving)
		return;
	cq->told = cq->next;
	nic_door(nic, 0, DOOR_COMPLETION, flag | (u64)cq->number << DOOR_NUMBER_SHIFT | cq_index(cq, cq->next));
}

/* Asks for an event; of what is on its way now it is told at once. */
static void cq_arm(struct nic *nic, struct cq *cq)
{
	cq_tell(nic, cq, DOOR_FLAG | (u64)cq_index(cq, cq_known(cq)) << DOOR_KNOWN_SHIFT);
}

static int cq_take(struct nic *nic, struct cq *cq, int count, struct ib_wc *wc)
{
	unsigned long flags;
	struct cqe *here;
	int taken = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (taken < count && (here = cq_look(cq))) {
		taken += cq_translate(nic, cq, here, &wc[taken]);
		cq->next++;
	}
	if (cq->next - cq->told >= entries(cq) / 2)
		cq_tell(nic, cq, 0);
	spin_unlock_irqrestore(&cq->lock, flags);
	return taken;
}

/* Watches all queues of a program: it may poll them in turn. */
static void watch(struct nic *nic, struct context *context)
{
	u32 i;

	for (i = 0; i < COMPLETION_QUEUES; i++) {
		struct cq *cq = READ_ONCE(nic->cqs[i]);

		if (cq && cq->context == context)
			nic_watch(nic, cq->at | (cq->log2 + ilog2(sizeof(*cq->ring)) - PAGE_SHIFT));
	}
}

static bool anything(struct nic *nic, struct context *context)
{
	u32 i;

	for (i = 0; i < COMPLETION_QUEUES; i++) {
		struct cq *cq = READ_ONCE(nic->cqs[i]);

		if (cq && cq->context == context && cq_look(cq))
			return true;
	}
	return false;
}

/* For a program, which asks for one at a time. */
static int take_for_program(struct nic *nic, struct cq *cq, struct ib_wc *wc)
{
	int taken;

	cq->datagram = 0;
	taken = cq_take(nic, cq, 1, wc);
	if (taken && cq->datagram)
		user_set_header(nic, cq->datagram, cq->datagram_from);
	if (taken)
		WRITE_ONCE(cq->context->vain, 0);
	return taken;
}

/*
 * Of a program, this is called without a spinlock. An empty queue puts it to sleep when it looks again: its code takes no
 * simulated time, so that while it looks again and again nothing can come. It may look in vain after each thing that it
 * had or did: many empty a queue before they use what was in it.
 */
int uzura_poll_cq(struct ib_cq *ib, int count, struct ib_wc *wc)
{
	struct nic *nic = to_nic(ib->device);
	struct cq *cq = to_cq(ib);
	unsigned int seen = READ_ONCE(nic->seen);
	int taken;

	if (!cq->context)
		return cq_take(nic, cq, count, wc);
	taken = take_for_program(nic, cq, wc);
	if (taken)
		return taken;
	if (READ_ONCE(cq->context->vain) < VAIN_LOOKS) {
		WRITE_ONCE(cq->context->vain, cq->context->vain + 1);
		return 0;
	}
	watch(nic, cq->context);
	if (!anything(nic, cq->context))
		wait_event_interruptible_hrtimeout(nic->looks, READ_ONCE(nic->seen) != seen,
						   ns_to_ktime(MOST_SLEEP_NS));
	return take_for_program(nic, cq, wc);
}

int uzura_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags)
{
	struct cq *cq = to_cq(ib);
	unsigned long own;
	int missed;

	spin_lock_irqsave(&cq->lock, own);
	WRITE_ONCE(cq->armed, true);
	cq_arm(to_nic(ib->device), cq);
	missed = flags & IB_CQ_REPORT_MISSED_EVENTS && cq_look(cq);
	spin_unlock_irqrestore(&cq->lock, own);
	return missed;
}

/* The engine may be at another ring, and has forgotten then that it was asked for an event. True: there is something to tell of now. */
static bool cq_moved(struct nic *nic, struct cq *cq)
{
	if (!cq->armed)
		return false;
	if (!cq_look(cq)) {
		cq_arm(nic, cq);
		return false;
	}
	WRITE_ONCE(cq->armed, false);
	return true;
}

/* Keeps what is left in the ring, or was kept of an earlier one; the next ring begins behind it. */
static void cq_keep(struct cq *cq, struct cqe *kept)
{
	u32 next = cq->next, keeps = 0;
	struct cqe *here;

	while ((here = cq_look(cq))) {
		kept[keeps++] = *here;
		cq->next++;
	}
	cq->joint = cq->next;
	cq->told = cq->next;
	cq->next = next;
	cq->keeps = keeps;
}

/* Another ring for a queue in use. */
int uzura_resize_cq(struct ib_cq *ib, int count, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct cq *cq = to_cq(ib);
	u32 log2 = count > 0 ? cq_log2(count) : 0;
	struct cqe *ring, *kept = NULL;
	unsigned long flags;
	bool tell = false;
	dma_addr_t at;
	int error = 0;

	if (!log2)
		return -EINVAL;
	ring = dma_alloc_coherent(&nic->pci->dev, sizeof(*ring) << log2, &at, GFP_KERNEL);
	if (!ring)
		return -ENOMEM;
	if (count < ib->cqe)
		usleep_range(SHRINK_US, 2 * SHRINK_US);
	spin_lock_irqsave(&cq->lock, flags);
	if (cq->moving)
		error = -EBUSY;
	else if (cq->overflown || cq_known(cq) - cq->next > count)
		error = -EINVAL;
	else
		cq->moving = true;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (error)
		goto out;
	/* As much as there can be. */
	kept = kvcalloc(entries(cq) + cq_kept(cq), sizeof(*kept), GFP_KERNEL);
	error = kept ? cq_place(nic, cq->number, at, log2) : -ENOMEM;
	spin_lock_irqsave(&cq->lock, flags);
	cq->moving = false;
	if (!error) {
		cq_keep(cq, kept);
		swap(cq->kept, kept);
		swap(cq->ring, ring);
		swap(cq->at, at);
		swap(cq->log2, log2);
		ib->cqe = count;
	}
	/* Meanwhile it was told nothing. */
	tell = cq_moved(nic, cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (tell && ib->comp_handler)
		ib->comp_handler(ib, ib->cq_context);
out:
	kvfree(kept);
	dma_free_coherent(&nic->pci->dev, sizeof(*ring) << log2, ring, at);
	return error;
}

/* Those of these queues that are new to have had no room: whatever uses one of them ends, as a completion of it is lost. */
void cq_overflows(struct nic *nic, u64 queues)
{
	unsigned long flags;
	u32 i;

	lockdep_assert_held(&nic->control);
	spin_lock_irqsave(&nic->lock, flags);
	for (i = 0; i < COMPLETION_QUEUES; i++) {
		struct cq *cq = nic->cqs[i];
		struct ib_event event = { .device = &nic->ib, .event = IB_EVENT_CQ_ERR };

		if (!(queues >> i & 1) || !cq || cq->overflown)
			continue;
		cq->overflown = true;
		event.element.cq = &cq->ib;
		if (cq->ib.event_handler)
			cq->ib.event_handler(&event, cq->ib.cq_context);
		qp_fail_those_of(nic, cq);
	}
	spin_unlock_irqrestore(&nic->lock, flags);
}

/* An armed queue has something; which one the interrupt does not say. False: none has. */
bool cq_events(struct nic *nic)
{
	unsigned long flags;
	bool any = false;
	u32 i;

	spin_lock_irqsave(&nic->lock, flags);
	for (i = 0; i < COMPLETION_QUEUES; i++) {
		struct cq *cq = nic->cqs[i];

		if (!cq || !READ_ONCE(cq->armed) || !cq_look(cq))
			continue;
		any = true;
		WRITE_ONCE(cq->armed, false);
		if (cq->ib.comp_handler)
			cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	}
	spin_unlock_irqrestore(&nic->lock, flags);
	return any;
}
