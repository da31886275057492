// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Shared receive queues. An entry names the place of the one behind it, as all free places are a list: they become free in any
 * order, and are posted in the order of the list. One place always stays free, as its end.
 */
#include <linux/bitmap.h>
#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "uzura.h"

/* A program may have half of them, so that one alone leaves some to others. */
#define MOST_OF_A_PROGRAM (SHARED_QUEUES / 2)

static u32 places(const struct srq *srq)
{
	return 1U << srq->log2;
}

static size_t entry_bytes(const struct srq *srq)
{
	return srq->listed ? sizeof(struct shared_list_entry) : sizeof(struct shared_entry);
}

static struct segment *segments_at(struct srq *srq, u32 place)
{
	return srq->ring + entry_bytes(srq) * place;
}

/* Its link lies behind the segments. */
static void set_link(struct srq *srq, u32 place, u32 to)
{
	__le64 *link = (__le64 *)&segments_at(srq, place)[srq->listed ? SHARED_SEGMENTS : 1];

	srq->links[place] = to;
	WRITE_ONCE(*link, cpu_to_le64(to));
}

/* A limit and the engine's word on it change together. */
static int srq_command(struct nic *nic, struct srq *srq, enum command command, bool used, u32 limit)
{
	u64 words[] = {
		srq->at,
		srq->log2 | (u64)srq->listed << 4 | (u64)used << 8 | (u64)to_pd(srq->ib.pd)->number << 32 |
			(u64)limit << 48,
	};
	int error;

	mutex_lock(&nic->control);
	error = nic_command_locked(nic, command, srq->number, words, ARRAY_SIZE(words));
	if (!error)
		WRITE_ONCE(srq->limit, limit);
	mutex_unlock(&nic->control);
	return error;
}

static void ring_free(struct nic *nic, struct srq *srq)
{
	if (srq->ring)
		dma_free_coherent(&nic->pci->dev, entry_bytes(srq) << srq->log2, srq->ring, srq->at);
	bitmap_free(srq->posted);
	kvfree(srq->links);
	kvfree(srq->ids);
}

static int ring_make(struct nic *nic, struct srq *srq)
{
	u32 i;

	srq->ids = kvcalloc(places(srq), sizeof(*srq->ids), GFP_KERNEL_ACCOUNT);
	srq->links = kvcalloc(places(srq), sizeof(*srq->links), GFP_KERNEL_ACCOUNT);
	srq->posted = bitmap_zalloc(places(srq), GFP_KERNEL_ACCOUNT);
	srq->ring = dma_alloc_coherent(&nic->pci->dev, entry_bytes(srq) << srq->log2, &srq->at, GFP_KERNEL);
	if (!srq->ids || !srq->links || !srq->posted || !srq->ring) {
		ring_free(nic, srq);
		return -ENOMEM;
	}
	for (i = 0; i < places(srq); i++)
		set_link(srq, i, (i + 1) & (places(srq) - 1));
	srq->head = 0;
	srq->tail = places(srq) - 1;
	return 0;
}

int uzura_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct srq *srq = to_srq(ib);
	struct ib_srq_attr *attr = &init->attr;
	unsigned long flags;
	int number, error;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > MAX_SHARED || attr->max_sge > SHARED_SEGMENTS || attr->srq_limit > attr->max_wr)
		return -EINVAL;
	srq->context = udata ? rdma_udata_to_drv_context(udata, struct context, ib) : NULL;
	if (srq->context && !atomic_add_unless(&srq->context->srqs, 1, MOST_OF_A_PROGRAM))
		return -ENOSPC;
	srq->listed = attr->max_sge > 1;
	srq->log2 = ilog2(roundup_pow_of_two(attr->max_wr + 1));
	spin_lock_init(&srq->lock);
	error = ring_make(nic, srq);
	if (error)
		goto out_count;
	number = ida_alloc_max(&nic->srq_numbers, SHARED_QUEUES - 1, GFP_KERNEL);
	if (number < 0) {
		error = number;
		goto out_ring;
	}
	srq->number = number;
	error = srq_command(nic, srq, COMMAND_BEGIN_SRQ, true, attr->srq_limit);
	if (error)
		goto out_number;
	attr->max_wr = places(srq) - 1;
	attr->max_sge = srq->listed ? SHARED_SEGMENTS : 1;
	spin_lock_irqsave(&nic->lock, flags);
	nic->srqs[number] = srq;
	spin_unlock_irqrestore(&nic->lock, flags);
	return 0;

out_number:
	ida_free(&nic->srq_numbers, number);
out_ring:
	ring_free(nic, srq);
out_count:
	if (srq->context)
		atomic_dec(&srq->context->srqs);
	return error;
}

/* Its queue pairs are gone, so that nobody takes entries any more. */
int uzura_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct srq *srq = to_srq(ib);
	unsigned long flags;
	int error = srq_command(nic, srq, COMMAND_BEGIN_SRQ, false, 0);

	if (error)
		return error;
	spin_lock_irqsave(&nic->lock, flags);
	nic->srqs[srq->number] = NULL;
	spin_unlock_irqrestore(&nic->lock, flags);
	ida_free(&nic->srq_numbers, srq->number);
	ring_free(nic, srq);
	if (srq->context)
		atomic_dec(&srq->context->srqs);
	return 0;
}

int uzura_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct srq *srq = to_srq(ib);

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	/* Its size stays. */
	if (mask & IB_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit >= places(srq))
		return -EINVAL;
	return srq_command(to_nic(ib->device), srq, COMMAND_SET_SRQ, true, attr->srq_limit);
}

int uzura_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	struct srq *srq = to_srq(ib);

	attr->max_wr = places(srq) - 1;
	attr->max_sge = srq->listed ? SHARED_SEGMENTS : 1;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

int uzura_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct nic *nic = to_nic(ib->device);
	struct srq *srq = to_srq(ib);
	int most = srq->listed ? SHARED_SEGMENTS : 1, error = 0, i;
	unsigned long flags;

	if (srq->context)
		WRITE_ONCE(srq->context->vain, 0);
	spin_lock_irqsave(&srq->lock, flags);
	for (; wr; wr = wr->next) {
		u32 place = srq->head;
		struct segment *entry = segments_at(srq, place);

		if (wr->num_sge > most || place == srq->tail) {
			error = wr->num_sge > most ? -EINVAL : -ENOMEM;
			*bad = wr;
			break;
		}
		memset(entry, 0, sizeof(*entry) * most);
		for (i = 0; i < wr->num_sge; i++)
			set_segment(&entry[i], &wr->sg_list[i]);
		srq->ids[place] = wr->wr_id;
		__set_bit(place, srq->posted);
		srq->head = srq->links[place];
		srq->next++;
	}
	dma_wmb();
	nic_door(nic, 0, DOOR_SHARED, (u64)srq->number << DOOR_NUMBER_SHIFT | (srq->next & 0xFFFF));
	nic_charge(store_ns);
	spin_unlock_irqrestore(&srq->lock, flags);
	return error;
}

/* The work request of a completion; its place is free again. */
u64 srq_end(struct srq *srq, u32 place)
{
	unsigned long flags;
	u64 id = 0;

	spin_lock_irqsave(&srq->lock, flags);
	if (!WARN_ON_ONCE(place >= places(srq) || !test_bit(place, srq->posted))) {
		id = srq->ids[place];
		__clear_bit(place, srq->posted);
		set_link(srq, srq->tail, place);
		srq->tail = place;
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return id;
}

/* Where an entry's first segment is, if it has so many bytes. */
dma_addr_t srq_address(struct srq *srq, u32 place, u32 bytes)
{
	const struct segment *first = segments_at(srq, place & (places(srq) - 1));

	return le32_to_cpu(first->bytes) < bytes ? 0 : le64_to_cpu(first->address);
}

/* A queue pair that was reset may have begun to receive: nobody completes what it holds. */
int srq_release(struct nic *nic, struct qp *qp)
{
	u32 held = 0;
	int error;

	mutex_lock(&nic->control);
	error = nic_command_locked(nic, COMMAND_LOOK_QP, qp->number, NULL, 0);
	if (!error)
		held = nic_read(nic, REG_HELD);
	mutex_unlock(&nic->control);
	if (held & HELD_YES)
		srq_end(qp->srq, held & 0xFFFF);
	return error;
}

/* ---- Events ----------------------------------------------------------------------------------------------------- */

static void limit_event(struct srq *srq)
{
	struct ib_event event = { .device = srq->ib.device, .element.srq = &srq->ib, .event = IB_EVENT_SRQ_LIMIT_REACHED };

	WRITE_ONCE(srq->limit, 0);
	if (srq->ib.event_handler)
		srq->ib.event_handler(&event, srq->ib.srq_context);
}

static void ended_event(struct qp *qp)
{
	struct ib_event event = { .device = qp->ib.device, .element.qp = &qp->ib, .event = IB_EVENT_QP_LAST_WQE_REACHED };

	qp->ended = true;
	if (qp->ib.event_handler)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

/* What the engine says of queues below their limit, and of queue pairs that have ended. `control` is held. */
void srq_events(struct nic *nic, u32 below, u64 ended)
{
	unsigned long flags;
	u32 i;

	lockdep_assert_held(&nic->control);
	spin_lock_irqsave(&nic->lock, flags);
	for (i = 0; i < SHARED_QUEUES; i++)
		if (below >> i & 1 && nic->srqs[i] && nic->srqs[i]->limit)
			limit_event(nic->srqs[i]);
	for (i = 0; i < QUEUE_PAIRS; i++)
		if (ended >> i & 1 && nic->qps[i] && nic->qps[i]->srq && !nic->qps[i]->ended)
			ended_event(nic->qps[i]);
	spin_unlock_irqrestore(&nic->lock, flags);
}
